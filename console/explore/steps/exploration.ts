import { hasContent, whyNothingToKeep } from "../../checks/activity.ts";
import { directoryIn } from "../../checks/scm_objects.ts";
import { persistence } from "../../checks/persistence.ts";
import { replicatedLog } from "../../checks/replicated_log.ts";
import { answered } from "../../checks/shared/answered.ts";
import { flushedWrites } from "../../checks/shared/flushed.ts";
import { wholeObjects } from "../../checks/whole_objects.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { TraceLine } from "../../../fabric/trace/trace.ts";
import { hasHooks, type OwnProgram } from "../../../nodes/host/own_programs.ts";
import type { CutHosts } from "../crash_sweep.ts";
import { failureIn, OF_PROGRAMS } from "../failures.ts";
import type { Entry, Range } from "../history.ts";
import { instantsOf } from "../instants.ts";
import { hasInterleavings } from "../interleavings/interleavings.ts";
import { orderOf, type RunRaces } from "../interleavings/order.ts";
import { firstOfEachKind, isTurnOf, type Turn } from "../kinds.ts";
import { framesOf } from "../cards.ts";
import { PostCrashRuns, victimOf } from "../post_crash_run.ts";
import { type RackRun, runRack } from "../rerun.ts";
import { judgedByRobustness, Robustness } from "../robust/robustness.ts";
import { isOfWrites, StrictHistory } from "../robust/strict_history.ts";
import { type Disturbances, framesOfRun, stallsOfRun } from "../disturbed/disturbances.ts";
import { slackOf } from "../slack.ts";
import { recordOf } from "../survivors.ts";
import {
  type ExploredRack,
  type ExploreOptions,
  type Oracle,
  type Slack,
  UNCHECKED,
  type Verdict,
} from "../types.ts";

export interface Exploration {
  readonly rack: ExploredRack;
  readonly options: ExploreOptions;
  readonly recording: RackRun;
  readonly robustness: Robustness | undefined;
  /** In the order of judging; none where a power failure has nothing to break. */
  readonly sweeps: readonly Sweep[];
}

export interface Sweep {
  readonly cut: CutHosts;
  readonly inTurn: readonly Time[];
  readonly isInTurn: (at: Time) => boolean;
}

/** The part of a verdict that does not come from steps. Plain data. */
export interface Opening extends Pick<Verdict, "hosts" | "judgedBy" | "writes" | "promises"> {
  readonly failure: string | null;
  readonly nothing: string | null;
  readonly endPs: Time;
  readonly isCutOff: boolean;
  readonly isRobust: boolean;
  /** About so many runs show the survivors at the chosen instants; null: no host survives. */
  readonly futures: number | null;
  readonly sweeps: readonly SweepSize[];
  /** Null where none are wanted, or this run fails. */
  readonly races: RunRaces | null;
  /** Null where none are wanted, or there is nothing to break. */
  readonly stalls: Disturbances | null;
  readonly frames: Disturbances | null;
  /** Null where nothing is promised of a host whose memory alone survives. */
  readonly slack: Slack | null;
}

export interface SweepSize {
  readonly cut: string;
  readonly instants: number;
  /** By instant: frames that survivors see; empty where no host survives. */
  readonly frames: readonly number[];
}

/** @throws Error where a host to be cut is not in the rack. */
export function openExploration(
  rack: ExploredRack,
  options: ExploreOptions,
): { readonly exploration: Exploration; readonly opening: Opening } {
  const { recording, robustness } = record(rack, options);
  const targets = targetsOf(rack, recording, options), hosts = targets.flat();
  for (const host of hosts) victimOf(rack.plan, host);
  // Survivors' futures, a run for each frame that a failed host has sent, would answer nothing.
  const nothing = whyNothing(rack, recording) ?? null, isWorth = nothing === null;
  const turns: readonly Turn[] = options.inOrder ? ["all"] : ["first of each kind", "rest"];
  const cuts = isWorth
    ? targets.map((hosts) => cutOf(rack, { recording, hosts, options, of: targets.length }))
    : [];
  // The likely mistakes of all hosts come first.
  const sweeps = turns.flatMap((turn) => cuts.map((cut) => sweepOf(recording, cut, turn)));
  const failure = plainFailure(rack, recording, options) ?? null;
  const opening: Opening = {
    ...{ hosts, judgedBy: oraclesOf(rack, { recording, robustness, options }) },
    ...countWrites(recording),
    failure,
    nothing,
    endPs: recording.endPs,
    isCutOff: recording.isCutOff,
    isRobust: robustness !== undefined,
    futures: futuresOf(rack, { recording, targets, options }),
    sweeps: sweeps.map(sizeOf),
    races: failure === null && areInterleaved(rack, options) ? racesOf(recording) : null,
    ...disturbancesOf(rack, { recording, options, isWorth: failure === null && isWorth }),
    slack: slackOf(recording) ?? null,
  };
  return { exploration: { rack, options, recording, robustness, sweeps }, opening };
}

function areInterleaved(
  { plan }: ExploredRack,
  { preemptions = 0, from, until }: ExploreOptions,
): boolean {
  return preemptions > 0 && from === undefined && until === undefined && hasInterleavings(plan);
}

function disturbancesOf(
  rack: ExploredRack,
  { recording, options, isWorth }: {
    readonly recording: RackRun;
    readonly options: ExploreOptions;
    readonly isWorth: boolean;
  },
): Pick<Opening, "stalls" | "frames"> {
  const { stalls = 0, frames = 0, stall: ps, cut, from, until } = options;
  const isAll = cut !== "none" && from === undefined && until === undefined;
  if (!isWorth || !isAll || ps === undefined) return { stalls: null, frames: null };
  return {
    stalls: stalls > 0 ? stallsOfRun(rack, { recording, most: stalls, ps }) : null,
    frames: frames > 0 ? framesOfRun(rack, { recording, most: frames, ps }) : null,
  };
}

function racesOf({ notes }: RackRun): RunRaces {
  const { races, key } = orderOf(notes);
  return { races, key };
}

const KEPT_MAX = 48;

function cutOf(
  rack: ExploredRack,
  cut: {
    readonly recording: RackRun;
    readonly hosts: readonly string[];
    readonly options: ExploreOptions;
    readonly of: number;
  },
): CutHosts {
  const { recording, hosts, options, of } = cut;
  const victims = hosts.map((host) => victimOf(rack.plan, host));
  const [victim] = victims;
  const isProtocolJudged = Object.values(rack.own).some(hasHooks);
  const keep = Math.floor(KEPT_MAX / of);
  const runs = options.cut === "all" || victim === undefined
    ? undefined
    : new PostCrashRuns(rack, { recording, victim }, { histories: isProtocolJudged, keep });
  const instants = instantsOf(recording, { ...options, victims, runs, isProtocolJudged });
  return { victims, runs, instants, examined: new WeakMap() };
}

function sweepOf(recording: RackRun, cut: CutHosts, turn: Turn): Sweep {
  const { instants, victims } = cut;
  const first = turn === "all" ? NONE : firstOfEachKind(instants, { recording, victims });
  const isInTurn = (at: Time) => isTurnOf(turn, first, at);
  return { cut, isInTurn, inTurn: instants.filter(isInTurn) };
}

const NONE: ReadonlySet<Time> = new Set();

function sizeOf({ cut: { victims, runs }, inTurn }: Sweep): SweepSize {
  return {
    cut: victims.map(({ host }) => host).join(" "),
    instants: inTurn.length,
    frames: runs === undefined ? [] : inTurn.map((at) => runs.framesBy(at)),
  };
}

function futuresOf(
  rack: ExploredRack,
  { recording, targets, options: { from = 0, until = Infinity, cut } }: {
    readonly recording: RackRun;
    readonly targets: readonly (readonly string[])[];
    readonly options: ExploreOptions;
  },
): number | null {
  if (cut === "all") return null;
  const frames = targets.flat().flatMap((host) => {
    const { config: { rnics }, noticePs } = victimOf(rack.plan, host);
    const { frames: sent } = framesOf(recording, rnics);
    return sent.filter((at) => at - noticePs >= from && at - noticePs < until);
  });
  return frames.length + targets.length;
}

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
  // Noted operations state requirements, as a check does.
  const isSaid = options.robust !== true &&
    recording.notes.some(({ note }) => note.kind === "operation");
  if (isSaid) return { recording, robustness: undefined };
  return { recording, robustness: new Robustness(new StrictHistory(recording, lines), judged) };
}

const OF_SCM: ReadonlySet<string> = new Set(["writes", "object", "log", "access"]);

/**
 * It takes noted writes, or a protocol that recovers or checks, whose programs have made a change
 * that a power failure could undo.
 */
function whyNothing({ own, plan }: ExploredRack, recording: RackRun): string | undefined {
  const { notes, reports, histories } = recording;
  if (!Object.values(own).some(hasHooks)) {
    return notes.some(({ note }) => OF_SCM.has(note.kind)) ? undefined : UNCHECKED;
  }
  const hasWritten = () =>
    [...histories].some(([host, { entries }]) => {
      const directory = directoryIn(recording.scm.get(host)!, victimOf(plan, host).config.scmBytes);
      return entries.some((entry) => isOfProgram(entry, directory));
    });
  return whyNothingToKeep({ reports, notes, hasWritten });
}

/**
 * False for the service of each host, which stores a new directory of objects past the cache. A
 * program may write at the same place.
 */
function isOfProgram(entry: Entry, directory: Range | undefined): boolean {
  if (entry.kind !== "durable") return entry.kind === "dirty";
  const { offset, bytes } = entry;
  if (directory === undefined || offset < directory.from || offset >= directory.to) return true;
  return hasContent(bytes, { from: offset, directory });
}

function plainFailure(
  rack: ExploredRack,
  recording: RackRun,
  options: ExploreOptions,
): string | undefined {
  const failure = failureIn(rack, recording, options);
  if (failure === undefined) return undefined;
  const { checker, found } = failure;
  return `the plain run failed: ${checker === OF_PROGRAMS ? found : `${checker}: ${found}`}`;
}

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

function targetsOf(
  rack: ExploredRack,
  recording: RackRun,
  { cut }: ExploreOptions,
): readonly (readonly string[])[] {
  const hosts = rack.plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  if (cut === "none") return [];
  if (cut === "all") return [hosts];
  if (cut === "each") return hosts.map((host) => [host]);
  if (cut !== undefined) return [[cut.host]];
  const wanted = new Set(
    recording.notes.flatMap(({ node, note }) => {
      if (note.kind === "writes") return [note.on];
      // Each end of a shared region: content that survives at home, and errors reported to survivors (C-10).
      return note.kind === "region" ? [note.home, node] : [];
    }),
  );
  for (const node of rack.plan.nodes) {
    const programs = node.kind === "host" ? node.config.programs : [];
    const isJudged = (run: string) => rack.own[run] !== undefined && hasHooks(rack.own[run]);
    if (programs.some(({ run }) => isJudged(run))) wanted.add(node.name);
  }
  // A check examines any host, also one that runs none of its protocol's programs.
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
