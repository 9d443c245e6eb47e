/** What an agent of the protocol gives back, beside its new state. */
import type { Answer, BusMessage, WireMessage } from "./messages.ts";

/** Filled by the agents' functions; the caller sends what is in it, in order, and empties it. */
export interface Output {
  readonly wire: WireMessage[];
  readonly bus: BusMessage[];
  readonly answers: Answer[];
  /** Lines whose last value is gone (C-10). */
  readonly lost: number[];
}

export function newOutput(): Output {
  return { wire: [], bus: [], answers: [], lost: [] };
}
