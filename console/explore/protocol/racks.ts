/**
 * The small racks in which a protocol of coherent cards is explored; and the document of
 * `rack explore --protocol`.
 */
import type { Exploration, PathStep } from "../../../fabric/coherence/explore.ts";

export interface ProtocolRack {
  readonly computers: number;
  readonly lines: number;
  /** Possible events besides loads, stores and evictions; `what` is for messages. */
  readonly what: string;
  readonly with: NonNullable<Exploration["with"]>;
}

export const PROTOCOL_RACKS: readonly ProtocolRack[] = [
  { computers: 2, lines: 1, what: "ownership, flushes", with: ["own", "flush"] },
  { computers: 2, lines: 1, what: "verbs beside the cores", with: ["verbs"] },
  { computers: 2, lines: 2, what: "loads, stores, evictions alone", with: [] },
  { computers: 2, lines: 1, what: "the copy moves at any time", with: ["moves"] },
  { computers: 2, lines: 1, what: "ownership, one fault and its return", with: ["own", "losses"] },
  { computers: 3, lines: 1, what: "ownership", with: ["own"] },
];

export function explorationOf(
  { computers, lines, with: also }: ProtocolRack,
): Pick<Exploration, "size" | "with"> {
  const one = { lines: 1, writeBacks: 1 };
  const home = { slots: 1, entries: 1, localCache: one };
  return { size: { fars: computers - 1, lines, remoteCache: one, home }, with: also };
}

export interface RackFound extends Omit<ProtocolRack, "with"> {
  /** `holds`: in every state; `broken`: with a counterexample; `partial`: in those that were reached. */
  readonly verdict: "holds" | "broken" | "partial";
  readonly states: number;
  readonly transitions: number;
  readonly counterexample: ProtocolCounterexample | null;
}

/** A shortest way from the beginning to the broken rule. */
export interface ProtocolCounterexample {
  readonly found: string;
  readonly steps: readonly PathStep[];
}

export interface ProtocolExplored {
  readonly protocol: string;
  /** `home idle free: GetS`. */
  readonly rows: readonly string[];
  /** Rows that no rack has met. */
  readonly unmet: readonly string[];
  /** `unchecked`: the racks hold, and have met none of the rows. */
  readonly verdict: RackFound["verdict"] | "unchecked";
  readonly racks: readonly RackFound[];
}
