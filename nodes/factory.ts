/**
 * The nodes of a plan, for a rack in one process. A process with one device loads only its own kind
 * (`main.ts`).
 */
import type { CreateNode } from "../fabric/partition/partition.ts";
import { PROGRAMS } from "./host/programs/programs.ts";
import { type FactoryOptions, makeHost } from "./make_host.ts";
import { ownTables, withOwnRows } from "./own_tables.ts";
import { createRnic } from "./rnic/rnic.ts";
import { createSwitch } from "./switch/switch.ts";

export function nodeFactory(given: FactoryOptions): CreateNode {
  const { plan } = given;
  const options = { ...given, programs: PROGRAMS };
  const plans = new Map(plan.nodes.map((node) => [node.name, node]));
  return (name, life, unsaved) => {
    const node = plans.get(name)!;
    const tables = node.kind === "rnic" ? ownTables(plan, given.own ?? {}) : undefined;
    switch (node.kind) {
      case "host":
        return makeHost({ name, life, unsaved, config: node.config }, options);
      case "rnic":
        return withOwnRows(
          createRnic(name, node.config, {
            seed: plan.seed,
            tables,
            heldLog: options.heldLog?.(name, life),
          }),
          plan,
        );
      case "switch":
        return createSwitch(name, node.config, { seed: plan.seed });
    }
  };
}
