/** What an agent of the protocol gives back, beside its new state. */
import type { FarState } from "./far_card_table.ts";
import type { AccessCounts, Agent, Answer, BusMessage, WireMessage } from "./messages.ts";

/** Filled by the agents' functions; the caller sends what is in it, in order, and empties it. */
export interface Output {
  readonly wire: WireMessage[];
  readonly bus: BusMessage[];
  readonly answers: Answer[];
  /** Lines whose last value is gone (C-10). */
  readonly lost: number[];
  /** Lines of which something has changed, in this order: a card shows their states, and tells who waits for one. */
  readonly changed: number[];
  /** States that lines of a far card, or of the local cache, have taken one after the other: also those of one step. */
  readonly states: { readonly line: number; readonly state: FarState }[];
  /** Of home's card: requests of a line that are taken, that begin, and that end without having begun. */
  readonly turns: Turn[];
  /** Of home's card: what far cards have counted, for the judge on home's core (decision 17). */
  readonly counts: {
    readonly agent: Agent;
    readonly region: number;
    readonly counts: AccessCounts;
  }[];
}

/** What becomes of a request at home's card. */
export interface Turn {
  readonly step: "taken" | "begun" | "dropped";
  /** Of a `FlushRange` one of its lines. */
  readonly line: number;
  readonly message: WireMessage;
}

export function newOutput(): Output {
  return {
    wire: [],
    bus: [],
    answers: [],
    lost: [],
    changed: [],
    states: [],
    turns: [],
    counts: [],
  };
}

/** Lines as ranges, for reports of what is lost: `[3, 4, 5, 9]` is three lines from 3 on, and 9. */
export function rangesOf(
  lines: readonly number[],
): { readonly line: number; readonly lines: number }[] {
  const ranges: { line: number; lines: number }[] = [];
  for (const line of [...new Set(lines)].sort((a, b) => a - b)) {
    const last = ranges.at(-1);
    if (last !== undefined && last.line + last.lines === line) last.lines++;
    else ranges.push({ line, lines: 1 });
  }
  return ranges;
}
