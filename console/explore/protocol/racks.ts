/**
 * The small racks in which a protocol of coherent cards is explored, in every state that they can reach; and what
 * `rack explore --protocol` finds of them, as data: its document.
 */
import type { Exploration, PathStep } from "../../../fabric/coherence/explore.ts";

/** A rack, as far as it is not the same for all: everything in it is one entry long. */
export interface ProtocolRack {
  readonly computers: number;
  readonly lines: number;
  /** Possible events besides loads, stores and evictions, for messages. */
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

/** The explorer's input for a rack. */
export function explorationOf(
  { computers, lines, with: also }: ProtocolRack,
): Pick<Exploration, "size" | "with"> {
  const one = { lines: 1, writeBacks: 1 };
  const home = { slots: 1, entries: 1, localCache: one };
  return { size: { fars: computers - 1, lines, remoteCache: one, home }, with: also };
}

/** The states of one rack. */
export interface RackFound extends Omit<ProtocolRack, "with"> {
  /** `holds`: in every state; `broken`: with a counterexample; `partial`: in those that were reached. */
  readonly verdict: "holds" | "broken" | "partial";
  readonly states: number;
  /** Steps from one state to another that were tried. */
  readonly transitions: number;
  readonly counterexample: ProtocolCounterexample | null;
}

/** A shortest way from the beginning to the broken rule. */
export interface ProtocolCounterexample {
  readonly found: string;
  readonly steps: readonly PathStep[];
}

export interface ProtocolExplored {
  /** The protocol's file. */
  readonly protocol: string;
  /** Its rows: `home idle free: GetS`. */
  readonly rows: readonly string[];
  /** Of these, rows that no rack has met. */
  readonly unmet: readonly string[];
  /** `unchecked`: the racks hold, and have met none of the rows. */
  readonly verdict: RackFound["verdict"] | "unchecked";
  readonly racks: readonly RackFound[];
}
