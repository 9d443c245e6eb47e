/** What a run leaves of its clock: power failures as they happened, how it ended, which partition waits for which. */
import { decode, encode } from "../bus/codec.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import { SHUTDOWN } from "../rack/plan/vocabulary.ts";
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
  /** Of an orderly shutdown: when the host's power goes off. It follows from the program. */
  readonly powerOffAt?: Time;
}

/** What an order of an orderly shutdown gives the host. @param withinPs when its power goes off, from the order on. */
export function shutdownProgram(withinPs: Time): ProgramPlan {
  return { run: SHUTDOWN, at: 0, service: false, options: { withinPs } };
}

/** When the power of the host goes off that an order shuts down; undefined for an order of a program. */
export function powerOffAt({ at, program }: Pick<RunOrder, "at" | "program">): Time | undefined {
  if (program.run !== SHUTDOWN) return undefined;
  const { withinPs } = program.options;
  if (Number.isSafeInteger(withinPs)) return at + (withinPs as Time);
  throw new Error("Found a damaged order on record: expected a shutdown's time");
}

/** What is known of the orders before one: `done`: every one has been carried out, or its life is over. */
export type OrdersBefore = "done" | "open";

/** An order on record: a line of JSON, and beside it the content that the program was given. */
export interface OrderOnRecord {
  readonly line: object;
  /** To be kept under the order's number. */
  readonly content?: Uint8Array;
}

/** Everything that the program is given, as the bus carried it. */
export function orderOnRecord(
  { program, powerOffAt: _, ...order }: RecordedOrder,
): OrderOnRecord {
  const { content, ...options } = program.options;
  const isApart = content instanceof Uint8Array;
  const rest = encode(isApart ? { ...program, options } : program).toBase64();
  const line = { ...order, run: program.run, program: rest };
  return isApart ? { line: { ...line, contentBytes: content.length }, content } : { line };
}

/**
 * The order of a line. Content is read when the program is asked for: a timekeeper that restarts has all
 * orders of a run before it, and hands out those of the last moment.
 * @param contentOf what was kept under the order's number; undefined where there is nothing.
 * @throws Error for what {@link orderOnRecord} has not made, and so does `program`.
 */
export function orderFromLine(
  line: unknown,
  contentOf: (counter: number) => Uint8Array | undefined,
): RecordedOrder {
  const { at, host, counter, incarnation, program: text, contentBytes } = Object(line);
  const found = typeof text === "string" ? decode(Uint8Array.fromBase64(text)) : undefined;
  const isWhole = [at, counter, incarnation].every(Number.isSafeInteger) &&
    typeof host === "string" && isProgram(found);
  if (!isWhole) {
    throw new Error("Found a damaged order on record: expected an instant and a program");
  }
  const order = { at, host, counter, incarnation }, program = found as ProgramPlan;
  if (contentBytes === undefined) {
    const offAt = powerOffAt({ at, program });
    return { ...order, program, ...(offAt !== undefined && { powerOffAt: offAt }) };
  }
  return {
    ...order,
    get program() {
      const content = contentOf(counter);
      if (content?.length !== contentBytes) {
        const found = content === undefined ? "none" : `one of ${content.length} B`;
        throw new Error(
          `Found ${found}, expected the content of order ${counter}: ${contentBytes} B`,
        );
      }
      return { ...program, options: { ...program.options, content } };
    },
  };
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
  /** It was written on the way: what came behind it is not known. */
  readonly isOnTheWay?: true;
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
