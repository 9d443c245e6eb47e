/**
 * What the timekeeper and the partitions say to each other, as plain arrays for the bus. Everything
 * that comes from there is checked here once; what does not fit is refused by answering undefined.
 */
import { isLinkFaultPlan, type LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import type { Time } from "../base/time.ts";

/** A cable's end learns that the other end lost or got power, on behalf of a process that is gone. */
export interface LinkChange {
  readonly at: Time;
  /** Node index and port of the end that learns it. */
  readonly target: number;
  readonly port: number;
  readonly up: boolean;
  /** Node index and life of the end that went or came. */
  readonly source: number;
  readonly sourceLife: number;
}

/** Somebody outside starts a program on a host. `counter` is unique in the run. */
export interface RunOrder {
  readonly at: Time;
  readonly host: string;
  readonly counter: number;
  readonly program: ProgramPlan;
}

/** Timekeeper → partition: you may let happen what happens before `horizon`. */
export interface Grant {
  /** Which timekeeper speaks: a restarted one has a higher term, and the highest is right. */
  readonly term: number;
  readonly incarnation: number;
  /** Counts the grants of one incarnation from 1; a repeated grant is answered again, not done again. */
  readonly id: number;
  readonly horizon: Time;
  /** Messages that the partition must have from each peer, of which incarnation, before it begins. */
  readonly expect: ReadonlyArray<readonly [peer: string, incarnation: number, count: number]>;
  /** Messages that each peer has taken of those the partition sent: they need not be kept. */
  readonly confirmed: ReadonlyArray<readonly [peer: string, count: number]>;
  readonly links: readonly LinkChange[];
  readonly runs: readonly RunOrder[];
  /** Faults of cables that end in the partition, each of which it takes up once. */
  readonly cables: readonly LinkFaultPlan[];
  /** Incarnations that died before what they sent was heard: what is not here will never come. */
  readonly lost: ReadonlyArray<readonly [peer: string, incarnation: number]>;
  /** End the span at the first trace step of this name (`S907`, or `b-rnic:S907`), "" for none. */
  readonly stopOn: string;
}

/** Partition → timekeeper: done, and this is what comes next. */
export interface Report {
  readonly term: number;
  readonly partition: string;
  readonly incarnation: number;
  /** The grant that this answers, 0 after joining. */
  readonly grant: number;
  /** Every event before this has happened. */
  readonly reached: Time;
  readonly next: Time;
  /** Time of the last event that happened. */
  readonly now: Time;
  /** Time of the last event that was looked at, also where it was for a node without power. */
  readonly ran: Time;
  readonly events: number;
  /**
   * Messages sent to each peer since its incarnation began, and the earliest arrival among those
   * of this span (of all unconfirmed ones where {@link taken} is given).
   */
  readonly sent: ReadonlyArray<
    readonly [peer: string, incarnation: number, count: number, earliest: Time]
  >;
  readonly digests: ReadonlyArray<
    readonly [node: string, high: number, low: number, events: number]
  >;
  /** Whether the span ended at the grant's `stopOn`. */
  readonly stopped: boolean;
  /** Answer to `ask`: what was taken from each peer. Null in the normal course. */
  readonly taken: ReadonlyArray<readonly [peer: string, incarnation: number, count: number]> | null;
}

/** Partition → timekeeper: a process for this partition is here and knows nothing yet. */
export interface Join {
  readonly partition: string;
  /** Different for every process. */
  readonly instance: string;
}

/** Timekeeper → partition, in answer to a join. */
export interface Welcome {
  readonly term: number;
  readonly instance: string;
  readonly incarnation: number;
  readonly bootAt: Time;
  /** The last span of earlier processes that counts: their SCM log up to here holds (see {@link spanNumber}). */
  readonly settledSpan: number;
  /** Life and digest so far of each node of the partition. */
  readonly lives: ReadonlyArray<
    readonly [node: string, life: number, high: number, low: number, events: number]
  >;
  /** What was last noticed at each end of the partition's cables while it had no power. */
  readonly noticed: readonly LinkChange[];
  /** Messages that the peers have sent so far to this partition's earlier life: begin after them. */
  readonly sentSoFar: ReadonlyArray<readonly [peer: string, incarnation: number, count: number]>;
}

/** Numbers the spans of all lives of a partition in ascending order; a life's grants count from 1. */
export function spanNumber(incarnation: number, grant: number): number {
  return incarnation * 2 ** 32 + grant;
}

type Row = readonly unknown[];
const isRow = (value: unknown): value is Row => Array.isArray(value);
const isCount = (value: unknown): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
const isInt = (value: unknown): value is number => Number.isSafeInteger(value);
const isText = (value: unknown): value is string => typeof value === "string";
const isFlag = (value: unknown): value is boolean => typeof value === "boolean";
const isTime = (value: unknown): value is Time => isCount(value) || value === Infinity;

export type Check = (value: unknown) => boolean;

function isTuple(value: unknown, checks: readonly Check[]): boolean {
  return isRow(value) && value.length === checks.length &&
    checks.every((check, i) => check(value[i]));
}

function listOf(...checks: Check[]): Check {
  return (value) => isRow(value) && value.every((row) => isTuple(row, checks));
}

/** True where the value is a program as a scenario names it. */
export const isProgram: Check = (value) => {
  const program = value as Partial<ProgramPlan> | null;
  return typeof program === "object" && program !== null && isText(program.run) &&
    isTime(program.at) &&
    isFlag(program.service) && typeof program.options === "object" && program.options !== null;
};

const isPeerCounts = listOf(isText, isCount, isCount);
const isLinks = listOf(isTime, isCount, isCount, isFlag, isCount, isCount);
const isRuns = listOf(isTime, isText, isCount, isProgram);
const isDigests = listOf(isText, isInt, isInt, isCount);

type LinkRow = [
  at: Time,
  target: number,
  port: number,
  up: boolean,
  source: number,
  sourceLife: number,
];

function linkToRow(change: LinkChange): LinkRow {
  const { at, target, port, up, source, sourceLife } = change;
  return [at, target, port, up, source, sourceLife];
}

function linkFromRow([at, target, port, up, source, sourceLife]: LinkRow): LinkChange {
  return { at, target, port, up, source, sourceLife };
}

const GRANT: readonly Check[] = [
  isCount,
  isCount,
  isCount,
  isTime,
  isPeerCounts,
  listOf(isText, isCount),
  isLinks,
  isRuns,
  (value) => isRow(value) && value.every(isLinkFaultPlan),
  listOf(isText, isCount),
  isText,
];

export function grantToArray(grant: Grant): unknown[] {
  return [
    grant.term,
    grant.incarnation,
    grant.id,
    grant.horizon,
    grant.expect,
    grant.confirmed,
    grant.links.map(linkToRow),
    grant.runs.map((r) => [r.at, r.host, r.counter, r.program]),
    grant.cables,
    grant.lost,
    grant.stopOn,
  ];
}

export function grantFromArray(value: unknown): Grant | undefined {
  if (!isTuple(value, GRANT)) return undefined;
  const row = value as [
    number,
    number,
    number,
    Time,
    Grant["expect"],
    Grant["confirmed"],
    LinkRow[],
    [Time, string, number, ProgramPlan][],
    Grant["cables"],
    Grant["lost"],
    string,
  ];
  const [term, incarnation, id, horizon, expect, confirmed, links, runs, cables, lost, stopOn] =
    row;
  return {
    term,
    incarnation,
    id,
    horizon,
    expect,
    confirmed,
    links: links.map(linkFromRow),
    runs: runs.map(([at, host, counter, program]) => ({ at, host, counter, program })),
    cables,
    lost,
    stopOn,
  };
}

const REPORT: readonly Check[] = [
  isCount,
  isText,
  isCount,
  isCount,
  isTime,
  isTime,
  isCount,
  isCount,
  isCount,
  listOf(isText, isCount, isCount, isTime),
  isDigests,
  isFlag,
  (value) => value === null || isPeerCounts(value),
];

export function reportToArray(report: Report): unknown[] {
  return [
    report.term,
    report.partition,
    report.incarnation,
    report.grant,
    report.reached,
    report.next,
    report.now,
    report.ran,
    report.events,
    report.sent,
    report.digests,
    report.stopped,
    report.taken,
  ];
}

export function reportFromArray(value: unknown): Report | undefined {
  if (!isTuple(value, REPORT)) return undefined;
  const row = value as [
    number,
    string,
    number,
    number,
    Time,
    Time,
    number,
    number,
    number,
    Report["sent"],
    Report["digests"],
    boolean,
    Report["taken"],
  ];
  return {
    term: row[0],
    partition: row[1],
    incarnation: row[2],
    grant: row[3],
    reached: row[4],
    next: row[5],
    now: row[6],
    ran: row[7],
    events: row[8],
    sent: row[9],
    digests: row[10],
    stopped: row[11],
    taken: row[12],
  };
}

export function joinToArray(join: Join): unknown[] {
  return [join.partition, join.instance];
}

export function joinFromArray(value: unknown): Join | undefined {
  if (!isTuple(value, [isText, isText])) return undefined;
  const [partition, instance] = value as [string, string];
  return { partition, instance };
}

const WELCOME: readonly Check[] = [
  isCount,
  isText,
  isCount,
  isTime,
  isCount,
  listOf(isText, isCount, isInt, isInt, isCount),
  isLinks,
  isPeerCounts,
];

export function welcomeToArray(welcome: Welcome): unknown[] {
  return [
    welcome.term,
    welcome.instance,
    welcome.incarnation,
    welcome.bootAt,
    welcome.settledSpan,
    welcome.lives,
    welcome.noticed.map(linkToRow),
    welcome.sentSoFar,
  ];
}

export function welcomeFromArray(value: unknown): Welcome | undefined {
  if (!isTuple(value, WELCOME)) return undefined;
  const row = value as [
    number,
    string,
    number,
    Time,
    number,
    Welcome["lives"],
    LinkRow[],
    Welcome["sentSoFar"],
  ];
  return {
    term: row[0],
    instance: row[1],
    incarnation: row[2],
    bootAt: row[3],
    settledSpan: row[4],
    lives: row[5],
    noticed: row[6].map(linkFromRow),
    sentSoFar: row[7],
  };
}
