/**
 * The messages between timekeeper and partitions, each a table of its fields in the order of its row
 * on the bus. Bytes that do not fit their table are refused: `…FromBytes` returns undefined.
 */
import { isWhole } from "../base/whole_number.ts";
import { MAX_RNICS } from "../rack/plan/names.ts";
import {
  count,
  flag,
  type Format,
  int,
  isTime,
  listOf,
  orNull,
  plain,
  type ReadBy,
  rowOf,
  sealedBytesOf,
  text,
  time,
  tupleOf,
} from "../bus/row_codec.ts";
import { isLinkFaultPlan, type LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import type { Time } from "../base/time.ts";

/** True where the value is a program as a scenario names it. */
export function isProgram(value: unknown): boolean {
  const program = value as Partial<ProgramPlan> | null;
  return typeof program === "object" && program !== null && typeof program.run === "string" &&
    isTime(program.at) && typeof program.service === "boolean" &&
    (program.rnic === undefined || isWhole(program.rnic, { least: 0, most: MAX_RNICS - 1 })) &&
    typeof program.options === "object" && program.options !== null;
}

const program = plain<ProgramPlan>(isProgram);
const lifeCounts = listOf(
  tupleOf<readonly [peer: string, incarnation: number, count: number]>(text, count, count),
);

/** A cable's end learns that the other end lost or got power, on behalf of a process that is gone. */
const LINK_CHANGE = rowOf({
  at: time,
  /** Node index and port of the end that learns it. */
  target: count,
  port: count,
  up: flag,
  /** Node index and life of the end that went or came. */
  source: count,
  sourceLife: count,
});
export type LinkChange = ReadBy<typeof LINK_CHANGE>;

/** An order from outside the rack starts a program on a host. `counter` is unique in the run. */
const RUN_ORDER = rowOf({ at: time, host: text, counter: count, program });
export type RunOrder = ReadBy<typeof RUN_ORDER>;

/** Timekeeper → partition: you may let happen what happens before `horizon`. */
const GRANT = rowOf({
  /** Which timekeeper sends it: a restarted one has a higher term, and the highest is right. */
  term: count,
  incarnation: count,
  /** Counts the grants of one incarnation from 1; a repeated grant is answered again, not done again. */
  id: count,
  horizon: time,
  /** Messages that the partition must have from each peer, of which incarnation, before it begins. */
  expect: lifeCounts,
  /** Messages that each peer has taken of those the partition sent: they need not be kept. */
  confirmed: listOf(tupleOf<readonly [peer: string, count: number]>(text, count)),
  links: listOf(LINK_CHANGE),
  runs: listOf(RUN_ORDER),
  /** Faults of cables that end in the partition, each of which it takes up once. */
  cables: listOf(plain<LinkFaultPlan>(isLinkFaultPlan)),
  /** Incarnations that died before what they sent was heard: what is not here will never come. */
  lost: listOf(tupleOf<readonly [peer: string, incarnation: number]>(text, count)),
  /**
   * Trace steps of a device ("": of any), and how often each may happen before the span ends with that
   * instant. With any, it ends where what the partition has sent arrives, too: see `breaks.ts`.
   */
  breaks: listOf(
    tupleOf<readonly [step: string, node: string, left: number]>(text, text, count),
  ),
});
export type Grant = ReadBy<typeof GRANT>;

/** Partition → timekeeper: done, and this is what comes next. */
const REPORT = rowOf({
  term: count,
  partition: text,
  incarnation: count,
  /** The grant that this answers, 0 after joining. */
  grant: count,
  /** Every event before this has happened. */
  reached: time,
  next: time,
  now: count,
  /** Time of the last event that was looked at, also where it was for a node without power. */
  ran: count,
  events: count,
  /**
   * Messages sent to each peer since its incarnation began, and the earliest arrival among those
   * of this span (of all unconfirmed ones where `taken` is given).
   */
  sent: listOf(
    tupleOf<readonly [peer: string, incarnation: number, count: number, earliest: Time]>(
      text,
      count,
      count,
      time,
    ),
  ),
  digests: listOf(
    tupleOf<readonly [node: string, high: number, low: number, events: number]>(
      text,
      int,
      int,
      count,
    ),
  ),
  /** Each time that a step of the grant's breaks was taken in the span. */
  hits: listOf(
    tupleOf<readonly [place: number, node: string, at: Time]>(count, text, count),
  ),
  /** Answer to `ask`: what was taken from each peer. Null in the normal course. */
  taken: orNull(lifeCounts),
});
export type Report = ReadBy<typeof REPORT>;

/** Partition → timekeeper: a process for this partition is here and knows nothing yet. */
const JOIN = rowOf({
  partition: text,
  /** Different for every process. */
  instance: text,
});
export type Join = ReadBy<typeof JOIN>;

/** Partition → timekeeper: the process is there, and what it has refused so far. */
const ALIVE = rowOf({
  partition: text,
  instance: text,
  refused: listOf(tupleOf<readonly [subject: string, count: number]>(text, count)),
});

/** Timekeeper → partition, in answer to a join. */
const WELCOME = rowOf({
  term: count,
  instance: text,
  incarnation: count,
  bootAt: time,
  /** The last span of earlier processes that counts: their SCM log up to here holds (see {@link spanNumber}). */
  settledSpan: count,
  /** Life and digest so far of each node of the partition. */
  lives: listOf(
    tupleOf<
      readonly [node: string, life: number, high: number, low: number, events: number]
    >(text, count, int, int, count),
  ),
  /** The last change noticed at each end of the partition's cables while it had no power. */
  noticed: listOf(LINK_CHANGE),
  /** Messages that the peers have sent so far to this partition's earlier life: begin after them. */
  sentSoFar: lifeCounts,
});
export type Welcome = ReadBy<typeof WELCOME>;

/** What the timekeeper says to one partition: the kind stands before the message, as an array of both. */
export type ClockNews =
  | { readonly kind: "grant"; readonly body: Grant }
  | { readonly kind: "welcome"; readonly body: Welcome };

const NEWS: Format<ClockNews> = {
  write(out, news) {
    out.array(2);
    out.text(news.kind);
    if (news.kind === "grant") GRANT.write(out, news.body);
    else WELCOME.write(out, news.body);
  },
  read(row) {
    row.arrayOf(2);
    const kind = row.text();
    if (kind === "welcome") return { kind, body: WELCOME.read(row) };
    if (kind !== "grant") row.bad();
    return { kind: "grant", body: GRANT.read(row) };
  },
};

export const { toBytes: newsToBytes, fromBytes: newsFromBytes } = sealedBytesOf(NEWS);
export const { toBytes: reportToBytes, fromBytes: reportFromBytes } = sealedBytesOf(REPORT);
export const { toBytes: joinToBytes, fromBytes: joinFromBytes } = sealedBytesOf(JOIN);
export const { toBytes: aliveToBytes, fromBytes: aliveFromBytes } = sealedBytesOf(ALIVE);

/** Numbers the spans of all lives of a partition in ascending order; a life's grants count from 1. */
export function spanNumber(incarnation: number, grant: number): number {
  return incarnation * 2 ** 32 + grant;
}
