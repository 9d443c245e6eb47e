/**
 * From a suspicion to a counterexample: the power failure is made to happen in a run of the rack, with the
 * write-backs that its choices stand for, and the checkers look at what that leaves. So nothing is shown
 * that the machine does not do, and the faults that are named are known to show it again.
 */
import type { TimedNote } from "../../fabric/audit.ts";
import type { FaultPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { formatTime, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import { WITHOUT_END } from "../../nodes/host/recovery/recovery_machine.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { writebackLine } from "../rack/fault_lines.ts";
import { findingsOf, viewOf } from "../reports/protocol_checks.ts";
import { byTime, faultsWith, victimOf } from "./post_crash_run.ts";
import { type Bytes, Overlay } from "./history.ts";
import { ladderAt } from "./ladder.ts";
import { othersOf, recordOf, unsoundness } from "./survivors.ts";
import { OWN_CHECK, type Suspicion } from "./crash_sweep.ts";
import { placesOf, type SpokenWrite } from "./places.ts";
import { ProtocolJudge } from "./protocol_judge.ts";
import { type RackRun, runRack } from "./rerun.ts";
import type { Counterexample, ExploredRack, ExploreOptions } from "./types.ts";

export interface Suspected {
  readonly suspicion: Suspicion;
  readonly recording: RackRun;
  readonly options: ExploreOptions;
}

/** @throws Error where the run does not show what was suspected: the explorer is wrong then. */
export function confirm(rack: ExploredRack, of: Suspected): Counterexample {
  const { suspicion, recording } = of;
  const { hosts, at, again } = suspicion;
  const writebacks = writebacksOf(suspicion);
  const failed = faultsWith(rack.plan.faults, { hosts, at });
  const ended = runRack(rack, { faults: failed, writebacks });
  const back = returnsOf(rack, suspicion, ended.endPs);
  const isOwn = suspicion.checker === OWN_CHECK;
  const faults = isOwn ? failed : [...failed, ...back];
  const lines: TraceLine[] = [];
  const seen = runRack(rack, {
    faults,
    writebacks,
    histories: true,
    onTrace: (time, node, step) => void lines.push({ time, node, ...step }),
  });
  // A run knows no middle of an instant: the power fails before anybody says anything at it.
  const run = { ...seen, notes: byTime([...seen.notes, ...suspicion.announced]) };
  const shown = shownBy(rack, run, of);
  if (shown === undefined) throw disagreement(of, { faults, writebacks });
  const isEndless = suspicion.found.endsWith(WITHOUT_END);
  const replayed = isEndless
    ? undefined
    : isOwn
    ? replayOf(rack, { faults: [...failed, ...back], writebacks })
    : faults;
  const scm = shown.scm ?? suspicion.scm;
  const about = spokenOf(run.notes, { suspicion, scm });
  // The scenario may have taken the power of some before.
  const fallen = hosts.filter((host) => run.lives.get(host)?.some(({ to }) => to === at));
  return {
    hosts,
    atPs: at,
    writebacks,
    faults: replayed ?? failed,
    // Without what was announced, a run takes what was begun for bytes from nowhere, right or wrong.
    isReplayable: replayed !== undefined && again === undefined &&
      (isOwn || suspicion.announced.length === 0),
    places: placesOf(recording, { run, hosts, at, writes: about }),
    promised: about.flatMap((write) => toldOf(run.notes, write, at)),
    checker: suspicion.checker,
    found: shown.found,
    ...(again !== undefined && { again }),
    ladder: ladderAt(lines, { plan: run.plan, hosts: fallen, at, scm }),
  };
}

/** The lines of a `faults.jsonl` by which `rack run --faults` has the counterexample again. */
export function faultLines({ faults, writebacks }: Pick<Counterexample, "faults" | "writebacks">) {
  const power = faults.map(({ at, action, node }) => JSON.stringify({ at, action, nodes: [node] }));
  return [...writebacks.map(writebackLine), ...power];
}

function writebacksOf({ settled, early }: Suspicion): WritebackPlan[] {
  const plans: WritebackPlan[] = [...early];
  for (const [node, cells] of settled) {
    for (const [cell, alternative] of cells) {
      for (const each of cell.writebacks(alternative)) plans.push({ ...each, node });
    }
  }
  return plans.sort((x, y) => x.at - y.at || x.from - y.from);
}

/**
 * Hosts that come back when all others are done: those whose card keeps what they had not got yet (`wsp`),
 * as that is in SCM only then, and those whose protocol recovers.
 */
function returnsOf(
  rack: ExploredRack,
  { hosts, at, checker }: Suspicion,
  endPs: Time,
): FaultPlan[] {
  const backAt = Math.max(endPs, at) + PS_PER_US;
  return hosts.filter((host) => {
    const { config } = victimOf(rack.plan, host);
    const recovers = config.programs.some(({ run }) => Object.hasOwn(rack.recoveries, run));
    return config.domain === "wsp" || (checker === OWN_CHECK && recovers);
  }).map((node): FaultPlan => ({ at: backAt, action: "start", node }));
}

/**
 * The faults, where a run with them lets the protocol's own check say that something is wrong, with the
 * recoveries of the hosts that come back in it. (It need not: they may go on, and mend it.)
 */
function replayOf(
  rack: ExploredRack,
  asked: { readonly faults: readonly FaultPlan[]; readonly writebacks: readonly WritebackPlan[] },
): readonly FaultPlan[] | undefined {
  const record = recordOf(runRack(rack, asked), false);
  const isWrong = Object.entries(rack.checks).some(([program, check]) =>
    findingsOf(check, viewOf(record)(program)).length > 0
  );
  return isWrong ? asked.faults : undefined;
}

interface Shown {
  readonly found: string;
  readonly scm?: Suspicion["scm"];
}

/** What is wrong with the run; undefined where nothing is of what was suspected. */
function shownBy(rack: ExploredRack, run: RackRun, of: Suspected): Shown | undefined {
  const { suspicion, options } = of;
  const { hosts, at, checker } = suspicion;
  const wrong = unsoundness(run, options.claims === true);
  const same = wrong.find((each) => each.checker === checker);
  if (same !== undefined) return same;
  if (checker !== OWN_CHECK) return undefined;
  const judge = new ProtocolJudge(rack, options);
  const noneOpen = { in: () => [] };
  const { breach } = judge.judge({
    at,
    cut: hosts.map((host) => ({ host, image: leftOf(run, host), cells: noneOpen })),
    others: othersOf(run, { but: hosts }),
    reports: run.reports,
    notes: run.notes,
  }, { most: options.choices, seed: rack.plan.seed });
  return breach === undefined ? undefined : { found: breach.found };
}

/** SCM of a host that has not come back, with what its card says that it keeps for it (`wsp`). */
function leftOf(run: RackRun, host: string): Pick<Bytes, "read"> {
  const left = new Overlay(run.scm.get(host)!);
  const { rnic } = victimOf(run.plan, host).config;
  const diedAt = run.lives.get(host)?.at(-1)?.to ?? Infinity;
  const held = run.reports.findLast(({ node, topic, time }) =>
    node === rnic && topic === "held" && time >= diedAt
  );
  for (const { address, data } of (held?.value as HeldWrites | undefined)?.writes ?? []) {
    if (address >= SCM_BASE) left.write(address - SCM_BASE, Uint8Array.fromHex(data));
  }
  return left;
}

function disagreement(
  { suspicion }: Suspected,
  run: { readonly faults: readonly FaultPlan[]; readonly writebacks: readonly WritebackPlan[] },
): Error {
  const { hosts, at, checker, found } = suspicion;
  return new Error(
    `Explorer and machine disagree: with ${hosts} cut at ${at} ps, ${checker} says "${found}", and a ` +
      `run with ${faultLines(run).join(" ")} does not show it`,
  );
}

const WRITES_MAX = 8;

/** Writes that the finding is about; where it does not say, the last before the power failure. */
function spokenOf(
  notes: readonly TimedNote[],
  { suspicion, scm }: { readonly suspicion: Suspicion; readonly scm: Suspicion["scm"] },
): SpokenWrite[] {
  const found: SpokenWrite[] = [];
  for (const { time, node, by, note } of notes) {
    if (note.kind !== "writes" || !suspicion.hosts.includes(note.on)) continue;
    const isMeant = scm === undefined
      ? time < suspicion.at
      : note.on === scm.host && note.at < scm.to && note.at + note.bytes.length > scm.from;
    if (isMeant) found.push({ node, by, note });
  }
  return found.slice(-WRITES_MAX);
}

/** What was said of a write, in words. */
function toldOf(
  notes: readonly TimedNote[],
  { by, note: write }: SpokenWrite,
  cutAt: Time,
): string[] {
  const { id, on, at, bytes } = write;
  const place = `${bytes.length} B at 0x${at.toString(16)} of ${on}`;
  const told = notes.flatMap(({ time, node, by: who, note }) => {
    if (who !== by || (note.kind !== "visible" && note.kind !== "persistent")) return [];
    if (note.id !== id) return [];
    const said = note.kind === "visible"
      ? "visible"
      : note.promised
      ? "persistent"
      : "persistent, " +
        "as its method claims";
    const when = time < cutAt
      ? `${formatTime(cutAt - time)} before the power failure`
      : `${formatTime(time - cutAt)} after the power failure`;
    return [
      `write ${id} of ${by} (${place}): ${node} was told at ${time} ps that it is ${said}, ${when}`,
    ];
  });
  return told.length > 0 ? told : [`write ${id} of ${by} (${place}): nothing was said of it`];
}
