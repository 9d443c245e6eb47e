/**
 * From a violation to a counterexample: a run of the rack with the power failure, and with the write-backs
 * of its choices, is checked. So a counterexample is what the machine does, and its faults replay it.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { FaultPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { formatTime, PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import { WITHOUT_END } from "../../nodes/host/recovery/recovery_machine.ts";
import type { HeldWrites } from "../../nodes/rnic/dma/journal.ts";
import { writebackLine } from "../rack/fault_lines.ts";
import { checksIn, findingsOf, viewOf } from "../reports/protocol_checks.ts";
import { byTime, faultsWith, victimOf } from "./post_crash_run.ts";
import { Overlay, type Readable } from "./history.ts";
import { ladderAt } from "./ladder.ts";
import { othersOf, recordOf, unsoundness } from "./survivors.ts";
import { OWN_CHECK, type Violation } from "./crash_sweep.ts";
import { type AnnouncedWrite, placesOf } from "./places.ts";
import { ProtocolJudge } from "./protocol_judge.ts";
import { type RackRun, runRack } from "./rerun.ts";
import type { Counterexample, ExploredRack, ExploreOptions } from "./types.ts";

export interface Unconfirmed {
  readonly violation: Violation;
  readonly recording: RackRun;
  readonly options: ExploreOptions;
}

/** @throws Error where the run does not show the violation: a bug of the explorer. */
export function confirm(rack: ExploredRack, unconfirmed: Unconfirmed): Counterexample {
  const { violation, recording } = unconfirmed;
  const { hosts, at, again } = violation;
  const writebacks = writebacksOf(violation);
  const failed = faultsWith(rack.plan.faults, { hosts, at });
  const ended = runRack(rack, { faults: failed, writebacks });
  const back = returnsOf(rack, violation, ended.endPs);
  const isOwn = violation.checker === OWN_CHECK;
  const faults = isOwn ? failed : [...failed, ...back];
  const lines: TraceLine[] = [];
  const seen = runRack(rack, {
    faults,
    writebacks,
    histories: true,
    onTrace: (time, node, step) => void lines.push({ time, node, ...step }),
  });
  // The run's power failure comes before all notes at its instant.
  const notes = byTime([...seen.notes, ...violation.announced]);
  // What a host gives back when it returns was in its SCM when the power failed.
  const isAfter = ({ node, time, note }: TimedRecord) =>
    note.kind === "freed" && time > at && hosts.includes(node);
  const run = { ...seen, notes: notes.filter((each) => !isAfter(each)) };
  const shown = shownBy(rack, run, unconfirmed);
  if (shown === undefined) throw disagreement(unconfirmed, { faults, writebacks });
  const isEndless = violation.found.endsWith(WITHOUT_END);
  const replayed = isEndless
    ? undefined
    : isOwn
    ? replayOf(rack, { faults: [...failed, ...back], writebacks })
    : faults;
  const scm = shown.scm ?? violation.scm;
  const about = writesAbout(run.notes, { violation, scm });
  // Some may have lost their power by the scenario before.
  const fallen = hosts.filter((host) => run.lives.get(host)?.some(({ to }) => to === at));
  return {
    hosts,
    atPs: at,
    writebacks,
    faults: replayed ?? failed,
    // Without the declarations of that instant, checkers take begun writes for bytes from nowhere.
    isReplayable: replayed !== undefined && again === undefined &&
      (isOwn || violation.announced.length === 0),
    places: placesOf(recording, { run, hosts, at, writes: about }),
    promised: about.flatMap((write) => promisesOf(run.notes, write, at)),
    checker: violation.checker,
    found: shown.found,
    ...(again !== undefined && { again }),
    ladder: ladderAt(lines, { plan: run.plan, hosts: fallen, at, scm }),
  };
}

/** Lines of a `faults.jsonl` with which `rack run --faults` replays the counterexample. */
export function faultLines({ faults, writebacks }: Pick<Counterexample, "faults" | "writebacks">) {
  const power = faults.map(({ at, action, node }) => JSON.stringify({ at, action, nodes: [node] }));
  return [...writebacks.map(writebackLine), ...power];
}

function writebacksOf({ settled, early }: Violation): WritebackPlan[] {
  const plans: WritebackPlan[] = [...early];
  for (const [node, cells] of settled) {
    for (const [cell, alternative] of cells) {
      for (const each of cell.writebacks(alternative)) plans.push({ ...each, node });
    }
  }
  return plans.sort((x, y) => x.at - y.at || x.from - y.from);
}

/**
 * Returns of hosts when all others are done: of those whose RNIC keeps writes for them (`wsp`), which are
 * in SCM only then, and of those whose protocol recovers.
 */
function returnsOf(
  rack: ExploredRack,
  { hosts, at, checker }: Violation,
  endPs: Time,
): FaultPlan[] {
  const backAt = Math.max(endPs, at) + PS_PER_US;
  return hosts.filter((host) => {
    const { config } = victimOf(rack.plan, host);
    const recovers = config.programs.some(({ run }) => rack.own[run]?.().recover !== undefined);
    return config.domain === "wsp" || (checker === OWN_CHECK && recovers);
  }).map((node): FaultPlan => ({ at: backAt, action: "start", node }));
}

/**
 * The faults, if the protocol's own check fails in a run with them, in which the hosts come back and
 * recover. (It may pass there: the hosts go on, and may repair the data.)
 */
function replayOf(
  rack: ExploredRack,
  faulty: { readonly faults: readonly FaultPlan[]; readonly writebacks: readonly WritebackPlan[] },
): readonly FaultPlan[] | undefined {
  const record = recordOf(runRack(rack, faulty), false);
  const isWrong = checksIn(rack.own).some(([program, check]) =>
    findingsOf(check, viewOf(record)(program)).length > 0
  );
  return isWrong ? faulty.faults : undefined;
}

interface Shown {
  readonly found: string;
  readonly scm?: Violation["scm"];
}

/** The violation as the run shows it; undefined where it does not. */
function shownBy(rack: ExploredRack, run: RackRun, unconfirmed: Unconfirmed): Shown | undefined {
  const { violation, options } = unconfirmed;
  const { hosts, at, checker } = violation;
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

/** SCM of a host that has not come back, with the writes that its RNIC keeps for it (`wsp`). */
function leftOf(run: RackRun, host: string): Readable {
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
  { violation }: Unconfirmed,
  run: { readonly faults: readonly FaultPlan[]; readonly writebacks: readonly WritebackPlan[] },
): Error {
  const { hosts, at, checker, found } = violation;
  return new Error(
    `Explorer and machine disagree: with ${hosts} cut at ${at} ps, ${checker} says "${found}", and a ` +
      `run with ${faultLines(run).join(" ")} does not show it`,
  );
}

const WRITES_MAX = 8;

/** Writes to the wrong bytes; where these are unknown, the last before the power failure. */
function writesAbout(
  notes: readonly TimedRecord[],
  { violation, scm }: { readonly violation: Violation; readonly scm: Violation["scm"] },
): AnnouncedWrite[] {
  const found: AnnouncedWrite[] = [];
  for (const { time, node, by, note } of notes) {
    if (note.kind !== "writes" || !violation.hosts.includes(note.on)) continue;
    const isMeant = scm === undefined
      ? time < violation.at
      : note.on === scm.host && note.at < scm.to && note.at + note.bytes.length > scm.from;
    if (isMeant) found.push({ node, by, note });
  }
  return found.slice(-WRITES_MAX);
}

function promisesOf(
  notes: readonly TimedRecord[],
  { by, note: write }: AnnouncedWrite,
  cutAt: Time,
): string[] {
  const { id, on, at, bytes } = write;
  const place = `${bytes.length} B at 0x${at.toString(16)} of ${on}`;
  const texts = notes.flatMap(({ time, node, by: other, note }) => {
    if (other !== by || (note.kind !== "visible" && note.kind !== "persistent")) return [];
    if (note.id !== id) return [];
    const isClaim = note.kind === "persistent" && !note.promised;
    const state = isClaim ? "persistent, as its method claims," : note.kind;
    const when = time < cutAt
      ? `${formatTime(cutAt - time)} before the power failure`
      : `${formatTime(time - cutAt)} after the power failure`;
    return [
      `write ${id} of ${by} (${place}): confirmed ${state} at ${time} ps (${node}), ${when}`,
    ];
  });
  return texts.length > 0 ? texts : [`write ${id} of ${by} (${place}): not confirmed`];
}
