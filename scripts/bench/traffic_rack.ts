import { cpuUsage } from "node:process";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import type { ProgramPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Simulator } from "../../fabric/partition/simulator.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { type Traffic, traffic, type TrafficResult } from "./traffic.ts";
import { planOf, simulatorOf } from "./bench_rack.ts";

/** Every host writes to the next one, or only the first host writes. */
export interface TrafficRack {
  readonly hosts: number;
  readonly writers: number;
  readonly seed: number;
  readonly load: Omit<Traffic, "to" | "startPs">;
}

export interface TrafficRun {
  readonly packets: number;
  readonly events: number;
  readonly cpuMs: number;
  readonly wallMs: number;
  /** From the first post to the last completion of the slowest writer. */
  readonly virtualPs: Time;
}

const CONNECT_PS = 200 * PS_PER_US, BOOT_PS = 1_000 * PS_PER_US;

/**
 * From the first message to the end, when all queue pairs are connected. @param wrap wraps the
 * function that creates the nodes.
 */
export function runTraffic(
  rack: TrafficRack,
  wrap?: (create: CreateNode) => CreateNode,
): TrafficRun {
  const startPs = BOOT_PS + rack.load.qps * CONNECT_PS;
  const plan = trafficPlan(rack, startPs);
  let ready = 0, done = 0, virtualPs = 0;
  const simulator = simulatorOf(plan, (_time, _node, topic, value) => {
    if (topic === "progress") ready++;
    if (topic !== "result") return;
    done++;
    virtualPs = Math.max(virtualPs, (value as TrafficResult).virtualPs);
  }, { own: { traffic: () => ({ program: traffic }) }, ...(wrap && { wrap }) });
  simulator.run(startPs);
  if (ready < rack.writers) throw new Error(`${ready} of ${rack.writers} hosts are connected`);
  const before = { packets: packetsIn(simulator), events: simulator.events };
  const cpuBefore = cpuMs(), wallBefore = performance.now();
  simulator.run();
  const run = { cpuMs: cpuMs() - cpuBefore, wallMs: performance.now() - wallBefore };
  if (done < rack.writers) throw new Error(`${done} of ${rack.writers} hosts have written`);
  return {
    ...run,
    virtualPs,
    packets: packetsIn(simulator) - before.packets,
    events: simulator.events - before.events,
  };
}

export function cpuMs(): number {
  const { user, system } = cpuUsage();
  return (user + system) / 1_000;
}

function packetsIn(simulator: Simulator): number {
  let packets = 0;
  for (const { framesIn } of Object.values(simulator.statistics())) packets += framesIn ?? 0;
  return packets;
}

function trafficPlan(rack: TrafficRack, startPs: Time): RackPlan {
  const { hosts, seed, load, writers } = rack;
  // A queue pair has two queues; both ends of a host's traffic use the same device.
  const queues = Math.max(1024, 8 * load.qps);
  const last = String(hosts).padStart(2, "0");
  const plan = planOf(
    [
      "name: traffic",
      `seed: ${seed}`,
      "profile: clx-optane-cx5",
      "hosts:",
      `  h01..h${last}: { dram: 1GiB, queues: ${queues}, services: none }`,
    ].join("\n") + "\n",
  );
  const names = plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  return {
    ...plan,
    nodes: plan.nodes.map((node) => {
      if (node.kind !== "host") return node;
      const index = names.indexOf(node.name);
      const to = names[(index + 1) % hosts]!;
      const programs = [
        program("sink", 0, { bytes: load.bytes }),
        ...(index < writers ? [program("traffic", START_PS, { ...load, to, startPs })] : []),
      ];
      return { ...node, config: { ...node.config, programs } };
    }),
  };
}

const START_PS = 200 * PS_PER_US;

function program(run: string, at: Time, options: ProgramPlan["options"]): ProgramPlan {
  return { run, at, service: false, options };
}
