/**
 * The messages between timekeeper and partitions: what each says, and at the end of the file its row
 * on the bus, which has the fields in the order of their table. What arrives is checked here once;
 * what does not fit is refused by answering undefined.
 */
import { isLinkFaultPlan, type LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import { NEVER, type Time } from "../base/time.ts";

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

/** An order from outside the rack starts a program on a host. `counter` is unique in the run. */
export interface RunOrder {
  readonly at: Time;
  readonly host: string;
  readonly counter: number;
  readonly program: ProgramPlan;
}

/** Timekeeper → partition: you may let happen what happens before `horizon`. */
export interface Grant {
  /** Which timekeeper sends it: a restarted one has a higher term, and the highest is right. */
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
  /** The last change noticed at each end of the partition's cables while it had no power. */
  readonly noticed: readonly LinkChange[];
  /** Messages that the peers have sent so far to this partition's earlier life: begin after them. */
  readonly sentSoFar: ReadonlyArray<readonly [peer: string, incarnation: number, count: number]>;
}

/** Numbers the spans of all lives of a partition in ascending order; a life's grants count from 1. */
export function spanNumber(incarnation: number, grant: number): number {
  return incarnation * 2 ** 32 + grant;
}

/** How a field stands in a row: itself, or what `write` makes of it. */
interface Format<T> {
  write(value: T): unknown;
  /** Undefined where the value is none. */
  read(value: unknown): T | undefined;
}

/** The fields of a message in the order of the row. */
type Fields<T> = { readonly [K in keyof T]-?: Format<T[K]> };

export type Check = (value: unknown) => boolean;

const isCount: Check = (value) => Number.isSafeInteger(value) && (value as number) >= 0;
const isInt: Check = (value) => Number.isSafeInteger(value);
const isText: Check = (value) => typeof value === "string";
const isFlag: Check = (value) => typeof value === "boolean";
const isTime: Check = (value) => isCount(value) || value === NEVER;

/** True where the value is a program as a scenario names it. */
export const isProgram: Check = (value) => {
  const program = value as Partial<ProgramPlan> | null;
  return typeof program === "object" && program !== null && isText(program.run) &&
    isTime(program.at) &&
    isFlag(program.service) && typeof program.options === "object" && program.options !== null;
};

/** A value that goes as it is. */
function plain<T>(check: Check): Format<T> {
  return {
    write: (value) => value,
    read: (value) => check(value) ? value as T : undefined,
  };
}

/** A list of tuples that go as they are. */
function tuples<T extends readonly unknown[]>(...checks: readonly Check[]): Format<readonly T[]> {
  return plain((value) =>
    Array.isArray(value) &&
    value.every((row) =>
      Array.isArray(row) && row.length === checks.length &&
      checks.every((check, i) => check(row[i]))
    )
  );
}

/** A list of what `format` reads and writes. */
function listOf<T>(format: Format<T>): Format<readonly T[]> {
  return {
    write: (values) => values.map(format.write),
    read(values) {
      if (!Array.isArray(values)) return undefined;
      const read = values.map(format.read);
      return read.some((value) => value === undefined) ? undefined : read as T[];
    },
  };
}

/** A message or a part of one: its fields as a row. */
function rowOf<T>(fields: Fields<T>): Format<T> {
  const columns = Object.entries(fields) as [keyof T, Format<T[keyof T]>][];
  return {
    write: (value) => columns.map(([key, format]) => format.write(value[key])),
    read(row) {
      if (!Array.isArray(row) || row.length !== columns.length) return undefined;
      const message: Partial<T> = {};
      for (const [i, [key, format]] of columns.entries()) {
        const value = format.read(row[i]);
        if (value === undefined) return undefined;
        message[key] = value;
      }
      return message as T;
    },
  };
}

const count = plain<number>(isCount);
const time = plain<Time>(isTime);
const text = plain<string>(isText);
const flag = plain<boolean>(isFlag);
const lifeCounts = tuples<readonly [peer: string, incarnation: number, count: number]>(
  isText,
  isCount,
  isCount,
);
const namedCounts = tuples<readonly [peer: string, count: number]>(isText, isCount);

const linkChanges = listOf(rowOf<LinkChange>({
  at: time,
  target: count,
  port: count,
  up: flag,
  source: count,
  sourceLife: count,
}));

const runOrders = listOf(rowOf<RunOrder>({
  at: time,
  host: text,
  counter: count,
  program: plain(isProgram),
}));

const GRANT = rowOf<Grant>({
  term: count,
  incarnation: count,
  id: count,
  horizon: time,
  expect: lifeCounts,
  confirmed: namedCounts,
  links: linkChanges,
  runs: runOrders,
  cables: listOf(plain(isLinkFaultPlan)),
  lost: namedCounts,
  stopOn: text,
});

const REPORT = rowOf<Report>({
  term: count,
  partition: text,
  incarnation: count,
  grant: count,
  reached: time,
  next: time,
  now: count,
  ran: count,
  events: count,
  sent: tuples(isText, isCount, isCount, isTime),
  digests: tuples(isText, isInt, isInt, isCount),
  stopped: flag,
  taken: plain((value) => value === null || lifeCounts.read(value) !== undefined),
});

const JOIN = rowOf<Join>({ partition: text, instance: text });

const WELCOME = rowOf<Welcome>({
  term: count,
  instance: text,
  incarnation: count,
  bootAt: time,
  settledSpan: count,
  lives: tuples(isText, isCount, isInt, isInt, isCount),
  noticed: linkChanges,
  sentSoFar: lifeCounts,
});

export const { write: grantToArray, read: grantFromArray } = GRANT;
export const { write: reportToArray, read: reportFromArray } = REPORT;
export const { write: joinToArray, read: joinFromArray } = JOIN;
export const { write: welcomeToArray, read: welcomeFromArray } = WELCOME;
