import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import { DamagedFileError } from "../../base/files.ts";
import { listRuns, readRunFile } from "../run_directory.ts";

export const NAMES = ["nodes", "hosts", "runs"] as const;
export type NamesOf = typeof NAMES[number];

/**
 * For a shell: all runs; nodes, or hosts, of racks that are up, and the services that `kill`
 * accepts.
 */
export async function completionNames(kind: NamesOf): Promise<string[]> {
  const rows = await listRuns();
  if (kind === "runs") return rows.flatMap(({ id, mark }) => mark ? [id, mark] : [id]);
  const names = new Set<string>();
  for (const { path } of rows.filter(({ up }) => up)) {
    for (const node of nodesOf(path)) {
      if (kind === "nodes" || node.kind === "host") names.add(node.name);
    }
    if (kind === "nodes") names.add("timekeeper").add("nats");
  }
  return [...names];
}

function nodesOf(path: string): RackPlan["nodes"] {
  try {
    return readRunFile(path)?.plan.nodes ?? [];
  } catch (error) {
    if (error instanceof DamagedFileError) return [];
    throw error;
  }
}
