/**
 * Cuts the power of the same hosts at every instant, with every choice of what caches have written
 * back by then, until a promise is broken.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { assert } from "../../fabric/base/assert.ts";
import type { WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { machineOf } from "../../fabric/rack/plan/names.ts";
import {
  byTime,
  lowerBound,
  type PostCrashRun,
  type PostCrashRuns,
  type Victim,
} from "./post_crash_run.ts";
import { type CrashedHost, crashedHostOf, holdJournal } from "./crashed_host.ts";
import { WORD_BYTES } from "./choices.ts";
import { pendingMessagesOf } from "./pending_messages.ts";
import { CrashCursor, overlaps, Pages, type Range } from "./history.ts";
import { CoverageCount } from "./covering/coverage.ts";
import { type Interruption, interruptions, writebacksOf } from "./interrupted.ts";
import { type Judge, judgeGroup, openIn, type Settled, witnessOf } from "./judge.ts";
import { groupsAt, isOfRegion, writeGroups } from "./declared_writes.ts";
import { persistence } from "../checks/persistence.ts";
import { directoryIn } from "../checks/scm_objects.ts";
import { replicatedLog } from "../checks/replicated_log.ts";
import { wholeObjects } from "../checks/whole_objects.ts";
import { assertSameScm, othersOf, recordOf, unsoundness } from "./survivors.ts";
import { inOrder } from "../checks/run_record.ts";
import type { EndedHost } from "../reports/protocol_checks.ts";
import { judgeLogs } from "./log_judge.ts";
import { judgeObjects } from "./object_judge.ts";
import { AgainCount, ProtocolJudge } from "./protocol_judge.ts";
import type { RackRun } from "./rerun.ts";
import type { Robustness, UnorderedPair } from "./robust/robustness.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

export class StepCounts {
  instants = 0;
  crashPoints = 0;
  paths = 0;
  bounded = 0;
  readonly covered = new CoverageCount();
  readonly again: AgainCount;
  readonly runs = new Set<number>();
  /**
   * `isCutOff`: the plan's `until` ended one of them. `endless`: the endless activity in the first
   * one that has no end.
   */
  isCutOff = false;
  endless: string | undefined;

  constructor(spent = 0) {
    this.again = new AgainCount(spent);
  }
}

export interface Violation {
  readonly hosts: readonly string[];
  readonly at: Time;
  /** Writes at the instant itself that were durable by then. */
  readonly early: readonly WritebackPlan[];
  /** Notes at the instant itself, which a run does not have: its power failure comes first. */
  readonly announced: readonly TimedRecord[];
  /** By host: the alternative of each open cell. */
  readonly settled: ReadonlyMap<string, Settled>;
  readonly checker: string;
  readonly found: string;
  readonly scm?: { readonly host: string } & Range;
  readonly again?: number;
  readonly pair?: UnorderedPair;
}

type Judging = Generator<undefined, Violation | undefined>;

export interface CutHosts {
  readonly victims: readonly Victim[];
  readonly runs: PostCrashRuns | undefined;
  readonly instants: readonly Time[];
  readonly examined: WeakMap<PostCrashRun, Violation | undefined>;
}

export interface SweepOptions extends CutHosts {
  readonly robustness: Robustness | undefined;
  readonly rack: ExploredRack;
  readonly recording: RackRun;
  /** `isInTurn` selects the instants before which the middle of an instant is judged. */
  readonly inTurn: readonly Time[];
  readonly isInTurn: (at: Time) => boolean;
  readonly options: ExploreOptions;
}

interface Interrupted {
  readonly crashed: CrashedHost;
  readonly interruption: Interruption;
}

const NO_OTHERS: ReadonlyMap<string, EndedHost> = new Map();

export class CrashSweep {
  readonly #sweep: SweepOptions;
  readonly #protocol: ProtocolJudge;
  readonly #crashed: readonly CrashedHost[];
  readonly #own: readonly TimedRecord[];
  readonly #hasLogs: boolean;
  /** Hosts whose SCM has objects: others have no directory, and the search for one would read all of their SCM. */
  readonly #haveObjects: ReadonlySet<string>;
  readonly #compared: readonly CrashCursor<Pages>[];
  #done = 0;
  #counts = new StepCounts();
  #at: Time | undefined;
  #run: PostCrashRun | undefined;
  #unsound: Violation | undefined;

  constructor(sweep: SweepOptions) {
    this.#sweep = sweep;
    const { rack, recording, victims, runs, options, robustness } = sweep;
    this.#protocol = new ProtocolJudge(rack, options, robustness);
    this.#crashed = victims.map((victim) => crashedHostOf(recording, victim));
    this.#compared = victims.map(({ host }) =>
      new CrashCursor(recording.histories.get(host)?.entries ?? [], new Pages())
    );
    this.#hasLogs = recording.notes.some(({ note }) => note.kind === "log");
    this.#haveObjects = new Set(
      recording.notes.flatMap(({ node, note }) => note.kind === "object" ? [note.on ?? node] : []),
    );
    const names = new Set(this.#hosts);
    this.#own = recording.notes.filter(({ node }) => runs === undefined || names.has(node));
  }

  /**
   * Why operations of an object have no verdict: the search took too long, and all others would.
   */
  get unknown(): string | undefined {
    return this.#protocol.unknown;
  }

  get #hosts(): string[] {
    return this.#crashed.map(({ victim }) => victim.host);
  }

  get done(): number {
    return this.#done;
  }

  /**
   * Judges step `i`: the middle of the instants before it, then that instant; the last step is the
   * rest of the run. Steps may be left out; they ascend. Yields where there are several ways to
   * find memory.
   */
  *judge(i: number, counts: StepCounts): Judging {
    const { inTurn, options: { until = Infinity } } = this.#sweep;
    assert(i >= this.#done, "A sweep cannot go back");
    if (i > this.#done) { for (const { cursor } of this.#crashed) cursor.moveTo(inTurn[i - 1]!); }
    this.#done = i + 1;
    this.#counts = counts;
    this.#protocol.again = counts.again;
    const at = inTurn[i];
    if (at === undefined) return yield* this.#interruptUntil(until);
    const found = (yield* this.#interruptUntil(at)) ?? (yield* this.#cut(at));
    counts.instants++;
    return found;
  }

  *#interruptUntil(until: Time): Judging {
    const { tear } = this.#sweep.options;
    const [from = Infinity] = this.#sweep.instants;
    for (const crashed of this.#crashed) {
      const { cursor, cells } = crashed;
      const matters = (ranges: readonly Range[], at: Time) => {
        if (at < from || !this.#sweep.isInTurn(at + 1)) return false;
        this.#comeTo(at);
        const isJudged = this.#protocol.hasQuestions || this.#isOfObjects(crashed, ranges) ||
          this.#decide(crashed, ranges, at);
        if (isJudged) crashed.pending ??= pendingMessagesOf(this.#sweep.rack.plan, crashed.state);
        return isJudged;
      };
      for (const interruption of interruptions(cursor, cells, { until, tear, matters })) {
        const found = this.#unsound ??
          (yield* this.#judge(interruption.at, { crashed, interruption }));
        if (found !== undefined) return found;
      }
    }
    return this.#unsound;
  }

  #decide(crashed: CrashedHost, ranges: readonly Range[], at: Time): boolean {
    const { groups } = this.#judgeOf(crashed, this.#notedAt(at, "amid"));
    return groupsAt(groups, ranges).some(({ deciding }) => deciding.length > 0);
  }

  #isOfObjects({ cursor, victim }: CrashedHost, ranges: readonly Range[]): boolean {
    if (!this.#haveObjects.has(victim.host)) return false;
    const directory = directoryIn(cursor.image, victim.config.scmBytes);
    return directory !== undefined && ranges.some((range) => overlaps(range, directory));
  }

  /**
   * Notes of the victims at a power failure at `at`. Programs declare a write before they post it, so in the middle
   * of an instant writes that are declared at it may have begun; promises count from the next instant on.
   */
  #notedAt(at: Time, when: "before" | "amid"): TimedRecord[] {
    return this.#own.filter(({ time, note }) =>
      time < at ||
      (time === at && when === "amid" && (note.kind === "writes" || note.kind === "operation"))
    );
  }

  #judgeOf(crashed: CrashedHost, own: readonly TimedRecord[]): Judge {
    // Notes are only added, so equal numbers of notes are equal notes.
    const known = crashed.judge;
    if (known?.run === this.#run && known?.count === own.length) return known.judge;
    const { recording, options } = this.#sweep;
    const { plan, lives } = this.#run?.run ?? recording;
    const { claims = false, choices: most } = options;
    const { host } = crashed.victim;
    const groups = writeGroups(this.#withSurvivors(own).filter(isOfWrites), {
      ...{ host, claims, lives },
    });
    const judge: Judge = { run: { plan, lives, claims }, host, groups, most };
    crashed.judge = { run: this.#run, count: own.length, judge };
    return judge;
  }

  #withSurvivors(own: readonly TimedRecord[]): TimedRecord[] {
    return byTime([...own, ...this.#run?.notes ?? []]);
  }

  *#cut(at: Time): Judging {
    this.#comeTo(at);
    return this.#unsound ?? (yield* this.#judge(at, undefined));
  }

  #comeTo(at: Time): void {
    if (this.#at === at) return;
    this.#at = at;
    for (const crashed of this.#crashed) {
      crashed.cursor.moveTo(at);
      holdJournal(crashed, this.#sweep.recording, at);
      crashed.pending = undefined;
    }
    const { runs, examined } = this.#sweep;
    if (runs === undefined) return;
    const run = runs.at(at, this.#cutFor(runs, at));
    this.#run = run;
    const { frames, run: { isCutOff }, endless } = run;
    const counts = this.#counts;
    counts.runs.add(frames);
    counts.isCutOff ||= isCutOff;
    counts.endless ??= endless;
    if (!examined.has(run)) examined.set(run, this.#unsoundnessOf(run));
    this.#unsound = examined.get(run);
  }

  /**
   * The instant at which a run cuts on behalf of a power failure at `at`: the first of all equivalent instants, so
   * that the run does not depend on the order of judging.
   */
  #cutFor(runs: PostCrashRuns, at: Time): Time {
    const frames = runs.framesBy(at), { instants } = this.#sweep;
    const first = instants[lowerBound(instants, (each) => runs.framesBy(each) >= frames)];
    return first !== undefined && first <= at ? first : at;
  }

  #unsoundnessOf(run: PostCrashRun): Violation | undefined {
    const hosts = this.#hosts;
    for (const [i, { victim }] of this.#crashed.entries()) {
      const cursor = this.#compared[i]!;
      cursor.moveTo(run.cutAt);
      assertSameScm(run, victim, cursor);
    }
    const claims = this.#sweep.options.claims === true;
    const [wrong] = unsoundness(run.run, claims, { notOf: hosts, notBy: replicatedLog.name });
    if (wrong === undefined) return undefined;
    return { hosts, at: run.cutAt, early: [], announced: [], settled: new Map(), ...wrong };
  }

  *#judge(at: Time, interrupted: Interrupted | undefined): Judging {
    if (interrupted === undefined) {
      this.#counts.crashPoints++;
      const found = this.#judgeLogs(at);
      if (found !== undefined) return found;
    }
    const found = this.#judgeObjects(at, interrupted);
    if (found !== undefined) return found;
    for (const crashed of interrupted === undefined ? this.#crashed : [interrupted.crashed]) {
      const found = this.#judgePromises(at, crashed, interrupted);
      if (found !== undefined) return found;
    }
    return this.#protocol.hasQuestions ? yield* this.#judgeProtocol(at, interrupted) : undefined;
  }

  #judgeLogs(at: Time): Violation | undefined {
    if (!this.#hasLogs) return undefined;
    const notes = this.#withSurvivors(this.#notedAt(at, "before"));
    if (!notes.some(({ note }) => note.kind === "log")) return undefined;
    const counts = this.#counts, { recording, options } = this.#sweep;
    const run = this.#run?.run ?? recording;
    const record = { ...recordOf(run, options.claims === true), notes };
    const verdict = judgeLogs(record, this.#crashed.map(({ state }) => state));
    counts.crashPoints += verdict.paths;
    if (verdict.isBounded) counts.bounded++;
    if (verdict.finding === undefined) return undefined;
    return {
      ...this.#violationAt(at, undefined),
      settled: this.#byHost(verdict.settled),
      checker: replicatedLog.name,
      found: verdict.finding.text,
    };
  }

  #judgeObjects(at: Time, interrupted: Interrupted | undefined): Violation | undefined {
    const crashed = (interrupted === undefined ? this.#crashed : [interrupted.crashed])
      .filter(({ victim }) => this.#haveObjects.has(victim.host));
    if (crashed.length === 0) return undefined;
    const notes = this.#withSurvivors(this.#notedAt(at, "before"));
    if (!notes.some(({ note }) => note.kind === "object")) return undefined;
    const counts = this.#counts, { recording, options } = this.#sweep;
    const run = this.#run?.run ?? recording;
    const record = { ...recordOf(run, options.claims === true), notes };
    const verdict = judgeObjects(record, crashed.map(({ state }) => state));
    if (verdict.isBounded) counts.bounded++;
    if (verdict.finding === undefined) return undefined;
    const { text, scm } = verdict.finding;
    return {
      ...this.#violationAt(at, interrupted),
      settled: this.#byHost(verdict.settled),
      checker: wholeObjects.name,
      found: text,
      ...(scm && { scm }),
    };
  }

  #byHost(settled: Settled): Map<string, Settled> {
    return new Map(this.#crashed.map(({ victim, cells }) => [
      victim.host,
      new Map([...settled].filter(([cell]) => cells.has(cell))),
    ]));
  }

  #judgePromises(
    at: Time,
    crashed: CrashedHost,
    interrupted: Interrupted | undefined,
  ): Violation | undefined {
    const { state, victim } = crashed;
    const counts = this.#counts, { rack } = this.#sweep;
    const own = this.#notedAt(at, interrupted === undefined ? "before" : "amid");
    const judge = this.#judgeOf(crashed, own);
    if (judge.groups.length === 0) return undefined;
    const groups = interrupted === undefined
      ? judge.groups
      : groupsAt(judge.groups, interrupted.interruption.ranges);
    const open = openIn(state, groups.flatMap(({ writes }) => writes));
    for (const { alternatives } of open) counts.crashPoints += alternatives.length - 1;
    const { ways, isBounded: areMore } = crashed.pending ??= pendingMessagesOf(rack.plan, state);
    let isBounded = areMore, witness: ReturnType<typeof witnessOf>;
    for (const { settled } of ways) {
      for (const group of groups) {
        const { finding: wrong, ...judged } = judgeGroup(judge, state, { group, settled });
        witness ??= wrong && witnessOf(judge, state, { group, settled, suspected: wrong.scm });
        // A violation that takes more than two choices at once is reported as bounded only.
        isBounded ||= judged.isBounded || (wrong !== undefined && witness === undefined);
      }
    }
    if (isBounded) counts.bounded++;
    if (witness === undefined) return undefined;
    const { settled, finding } = witness;
    return {
      ...this.#violationAt(at, interrupted),
      settled: new Map([[victim.host, settled]]),
      checker: persistence.name,
      found: finding.text,
      ...(finding.scm && { scm: finding.scm }),
    };
  }

  #violationAt(
    at: Time,
    interrupted: Interrupted | undefined,
  ): Pick<Violation, "hosts" | "at" | "early" | "announced"> {
    const hosts = this.#hosts;
    if (interrupted === undefined) return { hosts, at, early: [], announced: [] };
    const { crashed: { victim, state }, interruption } = interrupted;
    const early = writebacksOf(interruption, state.image)
      .map((each) => ({ ...each, node: victim.host }));
    const announced = this.#notedAt(at, "amid").filter(({ time }) => time === at);
    return { hosts, at, early, announced };
  }

  *#judgeProtocol(at: Time, interrupted: Interrupted | undefined): Judging {
    const counts = this.#counts, { options, recording, rack } = this.#sweep;
    const run = this.#run;
    const isOwn = ({ node }: { readonly node: string }) =>
      run === undefined ||
      this.#crashed.some(({ victim }) => victim.host === machineOf(node));
    const reports = recording.reports.filter((report) => report.time < at && isOwn(report));
    const own = this.#notedAt(at, interrupted === undefined ? "before" : "amid");
    const others = run === undefined ? NO_OTHERS : othersOf(run.run, { but: this.#hosts });
    const failures = [...others].flatMap(([host, { since }]) =>
      since === undefined ? run!.run.lives.get(host)!.at(-1)!.to : []
    );
    const verdict = yield* this.#protocol.judge({
      at: Math.max(at, ...failures),
      cut: this.#crashed.map(({ state }) => state),
      others,
      reports: inOrder(rack.plan, [...reports, ...run?.reports ?? []]),
      notes: inOrder(rack.plan, this.#withSurvivors(own)),
    }, { most: options.choices });
    counts.crashPoints += verdict.paths;
    counts.paths += verdict.paths;
    counts.covered.add(verdict.covered);
    if (verdict.covered.length > 0) counts.bounded++;
    if (verdict.breach === undefined) return undefined;
    const { checker, found, trail, again, pair } = verdict.breach;
    return {
      ...this.#violationAt(at, interrupted),
      settled: this.#byHost(trail),
      checker,
      found,
      ...(again !== undefined && { again }),
      ...(pair && { pair, scm: wordOf(pair) }),
    };
  }
}

function wordOf({ missing: { host }, word }: UnorderedPair): NonNullable<Violation["scm"]> {
  return { host, from: word, to: word + WORD_BYTES };
}

function isOfWrites({ note }: TimedRecord): boolean {
  return note.kind === "writes" || note.kind === "visible" || note.kind === "persistent" ||
    note.kind === "freed" || isOfRegion(note);
}
