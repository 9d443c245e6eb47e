/**
 * The messages between timekeeper and partitions, each a table of its fields in the order of its row
 * on the bus. A received row that does not fit its table is refused: `read` returns undefined.
 */
import { isLinkFaultPlan, type LinkFaultPlan } from "../rack/plan/link_plan.ts";
import type { ProgramPlan } from "../rack/plan/plan.ts";
import { NEVER, type Time } from "../base/time.ts";

/** How a field stands in a row: itself, or what `write` makes of it. */
interface Format<T> {
  write(value: T): unknown;
  /** Undefined where the value is none. */
  read(value: unknown): T | undefined;
}

/** What is read by a format. */
type ReadBy<F> = F extends Format<infer T> ? T : never;

type Check = (value: unknown) => boolean;

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
function rowOf<Fields extends Readonly<Record<string, Format<unknown>>>>(
  fields: Fields,
): Format<{ readonly [K in keyof Fields]: ReadBy<Fields[K]> }> {
  const columns = Object.entries(fields);
  return {
    write: (value) => columns.map(([key, format]) => format.write(value[key])),
    read(row) {
      if (!Array.isArray(row) || row.length !== columns.length) return undefined;
      const message: Record<string, unknown> = {};
      for (const [i, [key, format]] of columns.entries()) {
        message[key] = format.read(row[i]);
        if (message[key] === undefined) return undefined;
      }
      return message as { [K in keyof Fields]: ReadBy<Fields[K]> };
    },
  };
}

const count = plain<number>(isCount);
const time = plain<Time>(isTime);
const text = plain<string>(isText);
const flag = plain<boolean>(isFlag);
const program = plain<ProgramPlan>(isProgram);
const lifeCounts = tuples<readonly [peer: string, incarnation: number, count: number]>(
  isText,
  isCount,
  isCount,
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
  confirmed: tuples<readonly [peer: string, count: number]>(isText, isCount),
  links: listOf(LINK_CHANGE),
  runs: listOf(RUN_ORDER),
  /** Faults of cables that end in the partition, each of which it takes up once. */
  cables: listOf(plain<LinkFaultPlan>(isLinkFaultPlan)),
  /** Incarnations that died before what they sent was heard: what is not here will never come. */
  lost: tuples<readonly [peer: string, incarnation: number]>(isText, isCount),
  /**
   * Trace steps of a device ("": of any), and how often each may happen before the span ends with that
   * instant. With any, it ends where what the partition has sent arrives, too: see `breaks.ts`.
   */
  breaks: tuples<readonly [step: string, node: string, left: number]>(isText, isText, isCount),
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
  sent: tuples<readonly [peer: string, incarnation: number, count: number, earliest: Time]>(
    isText,
    isCount,
    isCount,
    isTime,
  ),
  digests: tuples<readonly [node: string, high: number, low: number, events: number]>(
    isText,
    isInt,
    isInt,
    isCount,
  ),
  /** Each time that a step of the grant's breaks was taken in the span. */
  hits: tuples<readonly [place: number, node: string, at: Time]>(isCount, isText, isCount),
  /** Answer to `ask`: what was taken from each peer. Null in the normal course. */
  taken: plain<ReadBy<typeof lifeCounts> | null>((value) =>
    value === null || lifeCounts.read(value) !== undefined
  ),
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
  refused: tuples<readonly [subject: string, count: number]>(isText, isCount),
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
  lives: tuples<
    readonly [node: string, life: number, high: number, low: number, events: number]
  >(isText, isCount, isInt, isInt, isCount),
  /** The last change noticed at each end of the partition's cables while it had no power. */
  noticed: listOf(LINK_CHANGE),
  /** Messages that the peers have sent so far to this partition's earlier life: begin after them. */
  sentSoFar: lifeCounts,
});
export type Welcome = ReadBy<typeof WELCOME>;

export const { write: grantToArray, read: grantFromArray } = GRANT;
export const { write: reportToArray, read: reportFromArray } = REPORT;
export const { write: joinToArray, read: joinFromArray } = JOIN;
export const { write: aliveToArray, read: aliveFromArray } = ALIVE;
export const { write: welcomeToArray, read: welcomeFromArray } = WELCOME;

/** Numbers the spans of all lives of a partition in ascending order; a life's grants count from 1. */
export function spanNumber(incarnation: number, grant: number): number {
  return incarnation * 2 ** 32 + grant;
}
