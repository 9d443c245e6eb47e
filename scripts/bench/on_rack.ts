/** A rack for a measure: it is down when the measure has ended, also by an interrupt. */
import { bringUp } from "../../console/rack/bring_up.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import type { RackUp } from "../../console/rack/live/racks.ts";
import { onInterrupt } from "../commands/interrupt.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

type Prepare = Parameters<typeof bringUp>[1]["prepare"];

/** @throws the measure's error, or the signal's reason. */
export function onRack<T>(
  scenario: string,
  prepare: Prepare,
  measure: (rack: RackUp) => Promise<T>,
): Promise<T> {
  const signal = onInterrupt("taking the bench's rack down");
  return held(measure, {
    signal,
    up: async () => await bringUp(await readScenario(scenario), { prepare, signal }),
    down: ({ id: run }) => takeRacksDown({ run }),
  });
}

/**
 * Taken down when its use ends or the signal is aborted. A use may wait for a page or a clock that
 * knows no signal: it is then abandoned.
 */
export async function held<R, T>(
  use: (held: R) => Promise<T>,
  { signal, up, down }: {
    readonly signal: AbortSignal;
    readonly up: () => Promise<R>;
    readonly down: (held: R) => Promise<unknown>;
  },
): Promise<T> {
  signal.throwIfAborted();
  const interrupted = Promise.withResolvers<never>();
  const interrupt = () => interrupted.reject(signal.reason);
  signal.addEventListener("abort", interrupt);
  const rack = await up();
  try {
    return await Promise.race([use(rack), interrupted.promise]);
  } finally {
    signal.removeEventListener("abort", interrupt);
    await down(rack);
  }
}
