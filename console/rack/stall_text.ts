import { formatTime } from "../../fabric/base/time.ts";
import type { MemberStatus } from "../../fabric/clock/record.ts";
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import { ownProgramsOf } from "./own/loop_watch.ts";

type Rack = Pick<RunFile, "plan" | "partitions" | "programs">;

/**
 * Names the partitions that time waits for, since when, and their own programs, one of which may
 * never wait.
 * @param why the clock's status of each partition.
 */
export function stallText(why: readonly MemberStatus[], rack?: Rack): string {
  const waits = why.filter(({ status }) =>
    status === "running" || status === "absent" || status === "unknown"
  );
  const who = waits.map(({ partition, status, sinceMs, next }) => {
    const since = `for ${(sinceMs / 1_000).toFixed(1)} s`;
    return status === "running"
      ? `${partition}, busy ${since} with what happens at ${formatTime(next)}` +
        expectedOf(partition, rack)
      : `the process of ${partition}, ${status} ${since}`;
  });
  if (who.length > 0) return `time is not moving: it waits for ${who.join("; ")}`;
  const rows = why.map(({ partition, status }) => `${partition} ${status}`);
  return `time is not moving: ${rows.join(", ")}`;
}

function expectedOf(partition: string, rack: Rack | undefined): string {
  const nodes = rack?.partitions.find(({ name }) => name === partition)?.nodes ?? [];
  const found = rack === undefined ? [] : [...ownProgramsOf(rack.plan, rack.programs)];
  const own = found.filter(([host]) => nodes.includes(host))
    .map(([host, programs]) => `${programs.join(" or ")} on ${host}`);
  return own.length === 0 ? "" : ` (it runs ${own.join(" or ")}, which has to wait, yield*)`;
}
