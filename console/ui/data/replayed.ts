import { type ReadonlySignal, useSignal, useSignalEffect } from "@preact/signals";
import type { Time } from "../../../fabric/base/time.ts";
import { run } from "../state.ts";
import { clock, variant } from "./rack.ts";
import { replayedAt, shownAt } from "./shown.ts";

export interface Replayed<T> {
  readonly value: T | undefined;
  readonly trouble: string;
}

/** `at` undefined: the present. */
export interface ReplayQuery {
  readonly at?: Time;
  readonly variant: string | undefined;
}

const AGAIN_MS = 2_000;

/**
 * What the replay says of the instant that is shown; of a rack that moves, again at most every two
 * seconds.
 * @param again asks anew whenever it changes.
 */
export function useReplayed<T>(
  get: (run: string, query: ReplayQuery) => Promise<T>,
  again?: ReadonlySignal<unknown>,
): ReadonlySignal<Replayed<T>> {
  const replayed = useSignal<Replayed<T>>({ value: undefined, trouble: "" });
  const asked = useSignal(-AGAIN_MS);
  useSignalEffect(() => {
    const id = run.value, at = shownAt.value;
    void again?.value;
    if (id === undefined || (replayedAt.value === undefined && clock.value === null)) return;
    const waitMs = Math.max(0, asked.peek() + AGAIN_MS - performance.now());
    let timer: ReturnType<typeof setTimeout>, isGone = false;
    const ask = async () => {
      asked.value = performance.now();
      try {
        const value = await get(id, {
          ...(replayedAt.peek() !== undefined && { at }),
          variant: variant.peek(),
        });
        // A rack that moves is asked anew before it has answered; of the past, only the last counts.
        const isMeant = !isGone || (run.peek() === id && replayedAt.peek() === undefined);
        if (isMeant) replayed.value = { value, trouble: "" };
      } catch (error) {
        if (isGone) return;
        replayed.value = { value: undefined, trouble: (error as Error).message };
        // A rack that stands changes nothing that would ask again.
        timer = setTimeout(ask, AGAIN_MS);
      }
    };
    timer = setTimeout(ask, replayedAt.value === undefined ? waitMs : 0);
    return () => {
      isGone = true;
      clearTimeout(timer);
    };
  });
  return replayed;
}
