/** The reason why time does not move, in one line: for `run` and for the supervisor's log. */
import { formatTime } from "../../fabric/base/time.ts";
import type { MemberStatus } from "../../fabric/clock/record.ts";

/**
 * Names the partitions that time waits for, and since when; `why` is the clock's status of each
 * partition.
 */
export function stallText(why: readonly MemberStatus[]): string {
  const waits = why.filter(({ status }) =>
    status === "running" || status === "absent" || status === "unknown"
  );
  const who = waits.map(({ partition, status, sinceMs, next }) => {
    const since = `for ${(sinceMs / 1_000).toFixed(1)} s`;
    return status === "running"
      ? `${partition}, busy ${since} with what happens at ${formatTime(next)}`
      : `the process of ${partition}, ${status} ${since}`;
  });
  if (who.length > 0) return `time is not moving: it waits for ${who.join("; ")}`;
  const rows = why.map(({ partition, status }) => `${partition} ${status}`);
  return `time is not moving: ${rows.join(", ")}`;
}
