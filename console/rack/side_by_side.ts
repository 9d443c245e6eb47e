/**
 * Racks with the same devices and cables run side by side in one set of processes, on one broker.
 */
import { accessOfLanes } from "../../fabric/bus/access.ts";
import { forEachAtOnce } from "../base/at_once.ts";
import { RackError } from "../base/rack_error.ts";
import { existingBroker, type ExistingNats } from "./existing_nats.ts";
import { type Broker, connectSupervisor, type NatsServer, startNatsServer } from "./nats_server.ts";
import type { Prepared } from "./prepare.ts";
import { ProcessSet } from "./process_set.ts";
import { writeRunFile } from "./run_directory.ts";
import { type Outcome, runFileOfProcesses, type RunOptions, runProcesses } from "./run_variant.ts";

export interface Rack {
  readonly one: Prepared;
  readonly run: RunOptions;
}

/** At once in one set of processes; more take more memory and gain no speed. */
export const LANES = 8;
export const SET_MAX = 64;

export interface SideBySideOptions {
  /** Of the set of processes, a subject token; names of its racks on the bus begin with it. */
  readonly id: string;
  readonly path: string;
  readonly nats?: ExistingNats | undefined;
  /** At once in one set; default: {@link LANES}. */
  readonly lanes?: number | undefined;
  /** Wall time after which a rack has failed; default: none. */
  readonly limitMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Called in the order of the ends. */
  readonly onEnded: (place: number, outcome: Outcome) => void;
  /**
   * A rack has failed by itself, and the others go on; absent: the first failure ends all, and is
   * thrown.
   */
  readonly onFailed?: (place: number, error: unknown) => void;
}

/**
 * Racks that may share processes come first, several at once, then the others. A process dies for
 * all of its racks, so a rack whose plan ends a process has its own; and where a shared process
 * fails, its racks run again, each alone, which shows whose failure it was.
 */
export async function runSideBySide(
  racks: readonly Rack[],
  options: SideBySideOptions,
): Promise<void> {
  const groups = Map.groupBy(racks.keys(), (place) => brokerOf(racks[place]!.one));
  for (const places of groups.values()) {
    const server = await brokerFor(racks[places[0]!]!, options);
    try {
      await runGroup(racks, places, { ...options, broker: server });
    } finally {
      await server.stop();
    }
  }
}

/** Racks with equal users and rights, thus devices and cables, can share a broker. */
function brokerOf({ plan, partitions }: Prepared): string {
  return JSON.stringify([...accessOfLanes({ plan, partitions })]);
}

async function brokerFor(
  { one }: Rack,
  { path, nats, signal }: SideBySideOptions,
): Promise<Broker & Pick<NatsServer, "stop">> {
  if (nats !== undefined) {
    return { ...await existingBroker(nats, one), stop: () => Promise.resolve() };
  }
  return await startNatsServer({ dir: path, users: accessOfLanes(one), keepUp: true, signal });
}

async function runGroup(
  racks: readonly Rack[],
  places: readonly number[],
  options: SideBySideOptions & { readonly broker: Broker },
): Promise<void> {
  const { broker, signal, limitMs, lanes: atOnce = LANES, onEnded, onFailed } = options;
  const runOne = async (place: number, { processes, signal, fail }: Manner) => {
    const { one, run } = racks[place]!;
    const late = new AbortController();
    const timer = limitMs === undefined ? undefined : setTimeout(() => {
      const error = new RackError(noEndText(limitMs));
      late.abort(error);
      // A process that a program holds up cannot leave a rack: the set has to end.
      fail?.(error);
    }, limitMs);
    const ending = AbortSignal.any([late.signal, ...signal === undefined ? [] : [signal]]);
    try {
      onEnded(place, await runProcesses(one, { ...run, broker, processes, signal: ending }));
    } finally {
      clearTimeout(timer);
    }
  };
  const runAlone = async (place: number) => {
    try {
      await runOne(place, { signal });
    } catch (error) {
      signal?.throwIfAborted();
      if (onFailed === undefined) throw error;
      onFailed(place, error);
    }
  };
  const [laned, alone] = lanedAndAlone(racks, places);
  for (let left = laned; left.length > 0;) {
    const now = left.slice(0, SET_MAX), begun = new Set<number>(), ended = new Set<number>();
    try {
      const shared = now.map((place) => racks[place]!);
      await inOneSet(shared, options, (manner) =>
        forEachAtOnce(now, async (place) => {
          begun.add(place);
          await runOne(place, manner);
          ended.add(place);
        }, { atOnce, onFailure: manner.fail }));
    } catch (error) {
      signal?.throwIfAborted();
      if (onFailed === undefined) throw error;
      for (const place of begun) {
        if (ended.has(place)) continue;
        await forgetRun(racks[place]!);
        await runAlone(place);
      }
    }
    left = left.filter((place) => !begun.has(place));
  }
  for (const place of alone) await runAlone(place);
}

export function noEndText(limitMs: number): string {
  return `No end within ${limitMs / 1_000} s of wall time`;
}

interface Manner {
  readonly signal: AbortSignal | undefined;
  readonly processes?: ProcessSet;
  readonly fail?: (error: unknown) => void;
}

function lanedAndAlone(
  racks: readonly Rack[],
  places: readonly number[],
): [laned: readonly number[], alone: readonly number[]] {
  const { laned = [], alone = [] } = Object.groupBy(
    places,
    (place) => endsAProcess(racks[place]!.one) ? "alone" : "laned",
  );
  return laned.length > 1 ? [laned, alone] : [[], places];
}

async function forgetRun({ run: { directory } }: Rack): Promise<void> {
  for await (const { name } of Deno.readDir(directory)) {
    if (name !== "inputs") await Deno.remove(`${directory}/${name}`, { recursive: true });
  }
}

/** A power failure of a partition with one device, by the timekeeper. */
function endsAProcess({ plan, partitions }: Prepared): boolean {
  const alone = partitions.filter(({ nodes }) => nodes.length === 1).flatMap(({ nodes }) => nodes);
  return plan.faults.some(({ node }) => alone.includes(node));
}

async function inOneSet(
  racks: readonly Rack[],
  { id, path, broker, signal: ending }: SideBySideOptions & { readonly broker: Broker },
  work: (manner: Required<Manner>) => Promise<void>,
): Promise<void> {
  await Deno.mkdir(`${path}/logs`, { recursive: true, mode: 0o700 });
  const runFiles = await Promise.all(
    racks.map(({ one, run }) => writeRunFile(runFileOfProcesses(one, run))),
  );
  const bus = await connectSupervisor(broker, { run: id, onError: () => {} });
  const processes = new ProcessSet({ run: id, bus, directory: path, runFiles });
  const failed = new AbortController();
  const signal = AbortSignal.any([failed.signal, ...ending === undefined ? [] : [ending]]);
  const end = () => void processes.end();
  signal.addEventListener("abort", end);
  try {
    signal.throwIfAborted();
    await work({ processes, signal, fail: (error) => failed.abort(error) });
  } finally {
    signal.removeEventListener("abort", end);
    await processes.end();
    await bus.close();
  }
}
