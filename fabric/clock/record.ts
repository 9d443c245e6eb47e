/** What a run leaves of its clock: power failures as they happened, how it ended, which partition waits for which. */
import { decode, encode } from "../bus/codec.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import { isProgram, type RunOrder } from "./clock.ts";
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
 * A program that was started by order, as it took effect. A restarted timekeeper sends it again, and a
 * replay starts it at this instant.
 */
export interface RecordedOrder extends RunOrder {
  /** The life of the host's partition that it is for. */
  readonly incarnation: number;
}

/** An order as a line of JSON: what the program is given, content included, as the bus carried it. */
export function orderToLine({ program, ...order }: RecordedOrder): object {
  return { ...order, run: program.run, program: encode(program).toBase64() };
}

/** @throws Error for what {@link orderToLine} has not made. */
export function orderFromLine(line: unknown): RecordedOrder {
  const { at, host, counter, incarnation, program: text } = Object(line);
  const program = typeof text === "string" ? decode(Uint8Array.fromBase64(text)) : undefined;
  const isWhole = [at, counter, incarnation].every(Number.isSafeInteger) &&
    typeof host === "string" && isProgram(program);
  if (!isWhole) {
    throw new Error("Found a damaged order on record: expected an instant and a program");
  }
  return { at, host, counter, incarnation, program: program as ProgramPlan };
}

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

/**
 * How far a run had come, as its timekeeper knew it last: what its replay has to equal. Partitions stand
 * at instants of their own.
 */
export interface ClockEnd extends Pick<Summary, "digest" | "virtualPs" | "events" | "exact"> {
  /** Whether nothing would have happened any more. */
  readonly isFinished: boolean;
  readonly partitions: readonly PartitionEnd[];
}

export interface PartitionEnd {
  readonly partition: string;
  /** The digests are those of all events before this; null where it has no power and has had its last. */
  readonly reached: Time | null;
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string, events: number]>;
}

/** One line of the answer to "why is time not moving?". */
export interface MemberStatus
  extends Pick<Member, "status" | "sinceMs" | "next" | "reached" | "now" | "events"> {
  readonly partition: string;
  /** The partition whose next event keeps this one from running, "" where it may run or is done. */
  readonly heldBy: string;
}
