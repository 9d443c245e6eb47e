/** What a run leaves of its clock: power failures as they happened, how it ended, which partition waits for which. */
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { Member } from "./member.ts";
import type { DigestRow } from "./power_state.ts";
import type { Time } from "../base/time.ts";

/** A power failure or return as it happened, with what a restarted timekeeper could not ask for. */
export interface RecordedFault {
  readonly at: Time;
  readonly action: "kill" | "start";
  readonly partition: string;
  readonly nodes: readonly string[];
  /** The process that died, or was given power; "" where it was not known. */
  readonly instance: string;
  readonly incarnation: number;
  readonly settledSpan: number;
  readonly digests: readonly DigestRow[];
  /** Messages that the ended life had sent to each peer in all, as it had reported. */
  readonly sent: ReadonlyArray<readonly [peer: string, count: number]>;
}

/** A fault of a cable that was ordered while the rack ran. */
export interface RecordedLinkFault {
  readonly at: Time;
  readonly action: "link";
  /** It is no partition's. */
  readonly partition: "";
  readonly nodes: readonly [];
  /** Tells the order from others: its sender may have repeated it. */
  readonly token: string;
  readonly fault: LinkFaultPlan;
}

export type Recorded = RecordedFault | RecordedLinkFault;

/**
 * News on `control.power`, at once when a power failure or return is on record. The bus may lose one:
 * a gap in the numbers says so, and `control.faults` has them all.
 */
export interface PowerNews extends Pick<RecordedFault, "at" | "action" | "partition" | "nodes"> {
  /** Number in the record, from 0. */
  readonly number: number;
}

/** What has to be on record before it takes effect could not be written down: a full disk. */
export class RecordError extends Error {
  override readonly name = "RecordError";
}

export interface Summary {
  readonly reason: "quiet" | "until";
  readonly digest: string;
  readonly virtualPs: Time;
  readonly events: number;
  readonly grants: number;
  /** False where messages were lost with the process that sent them: the run cannot be replayed. */
  readonly exact: boolean;
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string]>;
}

/** One line of the answer to "why is time not moving?". */
export interface MemberStatus
  extends Pick<Member, "status" | "sinceMs" | "next" | "reached" | "now" | "events"> {
  readonly partition: string;
  /** The partition whose next event keeps this one from running, "" where it may run or is done. */
  readonly heldBy: string;
}
