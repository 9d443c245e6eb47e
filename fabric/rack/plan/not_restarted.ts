/** Warnings of programs that do not run again after their host's power failure. */
import { formatTime } from "../../base/time.ts";
import type { RackPlan } from "./plan.ts";

export interface PlanWarning {
  readonly node: string;
  readonly text: string;
}

/**
 * One for each program without `restart: true` on a host that the scenario starts again, in the
 * plan's order.
 */
export function notRestarted({ nodes, faults }: Pick<RackPlan, "nodes" | "faults">): PlanWarning[] {
  return nodes.flatMap((node): PlanWarning[] => {
    if (node.kind !== "host") return [];
    const start = faults.find(({ action, node: name }) => action === "start" && name === node.name);
    if (start === undefined) return [];
    const runs = new Set(node.config.programs.flatMap(({ service, run }) => service ? [] : [run]));
    return [...runs].map((run) => ({
      node: node.name,
      text: `${run} does not run again when ${node.name} starts at ${formatTime(start.at)}: ` +
        "a program does with `restart: true`",
    }));
  });
}
