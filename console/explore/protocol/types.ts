/** What `rack explore --protocol` finds, as data: its document. */
import type { PathStep } from "../../../fabric/coherence/explore.ts";
import type { ProtocolRack } from "./racks.ts";

/** The states of one rack. */
export interface RackFound extends Omit<ProtocolRack, "with"> {
  /** `holds`: in every state; `broken`: with a counterexample; `partial`: in those that were reached. */
  readonly verdict: "holds" | "broken" | "partial";
  readonly states: number;
  /** Steps from one state to another that were tried. */
  readonly transitions: number;
  readonly counterexample: ProtocolCounterexample | null;
}

/** A shortest way from the beginning to what is broken. */
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
