/**
 * A run of the rack with a violation's power failure, and with the write-backs of its choices, is
 * checked. So a counterexample is what the machine does, and its faults replay it.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import type { FaultPlan, WritebackPlan } from "../../fabric/rack/plan/plan.ts";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import type { TraceLine } from "../../fabric/trace/trace.ts";
import { holdLine, linkFaultLine, stallLine, writebackLine } from "../rack/fault_lines.ts";
import { inOrder } from "../checks/run_record.ts";
import { endOf, judgeProtocols } from "../reports/protocol_checks.ts";
import { byTime, faultsWith } from "./post_crash_run.ts";
import { ladderAt } from "./ladder.ts";
import { leftOf, othersOf, recordOf, unsoundness } from "./survivors.ts";
import type { Violation } from "./crash_sweep.ts";
import { type AnnouncedWrite, placesOf } from "./places.ts";
import { toItsEnd } from "./covering/paths.ts";
import { OPERATIONS, OWN_CHECK, ProtocolJudge } from "./protocol_judge.ts";
import { ROBUSTNESS, type Robustness, type UnorderedPair } from "./robust/robustness.ts";
import { eventsMaxOf, type RackRun, runRack } from "./rerun.ts";
import type { Counterexample, ExploredRack, ExploreOptions } from "./types.ts";

export interface Unconfirmed {
  readonly violation: Violation;
  readonly recording: RackRun;
  readonly options: ExploreOptions;
  readonly robustness: Robustness | undefined;
}

/** @throws Error where the run does not show the violation: a bug of the explorer. */
export function confirm(rack: ExploredRack, unconfirmed: Unconfirmed): Counterexample {
  const { violation, recording } = unconfirmed;
  const { hosts, at, again } = violation;
  const writebacks = writebacksOf(violation);
  const faults = faultsWith(rack.plan.faults, { hosts, at });
  const lines: TraceLine[] = [];
  const seen = runRack(rack, {
    faults,
    writebacks,
    histories: true,
    eventsMax: eventsMaxOf(recording),
    onTrace: (time, node, step) => void lines.push({ time, node, ...step }),
  });
  // The run's power failure comes before all notes at its instant.
  const run = { ...seen, notes: byTime([...seen.notes, ...violation.announced]) };
  const shown = shownBy(rack, run, unconfirmed);
  if (shown === undefined) throw disagreement(unconfirmed, { faults, writebacks });
  const scm = shown.scm ?? violation.scm;
  const about = writesAbout(run.notes, { violation, scm });
  const fallen = hosts.filter((host) => run.lives.get(host)?.some(({ to }) => to === at));
  const { plan, notes } = run;
  const ladder = ladderAt(lines, { plan, hosts: fallen, at, notes, scm, pair: shown.pair });
  return {
    hosts,
    atPs: at,
    writebacks,
    faults,
    isReplayable: again === undefined && isShownAlone(rack, seen, violation),
    places: placesOf(recording, { run, hosts, at, writes: about }),
    promised: about.flatMap((write) => promisesOf(run.notes, write, at)),
    checker: violation.checker,
    found: shown.found,
    ...(again !== undefined && { again }),
    ladder: ladder.text,
    operation: ladder.document,
  };
}

/**
 * True if `rack run` with the faults finds it, too. That run lacks the declarations of the instant
 * itself, so its checkers take begun writes for bytes from nowhere; and of hosts that keep their
 * power it has the content after a power failure, where a protocol's check in the explorer sees
 * their cores' view.
 */
function isShownAlone(rack: ExploredRack, run: RackRun, violation: Violation): boolean {
  // `rack run` does not ask for robustness.
  if (violation.checker === ROBUSTNESS) return false;
  if (!isOwn(violation)) return violation.announced.length === 0;
  const verdicts = judgeProtocols(endOf(recordOf(run, false), rack.own), rack.around);
  return verdicts.some(({ findings }) => findings.length > 0);
}

function isOwn({ checker }: Violation): boolean {
  return checker === OWN_CHECK || checker === OPERATIONS;
}

/** Lines of a `faults.jsonl` with which `rack run --faults` replays the counterexample. */
export function faultLines(
  { faults, writebacks, holds = [], stalls = [], linkFaults = [] }: Pick<
    Counterexample,
    "faults" | "writebacks" | "holds" | "stalls" | "linkFaults"
  >,
) {
  const power = faults.map(({ at, action, node }) => JSON.stringify({ at, action, nodes: [node] }));
  return [
    ...holds.map(holdLine),
    ...stalls.map(stallLine),
    ...linkFaults.map(linkFaultLine),
    ...writebacks.map(writebackLine),
    ...power,
  ];
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

interface Shown {
  readonly found: string;
  readonly scm?: Violation["scm"];
  readonly pair?: UnorderedPair;
}

function shownBy(rack: ExploredRack, run: RackRun, unconfirmed: Unconfirmed): Shown | undefined {
  const { violation, options, robustness } = unconfirmed;
  const { hosts, at, checker } = violation;
  const wrong = unsoundness(run, options.claims === true);
  const same = wrong.find((each) => each.checker === checker);
  if (same !== undefined) return same;
  if (!isOwn(violation) && checker !== ROBUSTNESS) return undefined;
  const judge = new ProtocolJudge(rack, options, robustness);
  const noneOpen = { in: () => [] };
  const { breach } = toItsEnd(judge.judge({
    at,
    cut: hosts.map((host) => ({ host, image: leftOf(run, host)!, cells: noneOpen })),
    others: othersOf(run, { but: hosts }),
    reports: inOrder(run.plan, run.reports),
    notes: inOrder(run.plan, run.notes),
  }, { most: options.choices }));
  if (breach?.checker !== checker) return undefined;
  return { found: breach.found, ...(breach.pair && { pair: breach.pair }) };
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
