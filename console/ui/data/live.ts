/** For views that ask the replay of a rack that is up: each answer lets it go on to where the rack is. */
import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { isPast } from "../state.ts";
import { clock } from "./rack.ts";

const LIVE_MS = 1_000;

/** Where the rack is, or was when the past was chosen; moves at most once a second. */
export const livePs = signal<number | undefined>(undefined);

export function useLive(): void {
  useEffect(() => {
    const follow = () => {
      if (!isPast.peek()) livePs.value = clock.peek()?.virtualPs;
    };
    follow();
    const timer = setInterval(follow, LIVE_MS);
    return () => clearInterval(timer);
  }, []);
}
