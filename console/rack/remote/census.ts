/** Which racks a server of the bus carries, and waiting for one. */
import type { Bus } from "../../../fabric/bus/bus.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { type RunHere, takeCensus } from "../../../fabric/clock/census.ts";

const ASK_AGAIN_MS = 500, SAY_AFTER_MS = 10_000;

export interface CensusOptions {
  readonly signal?: AbortSignal | undefined;
  /** What is missing, each time that ten seconds have passed. */
  readonly onWaiting?: (why: string) => void;
}

/** All runs that answer within {@link SETTLE_MS} after the first. */
export async function runsHere(
  bus: Bus,
  { forMs, ...options }: CensusOptions & { readonly forMs: number },
): Promise<readonly RunHere[]> {
  const beganMs = performance.now();
  let firstMs: number | undefined;
  return await untilFound(bus, {
    ...options,
    missing: () => "Waiting for a rack: no run is there yet",
    choose(here) {
      const now = performance.now();
      if (here.length > 0) firstMs ??= now;
      const isSettled = firstMs !== undefined && now - firstMs >= SETTLE_MS;
      return isSettled || now - beganMs >= forMs ? here : undefined;
    },
  });
}

/** Of the runs, the one of that name, else those whose names begin so; without a name, all. */
export function runsNamed(all: readonly RunHere[], name: string | undefined): readonly RunHere[] {
  if (name === undefined) return all;
  const exact = all.filter(({ run }) => run === name);
  return exact.length > 0 ? exact : all.filter(({ run }) => run.startsWith(name));
}

const LOOK_MS = 25, SETTLE_MS = 300;

/**
 * Asks again and again, until one of the runs is chosen.
 * @param options.missing what `onWaiting` is told, of the runs that are there.
 * @throws what `choose` throws; the signal's reason.
 */
export async function untilFound<T>(
  bus: Bus,
  { signal, onWaiting, missing, choose }: CensusOptions & {
    readonly missing: (here: readonly RunHere[]) => string;
    readonly choose: (here: readonly RunHere[]) => T | undefined;
  },
): Promise<T> {
  const here = new Map<string, RunHere>();
  const census = takeCensus(bus, (each) => here.set(each.run, each));
  try {
    const beganMs = performance.now();
    for (let askMs = beganMs, sayMs = beganMs + SAY_AFTER_MS;;) {
      signal?.throwIfAborted();
      const found = choose([...here.values()]);
      if (found !== undefined) return found;
      const now = performance.now();
      if (now >= askMs) {
        census.ask();
        askMs = now + ASK_AGAIN_MS;
      }
      if (now >= sayMs) {
        onWaiting?.(missing([...here.values()]));
        sayMs = now + SAY_AFTER_MS;
      }
      await sleep(LOOK_MS);
    }
  } finally {
    census.close();
  }
}
