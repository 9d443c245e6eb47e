/**
 * Makes the nodes of a plan, of all three kinds: for a rack in one process. Pure; whoever uses it brings
 * files or memory. A process that is one device loads its own kind only (`main.ts`).
 */
import type { CreateNode } from "../fabric/partition/partition.ts";
import type { RackPlan } from "../fabric/rack/plan/plan.ts";
import type { MemoryLog } from "./host/memory/memory_log.ts";
import type { Program } from "./host/cpu/program.ts";
import type { Recover } from "./host/recovery/protocol.ts";
import type { ImageReader } from "./host/memory/sparse_bytes.ts";
import { PROGRAMS } from "./host/programs/programs.ts";
import { makeHost } from "./make_host.ts";
import { createRnic } from "./rnic/rnic.ts";
import { createSwitch } from "./switch/switch.ts";

export interface FactoryOptions {
  readonly plan: RackPlan;
  /** What is in a host's SCM when it gets power; absent: zeros. */
  readonly image: (host: string) => ImageReader | undefined;
  /** Files that the programs of a host read, by the name the scenario gives them. */
  readonly inputs: (host: string) => Readonly<Record<string, Uint8Array>>;
  /** Programs besides the shipped ones: the user's own, by the path the scenario gives them. */
  readonly programs: Readonly<Record<string, Program>>;
  /** How hosts of these programs find their way back after a power failure (see `host/recovery/protocol.ts`). */
  readonly recoveries?: Readonly<Record<string, Recover>>;
  /** Who is told what becomes of a host's SCM in one of its lives, from 0; absent: nobody. */
  readonly memoryLog?: (host: string, life: number) => MemoryLog | undefined;
}

/** Makes each node of the plan when it gets power. */
export function nodeFactory(given: FactoryOptions): CreateNode {
  const { plan } = given;
  const options = { ...given, programs: { ...PROGRAMS, ...given.programs } };
  const plans = new Map(plan.nodes.map((node) => [node.name, node]));
  return (name, life, unsaved) => {
    const node = plans.get(name)!;
    switch (node.kind) {
      case "host":
        return makeHost({ name, life, unsaved, config: node.config }, options);
      case "rnic":
        return createRnic(name, node.config, { seed: plan.seed });
      case "switch":
        return createSwitch(name, node.config, { seed: plan.seed });
    }
  };
}
