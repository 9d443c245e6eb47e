import { decode, encode } from "../bus/codec.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import { SHUTDOWN } from "../rack/plan/vocabulary.ts";
import { isProgram, type RunOrder } from "./clock.ts";
import type { Member } from "./member.ts";
import type { DigestRow } from "./power_state.ts";
import type { Time } from "../base/time.ts";

/** With the data that a restarted timekeeper could not ask for. */
export interface RecordedFault {
  readonly at: Time;
  readonly action: "kill" | "start";
  readonly partition: string;
  readonly nodes: readonly string[];
  /** The process that died, or was given power; "" if unknown. */
  readonly instance: string;
  readonly incarnation: number;
  readonly settledSpan: number;
  readonly digests: readonly DigestRow[];
  readonly sent: ReadonlyArray<readonly [peer: string, count: number]>;
}

export interface RecordedLinkFault {
  readonly at: Time;
  readonly action: "link";
  readonly partition: "";
  readonly nodes: readonly [];
  readonly token: string;
  readonly fault: LinkFaultPlan;
}

export type Recorded = RecordedFault | RecordedLinkFault;

/** A restarted timekeeper sends the program again, and a replay starts it at this instant. */
export interface RecordedOrder extends RunOrder {
  readonly incarnation: number;
  readonly powerOffAt?: Time;
}

export function shutdownProgram(withinPs: Time): ProgramPlan {
  return { run: SHUTDOWN, at: 0, service: false, options: { withinPs } };
}

/** Undefined for an order of a program. */
export function powerOffAt({ at, program }: Pick<RunOrder, "at" | "program">): Time | undefined {
  if (program.run !== SHUTDOWN) return undefined;
  const { withinPs } = program.options;
  if (Number.isSafeInteger(withinPs)) return at + (withinPs as Time);
  throw new Error("Found a damaged order on record: expected a shutdown's time");
}

/** `done`: each earlier order has been carried out, or its life is over. */
export type OrdersBefore = "done" | "open";

export interface OrderOnRecord {
  readonly line: object;
  readonly content?: Uint8Array;
}

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
 * The content is read when the program is asked for: a restarted timekeeper has all orders of a run
 * before it, and hands out only the last ones.
 * @param contentOf undefined if there is none.
 * @throws Error for a line that {@link orderOnRecord} has not made, and so does `program`.
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
 * On `control.power`. The bus may lose one: a gap in the numbers shows it, and `control.faults` has
 * them all.
 */
export interface PowerNews extends Pick<RecordedFault, "at" | "action" | "partition" | "nodes"> {
  readonly number: number;
}

/** A record that must precede its effect could not be written: a full disk. */
export class RecordError extends Error {
  override readonly name = "RecordError";
}

export interface Summary {
  readonly reason: "quiet" | "until";
  readonly digest: string;
  readonly virtualPs: Time;
  readonly events: number;
  readonly grants: number;
  /** False if messages were lost with their sender's process: the run cannot be replayed. */
  readonly exact: boolean;
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string]>;
}

/** A replay has to equal it. Partitions stand at instants of their own. */
export interface ClockEnd extends Pick<Summary, "digest" | "virtualPs" | "events" | "exact"> {
  readonly isFinished: boolean;
  readonly isOnTheWay?: true;
  readonly partitions: readonly PartitionEnd[];
}

export interface PartitionEnd {
  readonly partition: string;
  /**
   * The digests cover all events before this; null for a partition without power whose last life is
   * over.
   */
  readonly reached: Time | null;
  readonly nodes: ReadonlyArray<readonly [node: string, digest: string, events: number]>;
}

export interface MemberStatus
  extends Pick<Member, "status" | "sinceMs" | "next" | "reached" | "now" | "events"> {
  readonly partition: string;
  readonly heldBy: string;
}
