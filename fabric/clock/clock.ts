/**
 * Messages between timekeeper and partitions: tables of fields, in the order of a row. `…FromBytes`
 * returns undefined for other bytes.
 */
import { isMapping } from "../base/mapping.ts";
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

/** True if the value is a program that an order may start: the scenario alone names binaries of this machine. */
export function isProgram(value: unknown): boolean {
  if (!isMapping(value)) return false;
  const { run, at, service, rnic, options }: { readonly [Name in keyof ProgramPlan]?: unknown } =
    value;
  return typeof run === "string" && isTime(at) && typeof service === "boolean" &&
    (rnic === undefined || isWhole(rnic, { least: 0, most: MAX_RNICS - 1 })) && isMapping(options);
}

const program = plain<ProgramPlan>(isProgram);
const lifeCounts = listOf(
  tupleOf<readonly [peer: string, incarnation: number, count: number]>(text, count, count),
);

const LINK_CHANGE = rowOf({
  at: time,
  target: count,
  port: count,
  up: flag,
  source: count,
  sourceLife: count,
});
export type LinkChange = ReadBy<typeof LINK_CHANGE>;

/** An order from outside starts a program on a host. `counter` is unique in the run. */
const RUN_ORDER = rowOf({ at: time, host: text, counter: count, program });
export type RunOrder = ReadBy<typeof RUN_ORDER>;

/** Timekeeper → partition: permission for events before `horizon`. */
const GRANT = rowOf({
  /** The highest counts. */
  term: count,
  incarnation: count,
  /** From 1 in each incarnation; a repeated grant is answered again, not done again. */
  id: count,
  horizon: time,
  /** Messages, by peer and incarnation, that the partition must have before it begins. */
  expect: lifeCounts,
  /** The partition need not keep them. */
  confirmed: listOf(tupleOf<readonly [peer: string, count: number]>(text, count)),
  links: listOf(LINK_CHANGE),
  runs: listOf(RUN_ORDER),
  cables: listOf(plain<LinkFaultPlan>(isLinkFaultPlan)),
  /** They died before all their messages were heard: missing messages will never come. */
  lost: listOf(tupleOf<readonly [peer: string, incarnation: number]>(text, count)),
  /**
   * Trace steps of a device ("": any), and how often each may happen before the span ends with that
   * instant. With any, the span also ends where the partition's own messages arrive (`breaks.ts`).
   */
  breaks: listOf(
    tupleOf<readonly [step: string, node: string, left: number]>(text, text, count),
  ),
});
export type Grant = ReadBy<typeof GRANT>;

const REPORT = rowOf({
  term: count,
  partition: text,
  incarnation: count,
  grant: count,
  /** Every event before this has happened. */
  reached: time,
  next: time,
  now: count,
  ran: count,
  events: count,
  /**
   * Since the partition's incarnation began; `earliest` of this span's arrivals (of all unconfirmed
   * ones where `taken` is given).
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
  hits: listOf(
    tupleOf<readonly [place: number, node: string, at: Time]>(count, text, count),
  ),
  taken: orNull(lifeCounts),
});
export type Report = ReadBy<typeof REPORT>;

const JOIN = rowOf({
  partition: text,
  instance: text,
});
export type Join = ReadBy<typeof JOIN>;

/** Partition → timekeeper: a heartbeat, with refusals so far. */
const ALIVE = rowOf({
  partition: text,
  instance: text,
  refused: listOf(tupleOf<readonly [subject: string, count: number]>(text, count)),
});

const WELCOME = rowOf({
  term: count,
  instance: text,
  incarnation: count,
  bootAt: time,
  /** Earlier processes' SCM log is valid up to it (see {@link spanNumber}). */
  settledSpan: count,
  lives: listOf(
    tupleOf<
      readonly [node: string, life: number, high: number, low: number, events: number]
    >(text, count, int, int, count),
  ),
  /** The last change noticed at each end of the partition's cables while it had no power. */
  noticed: listOf(LINK_CHANGE),
  sentSoFar: lifeCounts,
});
export type Welcome = ReadBy<typeof WELCOME>;

const verb: Format<"kill" | "start"> = {
  write: (out, value) => out.text(value),
  read(row) {
    const value = row.text();
    if (value !== "kill" && value !== "start") row.bad();
    return value as "kill" | "start";
  },
};

/** Timekeeper → whoever starts and kills a partition's processes. `instance` is the process that a kill order is for. */
export type Order = readonly [
  verb: "kill" | "start",
  partition: string,
  at: Time,
  instance: string,
];

/** A message to one partition: an array of its kind and body. */
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

export const { toBytes: orderToBytes, fromBytes: orderFromBytes } = sealedBytesOf(
  tupleOf<Order>(verb, text, time, text),
);
export const { toBytes: newsToBytes, fromBytes: newsFromBytes } = sealedBytesOf(NEWS);
export const { toBytes: reportToBytes, fromBytes: reportFromBytes } = sealedBytesOf(REPORT);
export const { toBytes: joinToBytes, fromBytes: joinFromBytes } = sealedBytesOf(JOIN);
export const { toBytes: aliveToBytes, fromBytes: aliveFromBytes } = sealedBytesOf(ALIVE);

/** Ascends over all lives of a partition; a life's grants count from 1. */
export function spanNumber(incarnation: number, grant: number): number {
  return incarnation * 2 ** 32 + grant;
}
