/**
 * The begin of a run's file and of its record, for a rack that repeats the run up to an instant.
 */
import type { RecordedLinkFault, RecordedOrder } from "../../../fabric/clock/record.ts";
import { ordersBehind } from "../../../fabric/clock/timekeeper.ts";
import { type PartitionPlan, partitionsOf } from "../../../fabric/rack/assembly/topology.ts";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import type { FaultPlan, RackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { ReplayJob } from "../job.ts";

export interface Repeated extends Pick<RunFile, "plan" | "partitions"> {
  /** Of before the instant, oldest first, each with the life of its host. */
  readonly orders: readonly RecordedOrder[];
  readonly ordersFrom: number;
  readonly links: readonly RecordedLinkFault[];
}

export interface RepeatOptions {
  readonly at: Time;
  /**
   * All of the record counts, as at a checkpoint, also faults that take effect later; else only
   * those before the instant.
   */
  readonly withPending?: boolean;
  readonly planned?: readonly FaultPlan[];
}

/** @param job the run with its faults as they happened. */
export function repeatOf(
  { runFile, plan, orders }: Pick<ReplayJob, "runFile" | "plan" | "orders">,
  { at, withPending = false, planned = [] }: RepeatOptions,
): Repeated {
  const scripted = [...runFile.plan.faults, ...planned].sort((x, y) => x.at - y.at);
  const isScripted = (fault: FaultPlan) => scripted.some((each) => isSame(each, fault));
  const happened = plan.faults.filter((fault) =>
    fault.at < at || (withPending && !isScripted(fault))
  );
  const faults = [...happened, ...pendingOf(scripted, happened)].sort((x, y) => x.at - y.at);
  const own = new Set((runFile.plan.linkFaults ?? []).map(({ id }) => id));
  const ordered = (plan.linkFaults ?? []).filter((fault) =>
    !own.has(fault.id) && (fault.at < at || withPending)
  );
  const repeated: RackPlan = { ...runFile.plan, faults };
  const partitions = partitionsFor(repeated, runFile.partitions);
  return {
    plan: repeated,
    partitions,
    orders: orders.filter(({ time }) => time < at).map(({ time, host, life, counter, program }) => {
      return { at: time, host, counter, incarnation: life, program };
    }),
    ordersFrom: ordersBehind(orders),
    links: ordered.map((fault) => {
      const { id, at } = fault;
      return { at, action: "link", partition: "", nodes: [], token: `repeated-${id}`, fault };
    }),
  };
}

/**
 * The run's own; where devices that share a process lose power, or all are in one, a process for
 * each device. The run's events are the same.
 */
function partitionsFor(
  plan: RackPlan,
  partitions: readonly PartitionPlan[],
): readonly PartitionPlan[] {
  const loses = new Set(plan.faults.map(({ node }) => node));
  const isFit = partitions.length > 1 &&
    partitions.every(({ nodes }) => nodes.length === 1 || !nodes.some((node) => loses.has(node)));
  return isFit ? partitions : partitionsOf(plan, "node");
}

function pendingOf(scripted: readonly FaultPlan[], happened: readonly FaultPlan[]): FaultPlan[] {
  const byNode = Map.groupBy(scripted, ({ node }) => node);
  for (const { node, action, at } of happened) {
    const left = byNode.get(node) ?? [];
    if (action === "start") {
      while (left.length > 0 && (left[0]!.action === "start" || left[0]!.at < at)) left.shift();
    } else if (left[0]?.action === "kill" && left[0].at <= at) left.shift();
  }
  return [...byNode.values()].flat();
}

function isSame(x: FaultPlan, y: FaultPlan): boolean {
  return x.at === y.at && x.node === y.node && x.action === y.action;
}
