/** Names that a shell completes. */
import type { RunFile } from "../../../fabric/rack/build/run_file.ts";
import { listRuns } from "../run_directory.ts";

export const NAMES = ["nodes", "hosts", "runs"] as const;
export type NamesOf = typeof NAMES[number];

/** All runs; nodes, or hosts, of the racks that are up, and the services that `kill` accepts. */
export async function completionNames(kind: NamesOf): Promise<string[]> {
  const rows = await listRuns();
  if (kind === "runs") return rows.flatMap(({ id, mark }) => mark ? [id, mark] : [id]);
  const names = new Set<string>();
  for (const { path } of rows.filter(({ up }) => up)) {
    const { plan }: RunFile = JSON.parse(await Deno.readTextFile(`${path}/run.json`));
    for (const node of plan.nodes) {
      if (kind === "nodes" || node.kind === "host") names.add(node.name);
    }
    if (kind === "nodes") names.add("timekeeper").add("nats");
  }
  return [...names];
}
