/**
 * One way through a run: the power of the same hosts is cut at every instant of it, with everything that
 * caches may have written back by then, until a promise is found broken.
 */
import { assert } from "../../fabric/base/assert.ts";
import type { TimedNote } from "../../fabric/audit.ts";
import type { WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { type Aftermath, byTime, Continuations, type Victim } from "./post_crash_run.ts";
import { type Cutting, cuttingOf, hold } from "./crashed_host.ts";
import { depositsOf } from "./pending_messages.ts";
import type { Range } from "./history.ts";
import { instantsOf } from "./instants.ts";
import { type Interruption, interruptions, writebacksOf } from "./interrupted.ts";
import { Judge, openIn, type Settled, witnessOf } from "./judge.ts";
import { isLeftBehind, othersOf, recordOf, unsoundness } from "./survivors.ts";
import { LogJudge } from "./log_judge.ts";
import { ProtocolJudge } from "./protocol_judge.ts";
import type { RackRun } from "./rerun.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

/** What has been looked at. */
export interface Counts {
  instants: number;
  crashPoints: number;
  continuations: number;
  bounded: number;
}

/** A power failure that seems to break a promise. */
export interface Suspicion {
  readonly hosts: readonly string[];
  readonly at: Time;
  /** What had happened of the instant itself. */
  readonly early: readonly WritebackPlan[];
  /** Said at that instant, which a run does not get to hear: a power failure comes before all at it. */
  readonly announced: readonly TimedNote[];
  /** By host: what was found of what was open. */
  readonly settled: ReadonlyMap<string, Settled>;
  readonly checker: string;
  readonly found: string;
  /** Bytes of a host's SCM that it is about. */
  readonly scm?: { readonly host: string } & Range;
  readonly again?: number;
}

export interface PassOptions {
  readonly rack: ExploredRack;
  readonly recording: RackRun;
  readonly victims: readonly Victim[];
  /** Whether nobody is left to say anything. */
  readonly isTotal: boolean;
  readonly options: ExploreOptions;
  readonly counts: Counts;
}

/** A power failure of one host in the middle of an instant. */
interface Interrupted {
  readonly cutting: Cutting;
  readonly interruption: Interruption;
}

/** Name of the checker that a protocol's own file is. */
export const OWN_CHECK = "check";

export class Pass {
  readonly #of: PassOptions;
  readonly #protocol: ProtocolJudge;
  readonly #continuations: Continuations | undefined;
  readonly #cuttings: readonly Cutting[];
  readonly #instants: readonly Time[];
  /** What the victims themselves noted, or everybody where nobody lives on. */
  readonly #own: readonly TimedNote[];
  /** How many of them were made by now. */
  #heard = 0;
  #aftermath: Aftermath | undefined;
  readonly #log = new LogJudge();
  /** Nobody has looked yet for what was told of replicated logs. */
  #isUnread = false;

  constructor(of: PassOptions) {
    this.#of = of;
    const { rack, recording, victims, isTotal, options } = of;
    this.#protocol = new ProtocolJudge(rack, options);
    const [only] = victims;
    assert(only !== undefined, "Nobody's power is to be cut");
    const histories = this.#protocol.hasQuestions;
    this.#continuations = isTotal
      ? undefined
      : new Continuations(rack, { recording, victim: only }, { histories });
    this.#cuttings = victims.map((victim) => cuttingOf(recording, victim));
    const { from, until } = options;
    this.#instants = instantsOf(recording, {
      victims,
      isTold: this.#protocol.hasQuestions,
      ...(this.#continuations && { continuations: this.#continuations }),
      ...(from !== undefined && { from }),
      ...(until !== undefined && { until }),
    });
    const names = new Set(victims.map(({ host }) => host));
    this.#own = recording.notes.filter(({ node }) => isTotal || names.has(node));
  }

  /** Whether the plan's `until` ended what was to be heard of the living. */
  get isCutOff(): boolean {
    return this.#continuations?.isCutOff === true;
  }

  /** Goes through all instants, and says before each how far it is, in [0, 1]. */
  *run(): Generator<number, Suspicion | undefined> {
    const { counts, options: { until = Infinity } } = this.#of;
    for (const [i, at] of this.#instants.entries()) {
      yield i / this.#instants.length;
      const found = this.#interruptUntil(at, i > 0) ?? this.#cut(at);
      counts.instants++;
      if (found !== undefined) return found;
    }
    return this.#interruptUntil(until, this.#instants.length > 0);
  }

  /** Moves to `until`, with a power failure in the middle of all that happens on the way. */
  #interruptUntil(until: Time, isAsked: boolean): Suspicion | undefined {
    const { tear } = this.#of.options;
    for (const cutting of this.#cuttings) {
      const { cursor, cells } = cutting;
      const matters = (ranges: readonly Range[], at: Time) =>
        isAsked && this.#matters(this.#judgeAmid(cutting, at), ranges);
      for (const interruption of interruptions(cursor, cells, { until, tear, matters })) {
        const found = this.#ask(interruption.at, { cutting, interruption });
        if (found !== undefined) return found;
      }
    }
    return undefined;
  }

  /**
   * Whether it makes a difference how much of a write is there: what each eight bytes of it are before and
   * after is asked at the instants around it.
   */
  #matters(judge: Judge | undefined, ranges: readonly Range[]): boolean {
    return this.#protocol.hasQuestions || judge?.hasLinks(ranges) === true;
  }

  /**
   * Writes that are announced at an instant: in the middle of it some of them may have begun, as that is
   * said before. What is told at that instant counts from the next one on.
   */
  #announced(at: Time): TimedNote[] {
    const announced: TimedNote[] = [];
    for (let i = this.#heard; i < this.#own.length && this.#own[i]!.time <= at; i++) {
      const own = this.#own[i]!;
      if (own.time === at && own.note.kind === "writes") announced.push(own);
    }
    return announced;
  }

  /** Who judges a power failure in the middle of an instant. */
  #judgeAmid(cutting: Cutting, at: Time): Judge | undefined {
    if (cutting.judge === undefined) return undefined;
    if (cutting.amid?.at === at && cutting.amid.outside === cutting.judge) {
      return cutting.amid.judge;
    }
    const announced = this.#announced(at);
    const judge = announced.length === 0 ? cutting.judge : this.#judgeOf(cutting, [
      ...this.#notesAt(at),
      ...announced,
    ]);
    cutting.amid = { at, outside: cutting.judge, judge };
    return judge;
  }

  /** @param notes in any order. */
  #judgeOf({ victim: { host } }: Cutting, notes: readonly TimedNote[]): Judge {
    const { recording, options } = this.#of;
    const { plan, lives } = this.#aftermath?.run ?? recording;
    const run = { plan, lives, claims: options.claims === true };
    const about = byTime(notes.filter(isAboutWrites));
    return new Judge(run, { host, notes: about, most: options.choices });
  }

  #cut(at: Time): Suspicion | undefined {
    for (const cutting of this.#cuttings) hold(cutting, this.#of.recording, at);
    const isNew = this.#listen(at);
    const aftermath = this.#aftermath;
    if (isNew && aftermath !== undefined) {
      const wrong = this.#examine(aftermath);
      if (wrong !== undefined) return wrong;
    }
    return this.#ask(at, undefined);
  }

  /** Hears what is said of a power failure at `at`. @returns whether it is the first of its kind. */
  #listen(at: Time): boolean {
    const { counts } = this.#of;
    const before = this.#aftermath, runs = this.#continuations?.runs ?? 0;
    this.#aftermath = this.#continuations?.at(at);
    counts.continuations += (this.#continuations?.runs ?? 0) - runs;
    const from = this.#heard;
    this.#heard = countBefore(this.#own, at, from);
    const isNew = this.#aftermath !== before;
    const isNews = isNew || this.#own.slice(from, this.#heard).some(isAboutWrites) ||
      this.#cuttings.some(({ judge }) => judge === undefined);
    if (!isNews) return false;
    const notes = this.#notesAt(at);
    for (const cutting of this.#cuttings) cutting.judge = this.#judgeOf(cutting, notes);
    this.#isUnread = true;
    return isNew;
  }

  /** All notes of a rack that a power failure at `at` happens to, by time. */
  #notesAt(at: Time): TimedNote[] {
    const own = this.#own.slice(0, countBefore(this.#own, at, 0));
    return byTime([...own, ...this.#aftermath?.notes ?? []]);
  }

  /** The run that shows what the others say is itself to be sound, and to have left what is derived. */
  #examine(aftermath: Aftermath): Suspicion | undefined {
    const hosts = this.#cuttings.map(({ victim }) => victim.host);
    for (const { victim, cursor } of this.#cuttings) isLeftBehind(aftermath, victim, cursor);
    const claims = this.#of.options.claims === true;
    const [wrong] = unsoundness(aftermath.run, claims, { notOf: hosts, notBy: this.#log.checker });
    if (wrong === undefined) return undefined;
    const none = { early: [], announced: [], settled: new Map() };
    return { hosts, at: aftermath.cutAt, ...none, ...wrong };
  }

  /** Asks whether all is well with a power failure at `at`, or in the middle of what happens then. */
  #ask(at: Time, how: Interrupted | undefined): Suspicion | undefined {
    const { counts } = this.#of;
    if (how === undefined) {
      counts.crashPoints++;
      const found = this.#askLog(at);
      if (found !== undefined) return found;
    }
    for (const cutting of how === undefined ? this.#cuttings : [how.cutting]) {
      const found = this.#askPromises(at, cutting, how);
      if (found !== undefined) return found;
    }
    return this.#protocol.hasQuestions ? this.#askProtocol(at, how) : undefined;
  }

  #askLog(at: Time): Suspicion | undefined {
    const log = this.#log, cuttings = this.#cuttings;
    const isChanged = cuttings.some(({ victim, changed }) => log.hasRead(victim.host, changed));
    for (const cutting of cuttings) cutting.changed = [];
    if (!isChanged && !this.#isUnread) return undefined;
    this.#isUnread = false;
    const notes = this.#notesAt(at);
    if (!LogJudge.concerns(notes)) return undefined;
    const { recording, options, counts } = this.#of;
    const run = this.#aftermath?.run ?? recording;
    const record = { ...recordOf(run, options.claims === true), notes };
    const { finding, settled, paths, isBounded } = log.judge(
      record,
      cuttings.map(({ state }) => state),
    );
    counts.crashPoints += paths;
    if (isBounded) counts.bounded++;
    if (finding === undefined) return undefined;
    return {
      ...this.#suspected(at, undefined),
      settled: this.#byHost(settled),
      checker: log.checker,
      found: finding.text,
    };
  }

  /** Choices, by the host whose cells they are of. */
  #byHost(settled: Settled): Map<string, Settled> {
    return new Map(this.#cuttings.map(({ victim, cells }) => [
      victim.host,
      new Map([...settled].filter(([cell]) => cells.has(cell))),
    ]));
  }

  #askPromises(at: Time, cutting: Cutting, how: Interrupted | undefined): Suspicion | undefined {
    const { state, victim } = cutting;
    const judge = how === undefined ? cutting.judge : this.#judgeAmid(cutting, at);
    const whole = judge?.whole;
    if (how === undefined && whole !== undefined) {
      cutting.deposits = depositsOf(this.#of.rack.plan, state);
    }
    if (judge === undefined || whole === undefined) return undefined;
    const groups = how === undefined ? judge.groups : judge.groupsAt(how.interruption.ranges);
    const open = how === undefined
      ? state.cells.in(whole.from, whole.to)
      : groups.flatMap(({ parts }) => openIn(state, parts));
    for (const { alternatives } of open) this.#of.counts.crashPoints += alternatives.length - 1;
    const { deposits } = cutting;
    let isBounded = deposits.isBounded, witness: ReturnType<typeof witnessOf>;
    for (const { settled } of deposits.ways) {
      for (const group of groups) {
        const [wrong] = judge.judge(state, group, settled);
        witness ??= wrong && witnessOf(judge, state, { group, settled, suspected: wrong.scm });
        // What takes more than two choices at once is not gone into, which is to be said.
        if (judge.takeBounded() || (wrong !== undefined && witness === undefined)) isBounded = true;
      }
    }
    if (isBounded) this.#of.counts.bounded++;
    if (witness === undefined) return undefined;
    const { settled, finding } = witness;
    return {
      ...this.#suspected(at, how),
      settled: new Map([[victim.host, settled]]),
      checker: judge.checker,
      found: finding.text,
      ...(finding.scm && { scm: finding.scm }),
    };
  }

  #suspected(
    at: Time,
    how: Interrupted | undefined,
  ): Pick<Suspicion, "hosts" | "at" | "early" | "announced"> {
    const hosts = this.#cuttings.map(({ victim }) => victim.host);
    if (how === undefined) return { hosts, at, early: [], announced: [] };
    const { cutting: { victim, state }, interruption } = how;
    const early = writebacksOf(interruption, state.image)
      .map((each) => ({ ...each, node: victim.host }));
    return { hosts, at, early, announced: this.#announced(at) };
  }

  #askProtocol(at: Time, how: Interrupted | undefined): Suspicion | undefined {
    const { options, recording, counts, rack } = this.#of;
    const aftermath = this.#aftermath;
    const isOwn = ({ node }: { readonly node: string }) =>
      aftermath === undefined ||
      this.#cuttings.some(({ victim }) => victim.host === node || victim.config.rnic === node);
    const said = recording.reports.filter((report) => report.time < at && isOwn(report));
    const hosts = this.#cuttings.map(({ victim }) => victim.host);
    const verdict = this.#protocol.judge({
      at,
      cut: this.#cuttings.map(({ state }) => state),
      others: aftermath === undefined ? new Map() : othersOf(aftermath.run, { but: hosts }),
      reports: byTime([...said, ...aftermath?.reports ?? []]),
      notes: byTime([...this.#notesAt(at), ...how === undefined ? [] : this.#announced(at)]),
    }, { most: options.choices, seed: rack.plan.seed });
    counts.crashPoints += verdict.paths;
    if (verdict.isBounded) counts.bounded++;
    if (verdict.breach === undefined) return undefined;
    const { found, trail, again } = verdict.breach;
    const settled = new Map(trail.map(({ cell, alternative }) => [cell, alternative]));
    return {
      ...this.#suspected(at, how),
      settled: this.#byHost(settled),
      checker: OWN_CHECK,
      found,
      ...(again !== undefined && { again }),
    };
  }
}

function isAboutWrites({ note }: TimedNote): boolean {
  return note.kind === "writes" || note.kind === "visible" || note.kind === "persistent" ||
    note.kind === "log";
}

/** How many come before `at`, where it is known that `from` do. */
function countBefore(all: readonly { readonly time: Time }[], at: Time, from: number): number {
  let count = from;
  while (count < all.length && all[count]!.time < at) count++;
  return count;
}
