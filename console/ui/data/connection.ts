/** Whether the console's server answers: the feed sees it, and requests give up by it. */
import { effect, signal } from "@preact/signals";

/** `since`: wall time in ms since 1970. */
export type Connection =
  | { readonly state: "connecting" | "live" }
  | { readonly state: "interrupted"; readonly since: number; readonly why: string };

export const connection = signal<Connection>({ state: "connecting" });

export function interrupted(why: string): void {
  if (connection.peek().state === "interrupted") return;
  connection.value = { state: "interrupted", since: Date.now(), why };
}

export const NO_ANSWER = "The console's server does not answer";

/** A request may take its time while the server is known to be there; after so long without, no more. */
const GIVEN_UP_MS = 6_000;

/** Aborts when the server has been away for some time. Its user calls `end`. */
export function whileAnswered(): { readonly signal: AbortSignal; readonly end: () => void } {
  const away = new AbortController();
  let timer: ReturnType<typeof setTimeout> | undefined;
  const leave = effect(() => {
    clearTimeout(timer);
    if (connection.value.state !== "interrupted") return;
    timer = setTimeout(() => away.abort(), GIVEN_UP_MS);
  });
  return {
    signal: away.signal,
    end: () => {
      leave();
      clearTimeout(timer);
    },
  };
}
