import type { Time } from "../../fabric/base/time.ts";
import type { CreateNode } from "../../fabric/partition/partition.ts";
import { Simulator } from "../../fabric/partition/simulator.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { nodeFactory } from "../../nodes/factory.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import { makePlan, type Packing, partitionsOf } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Prepared } from "../../console/rack/prepare.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

export interface Load {
  readonly writes: number;
  readonly bytes: number;
  readonly depth: number;
}

export interface BenchRack {
  readonly hosts: number;
  readonly seed: number;
  /** Flow 1, `persist-opcode`, the product's main method. */
  readonly load?: Load;
  readonly writers: number;
}

export function planOf(text: string): RackPlan {
  return makePlan(variants(parseScenario(text, "bench.yaml"))[0]!);
}

/** In this process, without files. A program that fails ends the bench. */
export function simulatorOf(
  plan: RackPlan,
  onReport: (time: Time, node: string, topic: string, value: unknown) => void,
  { own = {}, wrap = (create) => create }: {
    readonly own?: Readonly<Record<string, MakeProgram>>;
    readonly wrap?: (create: CreateNode) => CreateNode;
  } = {},
): Simulator {
  return new Simulator({
    plan,
    create: wrap(nodeFactory({ plan, image: () => undefined, inputs: () => ({}), own })),
    onReport(time, node, topic, value) {
      if (topic === "program-failed") throw new Error(`${node}: ${JSON.stringify(value)}`);
      onReport(time, node, topic, value);
    },
  });
}

export function benchRack(rack: BenchRack, packing: Packing): Prepared {
  const [variant] = variants(parseScenario(scenarioText(rack), "bench.yaml"));
  const plan = makePlan(variant!);
  const { label } = variant!;
  const partitions = partitionsOf(plan, packing);
  const nothing = { inputs: {}, programs: {}, hooked: [] };
  return {
    label,
    variant: variant!,
    plan,
    partitions,
    reach: { base: ".", allowRead: [] },
    ...nothing,
  };
}

export function scenarioText({ hosts, seed, load, writers }: BenchRack): string {
  const last = String(hosts).padStart(2, "0");
  const lines = [
    "name: bench",
    `seed: ${seed}`,
    "profile: clx-optane-cx5",
    "hosts:",
    `  h01..h${last}: { ddio: off, scm: { size: 16MiB }, dram: 16MiB }`,
  ];
  if (load !== undefined) {
    const { writes, bytes, depth } = load;
    const on = writers === hosts ? "all" : "h01";
    const size = `depth: ${depth}, size: ${bytes}, bytes: ${writes * bytes}`;
    lines.push(
      "programs:",
      `  - { on: ${on}, run: put, to: next, method: persist-opcode, ${size} }`,
    );
  }
  return lines.join("\n") + "\n";
}
