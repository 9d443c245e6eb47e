/**
 * Makes the nodes of a plan, of all three kinds: for a rack in one process. Pure; the caller brings
 * files or memory. A process that is one device loads its own kind only (`main.ts`).
 */
import type { CreateNode } from "../fabric/partition/partition.ts";
import { PROGRAMS } from "./host/programs/programs.ts";
import { type FactoryOptions, makeHost } from "./make_host.ts";
import { createRnic } from "./rnic/rnic.ts";
import { createSwitch } from "./switch/switch.ts";

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
