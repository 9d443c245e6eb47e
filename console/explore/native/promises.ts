/**
 * What native programs promise, and what their recoveries find, by lines that they print. A program that prints
 * `promised WHAT` says that WHAT survives a power failure from now on: each recovery has to print `found WHAT`. Where
 * programs print `began WHAT`, too, a recovery may find only what has begun. `shared_promises.ts` has promises that not
 * every host keeps.
 */
import type { Time } from "../../../fabric/base/time.ts";
import { LOG_TOPIC, type LogLine } from "../../../nodes/host/cpu/log_text.ts";
import type { Life } from "../../checks/lives.ts";
import { machineOf } from "../../../fabric/rack/plan/names.ts";
import { framesOf } from "../cards.ts";
import { edgeOf } from "../history.ts";
import { lowerBound, type Victim } from "../post_crash_run.ts";
import type { RackRun } from "../rerun.ts";

export const SHARED = "promised/";
const PROMISED = "promised ", BEGAN = "began ";
export const FOUND = "found ";

/** A line of a program. Plain data. */
export interface Said {
  readonly what: string;
  readonly node: string;
  readonly by: string;
  readonly time: Time;
}

/** A promise that a power failure of one host at `from` or later must not break. Plain data. */
export interface Promised extends Said {
  readonly from: Time;
}

/** Plain data. */
export interface SharedPromise extends Said {
  /** So many recoveries have to find it. */
  readonly count: number;
}

/** For power failures of one host. Plain data. */
export interface Requirements {
  readonly promised: readonly Promised[];
  /** Undefined where no program says what it begins. */
  readonly began: readonly Said[] | undefined;
}

/**
 * @param isAlone false where the other hosts lose their power, too. Else they go on: what they promise in the run
 * they promise also after the failure, as long as no frame has come that the failed host would not have sent.
 */
export function requirementsOf(
  recording: RackRun,
  victim: Victim,
  isAlone: boolean,
): Requirements {
  const { frames } = framesOf(recording, victim.config.rnics);
  const fromOf = ({ node, time }: Said): Time => {
    if (!isAlone || machineOf(node) === victim.host) return time + 1;
    const sent = frames[lowerBound(frames, (at) => at > time) - 1];
    return Math.min(time + 1, sent === undefined ? 1 : edgeOf(sent, victim.noticePs));
  };
  return {
    promised: saidIn(recording, PROMISED).map((said) => ({ ...said, from: fromOf(said) }))
      .sort((x, y) => x.from - y.from),
    began: begunIn(recording),
  };
}

/**
 * What the recovery of a host has to find when its run is over. Promises that others make while it has no power are left
 * out: whether they needed it is not known.
 * @param lives of the host, oldest first.
 */
export function requirementsAfter(
  run: Pick<RackRun, "reports">,
  lives: readonly Life[],
): Requirements {
  const hasPower = ({ time }: Said) => lives.some(({ from, to }) => from <= time && time < to);
  const promised = saidIn(run, PROMISED).filter(hasPower);
  return {
    promised: promised.map((said) => ({ ...said, from: said.time + 1 })),
    began: begunIn(run),
  };
}

function begunIn(run: Pick<RackRun, "reports">): Said[] | undefined {
  const began = saidIn(run, BEGAN);
  return began.length === 0 ? undefined : [...began, ...sharedIn(run)];
}

const COUNTED = /^([1-9]\d*) (.*)$/s;

export function sharedIn(run: Pick<RackRun, "reports">): SharedPromise[] {
  return saidIn(run, SHARED).flatMap(({ what, ...said }) => {
    const [, count, rest] = COUNTED.exec(what) ?? [];
    return count === undefined ? [] : [{ ...said, what: rest!, count: Number(count) }];
  });
}

/** The first line that begins as a promise of several hosts and is none. */
export function malformedShared(run: Pick<RackRun, "reports">): Said | undefined {
  return saidIn(run, SHARED).find(({ what }) => !COUNTED.test(what));
}

function saidIn({ reports }: Pick<RackRun, "reports">, word: string): Said[] {
  return reports.flatMap(({ time, node, topic, value }) => {
    if (topic !== LOG_TOPIC) return [];
    const { program: by, text } = value as LogLine;
    return text.startsWith(word) ? [{ time, node, by, what: text.slice(word.length) }] : [];
  });
}

/** What was wrong with a recovery, and an instant of its span at which it was. */
export interface Breach {
  readonly at: Time;
  readonly found: string;
  readonly promised: readonly Said[];
}

/**
 * Judges what a recovery printed on memory that power failures at [from, until) leave.
 * @param isAmid they come in the middle of `from`: writes that begin at it may have begun.
 */
export function breachOf(
  lines: readonly string[],
  { promised, began }: Requirements,
  { from, until, isAmid }: {
    readonly from: Time;
    readonly until: Time;
    readonly isAmid: boolean;
  },
): Breach | undefined {
  const found = new Set(
    lines.flatMap((line) => line.startsWith(FOUND) ? [line.slice(FOUND.length)] : []),
  );
  const lost = promised.find((each) => each.from < until && !found.has(each.what));
  if (lost !== undefined) {
    const { what, by, node, time } = lost;
    // Behind the promise it is plainest.
    const plain = Math.max(from, time + 1);
    return {
      at: plain < until ? plain : Math.max(from, lost.from),
      found: `${by} of ${node} has promised "${what}", which recovery does not find`,
      promised: [lost],
    };
  }
  if (began === undefined) return undefined;
  const known = new Set(
    [...began, ...promised].filter(({ time }) => time < from || (isAmid && time === from))
      .map(({ what }) => what),
  );
  const stray = [...found].find((what) => !known.has(what));
  if (stray === undefined) return undefined;
  const text = `recovery finds "${stray}", which no program had begun`;
  return { at: from, found: text, promised: [] };
}
