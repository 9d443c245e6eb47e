/**
 * (s) Memory that computers share (C-11): what one access costs near and far, accesses by the far computer's share of
 * them, a queue and a lock, with coherent cards and with PCIe cards. The shipped scenarios, in one process: virtual
 * time, and exact.
 */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import {
  type SharedLatency,
  type SharedReport,
  sharedReport,
} from "../../console/reports/shared_report.ts";
import type { Program } from "../../nodes/host/program_context.ts";
import access from "../scenarios/coherent_access.ts";
import cost from "../scenarios/coherent_cost.ts";
import lock from "../scenarios/coherent_lock.ts";
import queue from "../scenarios/coherent_queue.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import type { PutTable } from "./put_table.ts";

/** A shipped scenario, and the program that it runs. */
const SHIPPED: Readonly<Record<string, Program>> = {
  cost,
  access,
  queue,
  lock,
};
const FILES = { cost: "cost", access: "placement", queue: "queue", lock: "lock" } as const;
export type SharedWorkload = keyof typeof FILES;

/** The report on one of the shipped scenarios. */
export function measureShared(workload: SharedWorkload, seed: number): SharedReport {
  const file = new URL(`../scenarios/coherent_${FILES[workload]}.yaml`, import.meta.url);
  const text = Deno.readTextFileSync(file).replace(/^seed: \d+$/m, `seed: ${seed}`);
  const plan = planOf(text);
  const reports: { node: string; topic: string; value: unknown }[] = [];
  const program = SHIPPED[workload]!;
  simulatorOf(plan, (_time, node, topic, value) => void reports.push({ node, topic, value }), {
    own: { [`./coherent_${workload}.ts`]: () => ({ program }) },
  }).run();
  const report = sharedReport(plan.scenario, reports);
  if (report === undefined) throw new Error(`${plan.scenario} has reported nothing`);
  return report;
}

/** All tables of (s). */
export function sharedTables(seed: number): PutTable[] {
  return [
    costTable(measureShared("cost", seed)),
    accessTable(measureShared("access", seed)),
    queueTable(measureShared("queue", seed)),
    lockTable(measureShared("lock", seed)),
  ];
}

interface OfMemory {
  readonly card: string;
  readonly placement: string;
}

/** `PCIe`; `coherent, local`. */
function memoryText({ card, placement }: OfMemory): string {
  return card === "pcie" ? "PCIe" : `coherent, ${placement}`;
}

function memoriesOf(rows: readonly OfMemory[]): string[] {
  return [...new Set(rows.map(memoryText))];
}

/** A row for each access, a column for each memory: its time, and messages on both buses and on the network. */
function costTable({ costs }: SharedReport): PutTable {
  const memories = memoriesOf(costs);
  const groups = Map.groupBy(costs, ({ access, after }) => `${access}|${after}`);
  return {
    name: "shared-costs",
    header: ["access", "after", ...memories],
    rows: [...groups].map(([key, rows]) => [
      ...key.split("|"),
      ...memories.map((memory) => {
        const found = rows.find((row) => memoryText(row) === memory);
        if (found === undefined) return "";
        const { tookPs, busMessages, networkMessages } = found;
        return `${formatTime(tookPs)} (${busMessages} + ${networkMessages})`;
      }),
    ]),
  };
}

function accessTable({ accesses }: SharedReport): PutTable {
  const median = (latency: SharedLatency | null) =>
    latency === null ? "" : formatTime(latency.median);
  return {
    name: "shared-accesses",
    header: [
      ...["memory", "far accesses", "mean", "home load", "home store", "far load", "far store"],
      ...["bus messages", "network messages", "hits"],
    ],
    rows: accesses.map((row) => [
      memoryText(row),
      `${row.farPercent} %`,
      formatTime(row.meanPs),
      median(row.homeLoadPs),
      median(row.homeStorePs),
      median(row.farLoadPs),
      median(row.farStorePs),
      row.busMessagesPerAccess.toFixed(2),
      row.networkMessagesPerAccess.toFixed(2),
      row.hitRate === null ? "" : `${(100 * row.hitRate).toFixed(1)} %`,
    ]),
  };
}

function queueTable({ queues }: SharedReport): PutTable {
  return {
    name: "shared-queue",
    header: [
      ...["memory", "way", "load", "median", "99th percentile", "million messages/s"],
      ...["looks", "bus messages", "network messages"],
    ],
    rows: queues.map((row) => [
      memoryText(row),
      row.way,
      row.load,
      ...latencyCells(row.latencyPs),
      (row.messagesPerSecond / 1e6).toFixed(2),
      row.looksPerMessage.toFixed(2),
      row.busMessagesPerMessage.toFixed(2),
      row.networkMessagesPerMessage.toFixed(2),
    ]),
  };
}

function lockTable({ locks }: SharedReport): PutTable {
  return {
    name: "shared-lock",
    header: [
      ...["memory", "locked by", "median", "99th percentile", "thousand sections/s"],
      ...["looks", "bus messages", "network messages"],
    ],
    rows: locks.map((row) => [
      memoryText(row),
      row.node,
      ...latencyCells(row.latencyPs),
      (row.sectionsPerSecond / 1e3).toFixed(1),
      row.looksPerSection.toFixed(2),
      row.busMessagesPerSection.toFixed(2),
      row.networkMessagesPerSection.toFixed(2),
    ]),
  };
}

function latencyCells({ median, p99 }: { readonly median: Time; readonly p99: Time }): string[] {
  return [formatTime(median), formatTime(p99)];
}
