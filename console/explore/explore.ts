/**
 * The crash explorer: runs a rack once, and derives for every instant what a power failure leaves and what
 * the survivors do then. Read in this order: `history.ts`, `choices.ts`, `post_crash_run.ts`,
 * `crash_sweep.ts`, `judge.ts`, `protocol_judge.ts`, `counterexample.ts`.
 */
import { countOf } from "../checks/finding.ts";
import { formatTime } from "../../fabric/base/time.ts";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { hasHooks, type OwnProgram } from "../../nodes/host/own_programs.ts";
import { persistence } from "../checks/persistence.ts";
import { failuresOf } from "../checks/programs.ts";
import { replicatedLog } from "../checks/replicated_log.ts";
import { answered } from "../checks/shared/answered.ts";
import { flushedWrites } from "../checks/shared/flushed.ts";
import { wholeObjects } from "../checks/whole_objects.ts";
import { endOf, judgeProtocols } from "../reports/protocol_checks.ts";
import { PostCrashRuns, victimOf } from "./post_crash_run.ts";
import { confirm } from "./counterexample.ts";
import { CoverageCount, type Covered, coveredText } from "./covering/coverage.ts";
import { type Counts, CrashSweep } from "./crash_sweep.ts";
import type { Turn } from "./kinds.ts";
import { AgainCount } from "./protocol_judge.ts";
import { type RackRun, runRack } from "./rerun.ts";
import { judgedByRobustness, Robustness } from "./robust/robustness.ts";
import { isOfWrites, StrictHistory } from "./robust/strict_history.ts";
import { recordOf, unsoundness } from "./survivors.ts";
import type {
  Again,
  ExploredRack,
  ExploreOptions,
  ExploreProgress,
  Oracle,
  Verdict,
} from "./types.ts";

/** Wall time between turns of the event loop, for signals and a progress bar. */
const TURN_MS = 50;

/**
 * Explores a rack.
 * @throws Error where a program keeps state from run to run, or (our mistake) a run does not show what was
 *   derived, or a host is to be cut that the rack has not.
 */
export async function explore(
  rack: ExploredRack,
  options: ExploreOptions,
  onProgress: (progress: ExploreProgress) => void = () => {},
): Promise<Verdict> {
  const began = performance.now();
  const { recording, robustness } = record(rack, options);
  const exploration: Exploration = {
    ...{ rack, recording, robustness, options, began },
    targets: targetsOf(rack, recording, options),
    judgedBy: oraclesOf(rack, { recording, robustness, options }),
    counts: {
      ...{ instants: 0, crashPoints: 0, continuations: 0, paths: 0, bounded: 0 },
      ...{ covered: new CoverageCount(), again: new AgainCount() },
    },
  };
  const failure = plainFailure(rack, recording, options);
  const ended = (conclusion: Conclusion) => verdictOf(exploration, conclusion, failure);
  for (const host of exploration.targets.flat()) victimOf(rack.plan, host);
  // Survivors' futures, a run for each frame that a failed host has sent, would answer nothing.
  if (!hasSubjects(rack, recording)) return ended({ verdict: "unchecked", why: UNCHECKED });
  const { stopped, violation, ...swept } = await sweepAll(exploration, onProgress);
  if (stopped !== undefined) return ended({ verdict: "partial", why: stopped });
  if (violation === undefined) return ended(conclude(exploration, swept));
  const counterexample = confirm(rack, { violation, recording, options, robustness });
  return { ...ended({ verdict: "unsafe" }), counterexample };
}

interface Exploration {
  readonly rack: ExploredRack;
  readonly recording: RackRun;
  readonly robustness: Robustness | undefined;
  readonly options: ExploreOptions;
  /** Groups of hosts, each cut at once. */
  readonly targets: readonly (readonly string[])[];
  readonly judgedBy: readonly Oracle[];
  readonly counts: Counts;
  readonly began: number;
}

type Conclusion = Pick<Verdict, "verdict" | "why">;

/** @param failure of the run without a power failure: it stands before all but a counterexample. */
function verdictOf(
  { recording, options: { from, until }, targets, judgedBy, counts, began }: Exploration,
  conclusion: Conclusion,
  failure: string | undefined,
): Verdict {
  const wallMs = performance.now() - began;
  const isFailed = conclusion.verdict !== "unsafe" && failure !== undefined;
  const { verdict, why } = isFailed ? { verdict: "failed", why: failure } as const : conclusion;
  const { recoveries, cut, ways } = counts.again;
  const isWindow = from !== undefined || until !== undefined;
  return {
    verdict,
    ...(why !== undefined && { why }),
    hosts: targets.flat(),
    ...counts,
    covered: counts.covered.all(),
    again: { recoveries, cut, ways },
    exhaustive: verdict === "safe" && counts.bounded === 0 && !isWindow,
    judgedBy,
    ...countWrites(recording),
    wallMs,
    perSecond: Math.round(1_000 * counts.crashPoints / wallMs),
    counterexample: null,
  };
}

interface Swept {
  readonly isCutOff: boolean;
  /** Why the survivors of a power failure were not seen to their end. */
  readonly endless: string | undefined;
}

/** Cuts the power at every instant, up to the first violation, or until it is to stop. */
async function sweepAll(
  exploration: Exploration,
  onProgress: (progress: ExploreProgress) => void,
): Promise<Swept & { readonly stopped?: string; readonly violation?: CrashSweep["violation"] }> {
  const { rack, recording, robustness, options, targets, counts, began } = exploration;
  let turnEnds = began, done = 0, { isCutOff } = recording, endless: string | undefined;
  const turns: readonly Turn[] = options.inOrder ? ["all"] : ["first of each kind", "rest"];
  const cuts = targets.map((hosts) =>
    cutOf(rack, { recording, hosts, options, of: targets.length })
  );
  // Of all hosts first, what is likely to show a mistake.
  const sweeps = turns.flatMap((turn) => cuts.map((cut) => ({ turn, ...cut })));
  // Crash points are counted where all of an instant is judged: a limit ends at the same one each time.
  const { limit: _, ...ofTime } = options;
  for (const [i, { turn, victims, runs }] of sweeps.entries()) {
    const sweep = new CrashSweep({
      ...{ rack, recording, robustness, victims, runs, turn, options, counts },
    });
    for (const share of sweep.run()) {
      const now = performance.now();
      done = share ?? done;
      const stopped = sweep.unknown ??
        whyStop(exploration, share === undefined ? ofTime : options, now - began);
      if (stopped !== undefined) return { stopped, isCutOff, endless };
      if (now < turnEnds) continue;
      onProgress({ share: (i + done) / sweeps.length, crashPoints: counts.crashPoints });
      await sleep(0);
      turnEnds = performance.now() + TURN_MS;
    }
    isCutOff ||= runs?.isCutOff === true;
    endless ??= runs?.endless;
    const { violation } = sweep;
    if (violation !== undefined) return { violation, isCutOff, endless };
    if (sweep.unknown !== undefined) return { stopped: sweep.unknown, isCutOff, endless };
  }
  return { isCutOff, endless };
}

/** What an exploration without a violation says. */
function conclude(
  { recording, robustness, options, judgedBy, counts }: Exploration,
  { isCutOff, endless }: Swept,
): Conclusion {
  const why = endless ?? whyUnsure(recording, counts, { isCutOff, isOnce: options.cuts === 1 }) ??
    whyUnexplained(robustness);
  if (why !== undefined) return { verdict: "partial", why };
  if (judgedBy.length === 0) return { verdict: "unchecked", why: UNCHECKED };
  // Without a word that the run has written, robustness has judged nothing.
  const isEmpty = robustness?.words === 0 && judgedBy.length === 1;
  return isEmpty ? { verdict: "unchecked", why: NOTHING_READ } : { verdict: "safe" };
}

/** So many runs of survivors, of all cuts together, are kept for the second turn. */
const KEPT_MAX = 48;

/** The hosts of one cut, and what others see of it. @param cut.of how many such cuts there are. */
function cutOf(
  rack: ExploredRack,
  cut: {
    readonly recording: RackRun;
    readonly hosts: readonly string[];
    readonly options: ExploreOptions;
    readonly of: number;
  },
) {
  const { recording, hosts, options, of } = cut;
  const victims = hosts.map((host) => victimOf(rack.plan, host));
  const [victim] = victims;
  if (options.cut === "all" || victim === undefined) return { victims, runs: undefined };
  const histories = Object.values(rack.own).some(hasHooks);
  const keep = Math.floor(KEPT_MAX / of);
  return { victims, runs: new PostCrashRuns(rack, { recording, victim }, { histories, keep }) };
}

const UNCHECKED = "nothing was promised or checked";
const NOTHING_READ = "recovery reads nothing that the run has written";

/** The run without a further power failure; and what robustness is judged by, where it is asked for. */
function record(rack: ExploredRack, options: ExploreOptions) {
  const judged = judgedByRobustness(rack.own, options);
  if (judged.size === 0) {
    return { recording: runRack(rack, { histories: true }), robustness: undefined };
  }
  const lines: TraceLine[] = [];
  const recording = runRack(rack, {
    histories: true,
    onTrace: (time, node, step) => {
      if (isOfWrites(step)) lines.push({ time, node, ...step });
    },
  });
  // Operations that are noted say what has to hold, as a check does.
  const isSaid = options.robust !== true &&
    recording.notes.some(({ note }) => note.kind === "operation");
  if (isSaid) return { recording, robustness: undefined };
  return { recording, robustness: new Robustness(new StrictHistory(recording, lines), judged) };
}

/** Of what a program notes, that which concerns SCM: all but its queues. */
const OF_SCM: ReadonlySet<string> = new Set(["writes", "object", "log", "access"]);

/** Whether there is anything to look at after a power failure: noted writes, a recovery or a check. */
function hasSubjects({ own }: ExploredRack, { notes }: RackRun): boolean {
  return notes.some(({ note }) => OF_SCM.has(note.kind)) || Object.values(own).some(hasHooks);
}

/** The first failure of the run with the scenario's faults only: nothing can be derived from such a run. */
function plainFailure(
  rack: ExploredRack,
  recording: RackRun,
  { claims = false }: ExploreOptions,
): string | undefined {
  const record = recordOf(recording, claims);
  const [found] = [
    ...failuresOf([...record.reports, ...recording.unfinished]),
    ...unsoundness(recording, claims).map(({ checker, found }) => `${checker}: ${found}`),
    ...judgeProtocols(endOf(record, rack.own), rack.around).flatMap(({ program, findings }) =>
      findings.map((text) => `${program}: ${text}`)
    ),
  ];
  return found === undefined ? undefined : `the plain run failed: ${found}`;
}

/** By what a power failure could be judged: promises, and the demands of protocols. */
function oraclesOf(
  { own }: ExploredRack,
  { recording, robustness, options: { claims = false } }: {
    readonly recording: RackRun;
    readonly robustness: Robustness | undefined;
    readonly options: ExploreOptions;
  },
): readonly Oracle[] {
  const record = recordOf(recording, claims);
  const arePromises = [persistence, replicatedLog, wholeObjects, answered].some(({ subjects }) =>
    subjects(record) > 0
  );
  const isChecked = Object.values(own).some((make) => make().check !== undefined);
  const areNoted = recording.notes.some(({ note }) => note.kind === "operation") &&
    Object.values(own).some((make) => isJudgedByOperations(make()));
  return [
    ...(arePromises ? ["promises" as const] : []),
    ...(isChecked ? ["check" as const] : []),
    ...(areNoted ? ["operations" as const] : []),
    ...(robustness === undefined ? [] : ["robustness" as const]),
  ];
}

function isJudgedByOperations({ recover, check }: OwnProgram): boolean {
  return recover !== undefined && check === undefined;
}

/** Why robustness says nothing of some words; undefined where it has judged all that were read. */
function whyUnexplained(robustness: Robustness | undefined): string | undefined {
  if (robustness === undefined || robustness.unexplained === 0) return undefined;
  const words = countOf(robustness.unexplained, "word");
  return `recovery read ${words} with a content that no write of the run explains`;
}

/**
 * Why a run without a violation proves little; undefined where it proves that there is none.
 * @param more.isOnce second power failures were left out on request.
 */
function whyUnsure(
  { endPs }: RackRun,
  { instants, bounded, covered, again }: Counts,
  { isCutOff, isOnce }: { readonly isCutOff: boolean; readonly isOnce: boolean },
): string | undefined {
  if (isCutOff) {
    return "the scenario's `until` ends a run, with or without the power failure, before it is over";
  }
  if (instants === 0) return `there was no instant to cut at: the run ends at ${formatTime(endPs)}`;
  const reasons = [
    ...(bounded > 0 ? [whyBounded(bounded, covered.all())] : []),
    ...(again.cut < again.recoveries ? [whyNotAgain(again, isOnce)] : []),
  ];
  return reasons.length > 0 ? reasons.join("; ") : undefined;
}

/** That some recoveries were not cut again, and what would do it. */
function whyNotAgain({ recoveries, cut, ways }: Again, isOnce: boolean): string {
  if (isOnce) {
    return `${countOf(recoveries, "recovery that writes was", "recoveries that write were")} not ` +
      "cut again (--cuts 1)";
  }
  return `the power failed again during ${cut} of ${recoveries} recoveries that write, ` +
    `with ${countOf(ways, "way")} to find memory: --cuts 2 has it fail during all`;
}

/** What was tried where there were more choices, and that the rest was not. */
function whyBounded(bounded: number, covered: readonly Covered[]): string {
  const others = bounded - covered.reduce((sum, { instants }) => sum + instants, 0);
  const tried = [
    ...covered.map(coveredText),
    ...(others > 0 ? [`at ${countOf(others, "instant")} some choices alone`] : []),
  ];
  return `not every choice was tried (--choices), but ${tried.join("; ")}`;
}

function whyStop(
  exploration: Exploration,
  { limit = Infinity, forMs = Infinity, stopped }: ExploreOptions,
  elapsedMs: number,
): string | undefined {
  const size = () => `after ${sizeText(exploration)}`;
  if (stopped?.()) return `it was interrupted ${size()}`;
  if (exploration.counts.crashPoints >= limit) return `${limit} crash points were asked for`;
  return elapsedMs >= forMs ? `its time of ${forMs / 1_000} s is over ${size()}` : undefined;
}

/** What makes an exploration large, and how much of that is done: survivors see as many futures as frames. */
function sizeText({ rack, recording, targets, options, counts }: Exploration): string {
  const { from = 0, until = Infinity, cut } = options;
  const frames = targets.flat().flatMap((host) => {
    const { config: { rnic }, noticePs } = victimOf(rack.plan, host);
    const sent = recording.sendings.get(rnic)?.frames ?? [];
    return sent.filter((at) => at - noticePs >= from && at - noticePs < until);
  }).length;
  const { continuations } = counts;
  if (cut === "all") {
    return `${countOf(counts.instants, "instant")} of a run of ${formatTime(recording.endPs)}`;
  }
  return `${continuations} of about ${
    frames + targets.length
  } runs of the rack, one for each frame ` +
    "that a host sends before its power fails";
}

/** Groups of hosts, each cut at once. */
function targetsOf(
  rack: ExploredRack,
  recording: RackRun,
  { cut }: ExploreOptions,
): readonly (readonly string[])[] {
  const hosts = rack.plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  if (cut === "all") return [hosts];
  if (cut === "each") return hosts.map((host) => [host]);
  if (cut !== undefined) return [[cut.host]];
  const wanted = new Set(
    recording.notes.flatMap(({ node, note }) => {
      if (note.kind === "writes") return [note.on];
      // Each end of a shared region: what survives at home, and what survivors are told (C-10).
      return note.kind === "region" ? [note.home, node] : [];
    }),
  );
  for (const node of rack.plan.nodes) {
    const programs = node.kind === "host" ? node.config.programs : [];
    const isJudged = (run: string) => rack.own[run] !== undefined && hasHooks(rack.own[run]);
    if (programs.some(({ run }) => isJudged(run))) wanted.add(node.name);
  }
  // A check looks at any host, also at one that runs none of its protocol's programs.
  if (Object.values(rack.own).some((make) => make().check !== undefined)) {
    for (const [host, { entries }] of recording.histories) if (entries.length > 0) wanted.add(host);
  }
  const found = hosts.filter((host) => wanted.has(host));
  return (found.length > 0 ? found : hosts).map((host) => [host]);
}

function countWrites({ notes, lives }: RackRun): Pick<Verdict, "writes" | "promises"> {
  const stores = flushedWrites(notes, lives);
  const writes = notes.filter(({ note }) => note.kind === "writes").length + stores.length;
  const promises = stores.filter(({ promised }) => promised !== undefined).length +
    notes.filter(({ note }) => note.kind === "persistent" && note.promised).length;
  return { writes, promises };
}
