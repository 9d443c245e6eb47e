/** A run as its directory has it, for a replay: what happened to it, and what its replay has to equal. */
import { type ClockEnd, orderFromLine, type Recorded } from "../../fabric/clock/record.ts";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { RunFile } from "../../fabric/rack/build/run_file.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import { ifThere, isThere, linesIfThere } from "../base/files.ts";
import { livesOf } from "../checks/lives.ts";
import { faultsIn, inexactIn, recordedIn, type ReplayedFaults } from "../rack/fault_lines.ts";
import { INPUT_BYTES_MAX } from "../rack/prepare.ts";
import { findRun, linkedTo, type RackUp } from "../rack/live/racks.ts";
import { variantFolder } from "../reports/run_summary.ts";
import { readClockEnd, readRunFile, readSupervisor } from "../rack/run_directory.ts";
import { type Checkpoint, readCheckpoint } from "./checkpoints.ts";
import type { KnownDigest, ReplayJob } from "./job.ts";
import type { ReplayTarget } from "./types.ts";

/**
 * The run and what is on record of it, up to now where its rack is up.
 * @throws Refusal for an unknown run, a variant that it has not, and one that cannot be replayed exactly.
 */
export async function sourceOf(target: ReplayTarget): Promise<ReplayJob> {
  const { id, path, directory } = await placeOf(target);
  const runFile = readRunFile(directory);
  if (runFile === undefined) {
    throw refusal("run", { found: `${id} has no run file`, expected: "a run that has begun" });
  }
  if (target.checkpoint !== undefined) {
    const checkpoint = readCheckpoint(directory, target.checkpoint);
    return sourceAt(checkpoint, { runFile, directory, id });
  }
  const supervisor = readSupervisor(path);
  const rack = supervisor && { id, directory, file: runFile, supervisor };
  const end = rack === undefined ? readClockEnd(directory) : await endNow(rack);
  const inexact = inexactIn(directory);
  if (inexact.length > 0) {
    const found = `${id} cannot be replayed exactly: ${inexact.join("; ")}`;
    throw refusal("run", { found, expected: "a run of which all is known" });
  }
  checkInputs(runFile, id);
  const whole = { runFile, directory };
  const plan = planOf(whole, recordedIn(directory));
  const isLive = rack !== undefined;
  return {
    ...{ runFile, run: id, variant: variantOf(directory, id) },
    plan,
    orders: ordersOf(plan, directory),
    known: [...atDeaths(linesIfThere<Recorded>(`${directory}/faults.jsonl`)), ...atEnd(end)],
    unknownEnd: unknownEnd(end),
    until: untilOf(end, lastOnRecord(whole, plan)),
    isLive,
  };
}

/**
 * A run as it was at a checkpoint: with what was on record then of power and cables, and with the digests
 * that it had. What has come since, also what makes the run inexact, is no part of it.
 */
function sourceAt(
  { at, nodes, faults }: Checkpoint,
  { runFile, directory, id }: Whole & { readonly id: string },
): ReplayJob {
  checkInputs(runFile, id);
  const text = faults.map((line) => JSON.stringify(line) + "\n").join("");
  const plan = planOf({ runFile, directory }, faultsIn(text, `a checkpoint of ${id}`));
  return {
    ...{ runFile, run: id, plan, isLive: false, unknownEnd: "", until: at },
    variant: variantOf(directory, id),
    orders: ordersOf(plan, directory).filter(({ time }) => time < at),
    known: [
      ...atDeaths(faults.filter((fault) => fault.at < at)),
      ...nodes.map(([node, digest]) => ({ node, at, digest })),
    ],
  };
}

/** The directory of a run, and of the variant that is meant. @throws Refusal where there is none. */
export async function placeOf({ run, variant }: ReplayTarget) {
  const row = await findRun(run, "run");
  return { ...row, directory: variantFolder(row, variant) };
}

function variantOf(directory: string, id: string): string {
  return directory.endsWith(`/${id}`) ? "" : directory.replace(/.*\//, "");
}

interface Whole {
  readonly runFile: RunFile;
  readonly directory: string;
}

/** A run has copies of what it was given, but of what is beyond its limit. @throws Refusal */
function checkInputs({ inputs }: RunFile, id: string): void {
  for (const path of Object.values(inputs).flatMap((files) => Object.values(files))) {
    if (isThere(path)) continue;
    const found = `${id} was given ${path}, which is not there any more`;
    const expected = `that file: a run keeps copies of ${formatSize(INPUT_BYTES_MAX)} at most`;
    throw refusal("run", { found, expected });
  }
}

const RECORDS = ["faults.jsonl", "orders.jsonl"];
const END_TRIES = 20;

/** How far a rack that is up has come, when nothing was put on record meanwhile. */
async function endNow(rack: RackUp): Promise<ClockEnd> {
  const sizes = () =>
    RECORDS.map((name) => ifThere(() => Deno.statSync(`${rack.directory}/${name}`).size)).join();
  return await linkedTo(rack, async ({ control }) => {
    for (let tries = 1;; tries++) {
      const before = sizes();
      const end = await control.demand<ClockEnd>("end", {});
      if (sizes() === before || tries === END_TRIES) return end;
    }
  });
}

/** Whether devices of the run were processes on the bus. */
export function hadTimekeeper(directory: string): boolean {
  return isThere(`${directory}/timekeeper.term`);
}

/** The plan with power failures, returns and faults of cables as they happened. */
function planOf(
  { runFile: { plan, partitions }, directory }: Whole,
  { faults, linkFaults }: ReplayedFaults,
): RackPlan {
  if (!hadTimekeeper(directory)) return plan;
  // Devices that share a process carry out the plan by themselves, which is not on record.
  const shared = new Set(
    partitions.filter(({ nodes }) => nodes.length > 1).flatMap(({ nodes }) => nodes),
  );
  const own = plan.faults.filter(({ node }) => shared.has(node));
  const links = [...plan.linkFaults ?? [], ...linkFaults];
  return {
    ...plan,
    faults: [...faults, ...own].sort((x: FaultPlan, y: FaultPlan) => x.at - y.at),
    ...(links.length > 0 && { linkFaults: links }),
  };
}

/** Each order with the life of its host that it was for: the one that has power at its instant. */
function ordersOf(plan: RackPlan, directory: string): SimulatedOrder[] {
  const lives = livesOf(plan, plan.faults);
  return linesIfThere<unknown>(`${directory}/orders.jsonl`).map((line) => {
    const { at: time, host, counter, program } = orderFromLine(
      line,
      (counter) => ifThere(() => Deno.readFileSync(`${directory}/orders/${counter}`)),
    );
    const life = Math.max(0, (lives.get(host) ?? []).findLastIndex(({ from }) => from <= time));
    return { time, host, life, counter, program };
  });
}

/** Of one that was written on the way, a device without power may have come back since. */
function atEnd(end: ClockEnd | undefined): KnownDigest[] {
  return (end?.partitions ?? []).flatMap(({ reached, nodes }) =>
    reached === null && isPassed(end!)
      ? []
      : nodes.map(([node, digest]) => ({ node, at: reached, digest }))
  );
}

/** Whether more may have happened since it was written. */
function isPassed({ isOnTheWay, isFinished }: ClockEnd): boolean {
  return isOnTheWay === true && !isFinished;
}

/** Why nobody can say that the replay is the run to its end; "" where it can be said. */
function unknownEnd(end: ClockEnd | undefined): string {
  if (end === undefined) {
    return "its timekeeper was killed within its first second, and has left no digest";
  }
  if (!isPassed(end)) return "";
  return `its timekeeper was killed with it: the replay is compared with what the run was up to ${
    formatTime(end.virtualPs)
  }, and what came behind is known only as far as it is on record`;
}

function untilOf(end: ClockEnd | undefined, last: Time | null): Time | null {
  if (end === undefined) return last;
  if (end.isFinished) return null;
  if (!isPassed(end)) return end.virtualPs + 1;
  return last === null ? null : Math.max(last, end.virtualPs + 1);
}

function atDeaths(recorded: readonly Recorded[]): KnownDigest[] {
  return recorded.flatMap((fault) => {
    // Only a power failure or return has digests; a round of chaos has put its programs on record, too.
    if (!("digests" in fault)) return [];
    return fault.digests.map(([node, high, low]) => {
      return { node, at: fault.at + 1, digest: hex(high) + hex(low) };
    });
  });
}

function hex(lane: number): string {
  return (lane >>> 0).toString(16).padStart(8, "0");
}

/** A run that has left no end is replayed as far as something is on record: where it was killed is not known. */
function lastOnRecord({ runFile: { stayUp }, directory }: Whole, plan: RackPlan): Time | null {
  if (!stayUp) return null;
  const instants = [
    ...plan.faults.map(({ at }) => at),
    ...(plan.linkFaults ?? []).map(({ at }) => at),
    ...ordersOf(plan, directory).map(({ time }) => time),
  ];
  return Math.max(0, ...instants) + 1;
}
