/** (s) Memory that computers share (C-11). */
import { formatTime, type Time } from "../../fabric/base/time.ts";
import {
  type SharedLatency,
  type SharedReport,
  sharedReport,
} from "../../console/reports/shared_report.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { LINE_BYTES } from "../scenarios/shared_memory.ts";
import access from "../scenarios/coherent_access.ts";
import cost from "../scenarios/coherent_cost.ts";
import lock from "../scenarios/coherent_lock.ts";
import queue from "../scenarios/coherent_queue.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";
import { type Figure, type Measured, repeat } from "./figure.ts";
import type { PutTable } from "./put_table.ts";
import { cpuMs } from "./traffic_rack.ts";

const SHIPPED: Readonly<Record<string, Program>> = {
  cost,
  access,
  queue,
  lock,
};
const FILES = { cost: "cost", access: "placement", queue: "queue", lock: "lock" } as const;
export type SharedWorkload = keyof typeof FILES;

function measureShared(
  workload: SharedWorkload,
  { seed, change = (text) => text }: {
    readonly seed: number;
    readonly change?: (text: string) => string;
  },
): SharedReport {
  const file = new URL(`../scenarios/coherent_${FILES[workload]}.yaml`, import.meta.url);
  const text = change(Deno.readTextFileSync(file).replace(/^seed: \d+$/m, `seed: ${seed}`));
  const plan = planOf(text);
  const reports: { node: string; topic: string; value: unknown }[] = [];
  const program = SHIPPED[workload]!;
  simulatorOf(plan, (_time, node, topic, value) => void reports.push({ node, topic, value }), {
    own: { [`./coherent_${workload}.ts`]: () => ({ program }) },
  }).run();
  const report = sharedReport(plan.scenario, { reports });
  if (report === undefined) throw new Error(`${plan.scenario} has reported nothing`);
  return report;
}

export function* accessOften({ cpu, options }: ProgramContext): Steps<void> {
  const region = yield* cpu.region("s");
  const line = new Uint8Array(LINE_BYTES).fill(7);
  cpu.report("began", {});
  for (let i = 0; i < Number(options.accesses); i++) {
    const offset = LINE_BYTES * Math.floor(cpu.random() * region.bytes / LINE_BYTES);
    if (cpu.random() < 0.3) yield* region.store(offset, line);
    else yield* region.load(offset, LINE_BYTES);
  }
}

export function rateScenario(
  placement: "local" | "remote",
  accesses: number,
  seed: number,
): string {
  return `
name: rate
seed: ${seed}
profile: clx-optane-cx5
defaults: { services: none, attach: coherent }
hosts: { a: {}, b: {} }
shared: [{ name: s, home: a, far: [b], memory: dram, bytes: 4KiB, placement: ${placement} }]
programs: [{ on: all, program: ./often.ts, accesses: ${accesses} }]
`;
}

/** For each second of processor time, while two computers access a region. */
export function measureSharedRate({ seed, quick }: Measured): Figure[] {
  return (["local", "remote"] as const).map((placement): Figure => {
    const accesses = quick ? 5_000 : 40_000;
    const plan = planOf(rateScenario(placement, accesses, seed));
    const runs = repeat(quick ? 3 : 7, () => {
      let beganMs = 0, began = 0;
      const simulator = simulatorOf(plan, (_time, _node, topic) => {
        if (topic !== "began") return;
        beganMs = cpuMs();
        began = simulator.events;
      }, { own: { "./often.ts": () => ({ program: accessOften }) } });
      simulator.run();
      return (simulator.events - began) / (cpuMs() - beganMs) / 1_000;
    });
    return {
      group: "s",
      what: `one process: events of coherent cards, copies ${placement}`,
      unit: "M/s",
      values: runs,
      target: { is: "at least", value: 0.5 },
    };
  });
}

export function sharedTables(seed: number): PutTable[] {
  return [
    costTable(measureShared("cost", { seed })),
    accessTable(measureShared("access", { seed })),
    crossoverTable(measureShared("access", { seed, change: finely })),
    queueTable(measureShared("queue", { seed })),
    lockTable(measureShared("lock", { seed })),
  ];
}

interface OfMemory {
  readonly card: string;
  readonly placement: string;
}

function memoryText({ card, placement }: OfMemory): string {
  return card === "pcie" ? "PCIe" : `coherent, ${placement}`;
}

function memoriesOf(rows: readonly OfMemory[]): string[] {
  return [...new Set(rows.map(memoryText))];
}

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

/**
 * Shares around the crossover, with so many draws and accesses of each that a single draw decides
 * nothing.
 */
const FINE_SHARES = [24, 28, 30, 32, 34, 36, 38, 40, 42, 44, 46, 50];
const DRAWS = 5, FINE_ACCESSES = 1000;

/** @throws Error where the scenario does not say these numbers. */
function finely(text: string): string {
  const shares = /^ {4}shares: .*$/m, accesses = /^ {4}accesses: \d+$/m;
  if (!shares.test(text) || !accesses.test(text)) {
    throw new Error("No shares or accesses to change");
  }
  return text.replace(shares, `    shares: ${FINE_SHARES.join(" ")}\n    draws: ${DRAWS}`)
    .replace(accesses, `    accesses: ${FINE_ACCESSES}`);
}

function crossoverTable({ accesses, crossovers }: SharedReport): PutTable {
  const [range] = crossovers;
  const row = (farPercent: number): string[] => {
    const means = (placement: string) =>
      accesses.filter((each) => each.placement === placement && each.farPercent === farPercent)
        .map(({ meanPs }) => meanPs);
    const local = means("local"), remote = means("remote");
    const cheaper = local.filter((ps, draw) => ps < remote[draw]!).length;
    return [
      `${farPercent} %`,
      ...[local, remote, means("auto")].map(spread),
      `${cheaper} of ${local.length}`,
    ];
  };
  const known = (percent: number | null | undefined) => percent === null ? "?" : `${percent} %`;
  return {
    name: "shared-crossover",
    header: ["far accesses", "local", "remote", "auto", "draws in which local costs less"],
    rows: [
      ...FINE_SHARES.map(row),
      [
        `crossover: from ${known(range?.fromPercent)} to ${known(range?.toPercent)}`,
        "",
        "",
        "",
        "",
      ],
    ],
  };
}

function spread(ps: readonly Time[]): string {
  const [least, most] = [Math.min(...ps), Math.max(...ps)].map((each) => Math.round(each / 1e3));
  return `${least} to ${most} ns`;
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
