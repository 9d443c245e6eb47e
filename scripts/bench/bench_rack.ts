/** The racks of the bench: scenarios of any size, without files. */
import { makePlan, type Packing, partitionsOf } from "../../fabric/rack/build/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Prepared } from "../../console/rack/prepare.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";

/** The persistent writes of one host. */
export interface Load {
  readonly writes: number;
  readonly bytes: number;
  readonly depth: number;
}

export interface BenchRack {
  readonly hosts: number;
  readonly seed: number;
  /** The writers' load: flow 1, `persist-opcode`, the product's main method. */
  readonly load?: Load;
  /** One host, or all: each writes to the next. */
  readonly writers: number;
}

/** A rack of so many hosts in a star, prepared to run. */
export function benchRack(rack: BenchRack, packing: Packing): Prepared {
  const [variant] = variants(parseScenario(scenarioText(rack), "bench.yaml"));
  const plan = makePlan(variant!);
  const { label } = variant!;
  const partitions = partitionsOf(plan, packing);
  return { label, variant: variant!, plan, partitions, base: ".", inputs: {}, programs: {} };
}

function scenarioText({ hosts, seed, load, writers }: BenchRack): string {
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
