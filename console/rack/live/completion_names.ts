/** Names that a shell completes, as they are when it asks. */
import type { RunFile } from "../../../fabric/rack/build/run_file.ts";
import { listRuns } from "../run_directory.ts";

export const NAMES = ["nodes", "hosts", "runs"] as const;
export type NamesOf = typeof NAMES[number];

/** Runs that are there; nodes, or hosts, of the racks that are up, and the services that `kill` knows. */
export async function completionNames(of: NamesOf): Promise<string[]> {
  const rows = await listRuns();
  if (of === "runs") return rows.flatMap(({ id, mark }) => mark ? [id, mark] : [id]);
  const names = new Set<string>();
  for (const { path } of rows.filter(({ up }) => up)) {
    const { plan }: RunFile = JSON.parse(await Deno.readTextFile(`${path}/run.json`));
    for (const { name, kind } of plan.nodes) {
      if (of === "nodes" || kind === "host") names.add(name);
    }
    if (of === "nodes") names.add("timekeeper").add("nats");
  }
  return [...names];
}
