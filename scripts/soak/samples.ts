import { NEVER } from "../../fabric/base/time.ts";
import type { RackLink } from "../../console/rack/live/racks.ts";
import { readProcesses, residentBytes } from "../../console/rack/process_table.ts";
import type { LiveRack } from "./live_rack.ts";
import { type Growth, growthOf, type Sample } from "./growth.ts";

export interface FlatRow extends Growth {
  readonly name: string;
  readonly what:
    | "resident MB"
    | "descriptors"
    | "verbs objects"
    | "allocated KiB"
    | "heap MB"
    | "DOM nodes"
    | "replay MB";
  readonly isFlat: boolean;
}

/**
 * From the first quarter to the last. V8 returns memory at times of its own: with the same objects,
 * a host's resident memory varies by that much.
 */
const LIMITS: Readonly<Record<FlatRow["what"], number>> = {
  "resident MB": 32,
  "descriptors": 4,
  "verbs objects": 0,
  // Of the last client of a service, by the size of its messages.
  "allocated KiB": 256,
  // Of a page: it knows the rack's power failures and faults, and has as many marks of them as
  // there is room for.
  "heap MB": 8,
  "DOM nodes": 2_500,
  // It keeps more and more of a run, up to its limit: see MOST.
  "replay MB": Infinity,
};

const MOST: Readonly<Partial<Record<FlatRow["what"], number>>> = {
  // Details of 256 MiB twice, of the present and of an earlier instant, the heap, the rack's own
  // memory, times of events.
  "replay MB": 1_200,
};

const OBJECTS = [
  "queuePairs",
  "completionQueues",
  "sharedReceiveQueues",
  "memoryRegions",
] as const;

export class Samples {
  readonly #series = new Map<string, Sample[]>();
  #taken = 0;

  get taken(): number {
    return this.#taken;
  }

  /** When the rack is at rest; devices without power are left out. */
  async take({ link }: LiveRack, transfers: number): Promise<void> {
    this.#taken++;
    await atRest(link);
    const add = (name: string, what: FlatRow["what"], value: number) =>
      this.add({ name, what, transfers, value });
    for (const { name, pid } of readProcesses(link.rack.directory)) {
      const bytes = pid === null ? 0 : residentBytes(pid);
      if (bytes === 0) continue;
      add(name, "resident MB", bytes / 1e6);
      const descriptors = descriptorsOf(pid!);
      if (descriptors !== undefined) add(name, "descriptors", descriptors);
    }
    for (const { name } of link.rack.file.partitions) {
      const final = await link.control.finalIfPowered(name);
      for (const [node, all] of Object.entries(final?.statistics ?? {})) {
        const objects = OBJECTS.map((each) => all[each]).filter((each) => each !== undefined);
        if (objects.length > 0) {
          add(node, "verbs objects", objects.reduce((sum, each) => sum + each, 0));
        }
        const allocated = all["dramAllocatedBytes"];
        if (allocated !== undefined) add(node, "allocated KiB", allocated / 1024);
      }
    }
  }

  add({ name, what, transfers, value }: Pick<FlatRow, "name" | "what"> & Sample): void {
    const key = `${name}/${what}`;
    const series = this.#series.get(key) ?? [];
    this.#series.set(key, series);
    series.push({ transfers, value });
  }

  residentMb(): number {
    return [...this.#series].filter(([key]) => key.endsWith("/resident MB"))
      .reduce((sum, [, series]) => sum + series.at(-1)!.value, 0);
  }

  rows(): FlatRow[] {
    return [...this.#series].flatMap(([key, series]): FlatRow[] => {
      const [name, what] = key.split("/") as [string, FlatRow["what"]];
      const growth = growthOf(series);
      if (growth === undefined) return [];
      const most = Math.max(...series.map(({ value }) => value));
      const isFlat = growth.growth <= LIMITS[what] && most <= (MOST[what] ?? Infinity);
      return [{ name, what, ...growth, isFlat }];
    });
  }
}

const REST_MS = 10_000;

/** Programs whose result has come may still be about to free their objects. */
async function atRest({ control }: RackLink): Promise<void> {
  const signal = AbortSignal.timeout(REST_MS);
  await control.waitFor(({ next }) => next === NEVER, { signal }).catch((error) => {
    if (!signal.aborted) throw error;
  });
}

/** Undefined where the process has ended. */
function descriptorsOf(pid: number): number | undefined {
  try {
    return [...Deno.readDirSync(`/proc/${pid}/fd`)].length;
  } catch {
    return undefined;
  }
}
