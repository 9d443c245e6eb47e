/** The results of an agent of the protocol, beside its new state. */
import type { FarState } from "./far_card_table.ts";
import type { AccessCounts, Agent, WireMessage } from "../wire/roce/coherence_messages.ts";
import type { Answer } from "./access.ts";
import type { BusMessage } from "../wire/host_bus/region_messages.ts";

/** Filled by the agents' functions; the caller sends its messages, in order, and empties it. */
export interface Output {
  readonly wire: WireMessage[];
  readonly bus: BusMessage[];
  readonly answers: Answer[];
  /** Lines whose last value is lost (C-10). */
  readonly lost: number[];
  /** Changed lines, in this order: a card shows their states, and notifies a waiting core. */
  readonly changed: number[];
  /** All successive states of lines of a far card, or of the local cache, even within one step. */
  readonly states: { readonly line: number; readonly state: FarState }[];
  /** Home's card's requests that were taken, begun, or dropped before they began. */
  readonly turns: Turn[];
  /** Far cards' counts at home's card, for the judge on home's core (decision 17). */
  readonly counts: {
    readonly agent: Agent;
    readonly region: number;
    readonly counts: AccessCounts;
  }[];
}

/** A change of a request's state at home's card. */
export interface Turn {
  readonly step: "taken" | "begun" | "dropped";
  /** For a `FlushRange`, one of its lines. */
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

/** Lines as ranges, for reports of losses: `[3, 4, 5, 9]` is three lines from 3 on, and 9. */
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
