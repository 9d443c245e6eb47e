import {
  type ClockEnd,
  orderFromLine,
  type Recorded,
  type RecordedOrder,
} from "../../fabric/clock/record.ts";
import { formatTime, NEVER, type Time } from "../../fabric/base/time.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { refusal } from "../../fabric/rack/plan/problem.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import { ifThere, isThere, linesIfThere, textIfThere } from "../base/files.ts";
import { livesOf } from "../checks/lives.ts";
import { faultsIn, inexactIn, recordedIn, type ReplayedFaults } from "../rack/fault_lines.ts";
import { INPUT_BYTES_MAX } from "../rack/prepare.ts";
import { findRun, linkedTo, type RackUp, refreshRecord } from "../rack/live/racks.ts";
import { variantFolder } from "../reports/run_summary.ts";
import { readClockEnd, readRunFile, readSupervisor } from "../rack/run_directory.ts";
import { type Checkpoint, readCheckpoint } from "./checkpoints.ts";
import type { KnownDigest, ReplayHead, ReplayJob } from "./job.ts";

/** Orders come one by one: their content is all that was ever put into the rack. */
export interface ReplaySource {
  readonly head: ReplayHead;
  readonly count: number;
  /** @throws Error where an order's content is gone. */
  readonly orders: () => Iterable<SimulatedOrder>;
}

/** How much has been read: of a rack that is up for long, only new orders are. */
export interface OrdersRead {
  /** The record's bytes before this are final. */
  from: number;
  /** Numbers of the orders after them. */
  counters: ReadonlySet<number>;
}

export function noneRead(): OrdersRead {
  return { from: 0, counters: new Set() };
}

export interface ReplayTarget {
  /** Name or unique prefix of a run's directory. */
  readonly run: string;
  /** Name of a variant's folder, or its number from 1; "" or absent: the first. */
  readonly variant?: string;
  /** The run ends at this checkpoint. */
  readonly checkpoint?: string;
}

/** The run with all of its orders: see {@link openSource}. */
export async function sourceOf(target: ReplayTarget): Promise<ReplayJob> {
  const { head, orders } = await openSource(target, noneRead());
  return { ...head, orders: [...orders()] };
}

/**
 * The run and its record, up to now where its rack is up.
 * @param read moves on to the end of the record.
 * @throws Refusal for an unknown run, an unknown variant, and a run that cannot be replayed
 * exactly.
 */
export async function openSource(target: ReplayTarget, read: OrdersRead): Promise<ReplaySource> {
  const { id, path, directory } = await placeOf(target);
  const runFile = readRunFile(directory);
  if (runFile === undefined) {
    throw refusal("", { found: `${id} has no run file`, expected: "a run that has begun" });
  }
  if (target.checkpoint !== undefined) {
    const checkpoint = readCheckpoint(directory, target.checkpoint);
    return sourceAt(checkpoint, { runFile, directory, id }, read);
  }
  const supervisor = readSupervisor(path);
  const rack = supervisor && { id, directory, file: runFile, supervisor };
  if (rack !== undefined) await refreshRecord(rack);
  const end = rack === undefined ? readClockEnd(directory) : await endNow(rack);
  const inexact = inexactIn(directory);
  if (inexact.length > 0) {
    const found = `${id} cannot be replayed exactly: ${inexact.join("; ")}`;
    throw refusal("", { found, expected: "a run of which all is known" });
  }
  checkInputs(runFile, id);
  const whole = { runFile, directory };
  const faults = recordedIn(directory), plan = planOf(whole, faults);
  const isLive = rack !== undefined;
  const recorded = readOrders(directory, read);
  const head: ReplayHead = {
    ...{ runFile, run: id, variant: variantOf(directory, id) },
    plan,
    known: [...atDeaths(linesIfThere<Recorded>(`${directory}/faults.jsonl`)), ...atEnd(end)],
    unknownEnd: unknownEnd(end),
    until: behindFaults(untilOf(end, lastOnRecord(whole, plan, recorded)), faults, {
      reached: isLive ? reachedBy(end) : NEVER,
    }),
    expectedPs: end?.virtualPs ?? null,
    isLive,
  };
  return { head, count: recorded.length, orders: () => ordersOf(plan, recorded) };
}

/** Later events, also those that make the run inexact, are no part of it. */
function sourceAt(
  { at, nodes, faults }: Checkpoint,
  { runFile, directory, id }: Whole & { readonly id: string },
  read: OrdersRead,
): ReplaySource {
  checkInputs(runFile, id);
  const text = faults.map((line) => JSON.stringify(line) + "\n").join("");
  const plan = planOf({ runFile, directory }, faultsIn(text, `a checkpoint of ${id}`));
  const head: ReplayHead = {
    ...{ runFile, run: id, plan, isLive: false, unknownEnd: "", until: at, expectedPs: at },
    variant: variantOf(directory, id),
    known: [
      ...atDeaths(faults.filter((fault) => fault.at < at)),
      ...nodes.map(([node, digest]) => ({ node, at, digest })),
    ],
  };
  const recorded = readOrders(directory, read).filter((order) => order.at < at);
  return { head, count: recorded.length, orders: () => ordersOf(plan, recorded) };
}

/** Of a run and of a variant. @throws Refusal where there is none. */
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

function checkInputs({ inputs }: RunFile, id: string): void {
  for (const path of Object.values(inputs).flatMap((files) => Object.values(files))) {
    if (isThere(path)) continue;
    const found = `${id} was given ${path}, which is not there any more`;
    const expected = `that file: a run keeps copies of ${formatSize(INPUT_BYTES_MAX)} at most`;
    throw refusal("", { found, expected });
  }
}

const RECORDS = ["faults.jsonl", "orders.jsonl"];
const END_TRIES = 20;

async function endNow(rack: RackUp): Promise<ClockEnd> {
  const sizes = async () => {
    await refreshRecord(rack);
    return RECORDS.map((name) => ifThere(() => Deno.statSync(`${rack.directory}/${name}`).size))
      .join();
  };
  return await linkedTo(rack, async ({ control }) => {
    for (let tries = 1;; tries++) {
      const before = await sizes();
      const end = await control.demand<ClockEnd>("end", {});
      if (await sizes() === before || tries === END_TRIES) return end;
    }
  });
}

function hadTimekeeper(directory: string): boolean {
  return isThere(`${directory}/timekeeper.term`);
}

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

/** Not read yet; without their content, which is read on demand. */
export function readOrders(directory: string, read: OrdersRead): RecordedOrder[] {
  // Before the lines: orders recorded in between are read again, and left out.
  const settled = settledBytes(directory), { from, counters } = read;
  const all = linesIfThere<unknown>(`${directory}/orders.jsonl`, from).map((line) =>
    orderFromLine(
      line,
      (counter) => ifThere(() => Deno.readFileSync(`${directory}/orders/${counter}`)),
    )
  );
  read.from = Math.max(from, settled);
  read.counters = new Set(all.map(({ counter }) => counter));
  return all.filter(({ counter }) => !counters.has(counter));
}

/** Orders in it have all been carried out: room for one is filled later. */
function settledBytes(directory: string): number {
  const { at } = Object(JSON.parse(textIfThere(`${directory}/orders.settled`) ?? "{}"));
  return Number.isSafeInteger(at) ? at : 0;
}

/** Each with the life of its host that has power at the order's instant. */
function* ordersOf(plan: RackPlan, recorded: readonly RecordedOrder[]): Generator<SimulatedOrder> {
  const lives = livesOf(plan, plan.faults);
  for (const order of recorded) {
    const { at: time, host, counter, program } = order;
    const life = Math.max(0, (lives.get(host) ?? []).findLastIndex(({ from }) => from <= time));
    yield { time, host, life, counter, program };
  }
}

const FRAME_BYTES = 1 << 20;
const ORDER_BYTES = 200;

/** A larger order is alone in its part. */
export function* inParts(orders: Iterable<SimulatedOrder>): Generator<SimulatedOrder[]> {
  let part: SimulatedOrder[] = [], bytes = 0;
  for (const order of orders) {
    const { content } = order.program.options;
    const length = ORDER_BYTES + (content instanceof Uint8Array ? content.length : 0);
    if (bytes + length > FRAME_BYTES && part.length > 0) {
      yield part;
      part = [];
      bytes = 0;
    }
    part.push(order);
    bytes += length;
  }
  if (part.length > 0) yield part;
}

/** A device without power may have come back since an end that was written on the way. */
function atEnd(end: ClockEnd | undefined): KnownDigest[] {
  return (end?.partitions ?? []).flatMap(({ reached, nodes }) =>
    reached === null && isPassed(end!)
      ? []
      : nodes.map(([node, digest]) => ({ node, at: reached, digest }))
  );
}

function isPassed({ isOnTheWay, isFinished }: ClockEnd): boolean {
  return isOnTheWay === true && !isFinished;
}

/** Why the replay is not proved to be the run to its end; "" where it is. */
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

/**
 * A device that is killed where time stands is without power from there on; one that is to be killed
 * later is none of the past.
 */
function behindFaults(
  until: Time | null,
  { faults, linkFaults }: ReplayedFaults,
  { reached }: { readonly reached: Time },
): Time | null {
  if (until === null) return null;
  return [...faults, ...linkFaults].filter(({ at }) => at <= reached)
    .reduce((last, { at }) => Math.max(last, at + 1), until);
}

/** Up to here something has happened, or could have. */
function reachedBy(end: ClockEnd | undefined): Time {
  const instants = (end?.partitions ?? []).flatMap(({ reached }) => reached ?? []);
  return Math.max((end?.virtualPs ?? 0) + 1, ...instants);
}

function atDeaths(recorded: readonly Recorded[]): KnownDigest[] {
  return recorded.flatMap((fault) => {
    // Only a power failure or return has digests; a round of chaos has put its programs on record,
    // too.
    if (!("digests" in fault)) return [];
    return fault.digests.map(([node, high, low]) => {
      return { node, at: fault.at + 1, digest: hex(high) + hex(low) };
    });
  });
}

function hex(lane: number): string {
  return (lane >>> 0).toString(16).padStart(8, "0");
}

/**
 * A run without an end is replayed as far as something is on record: when it was killed is not
 * known.
 */
function lastOnRecord(
  { runFile: { stayUp } }: Whole,
  plan: RackPlan,
  orders: readonly RecordedOrder[],
): Time | null {
  if (!stayUp) return null;
  const instants = [
    ...plan.faults.map(({ at }) => at),
    ...(plan.linkFaults ?? []).map(({ at }) => at),
    ...orders.map(({ at }) => at),
  ];
  return instants.reduce((last, at) => Math.max(last, at), 0) + 1;
}
