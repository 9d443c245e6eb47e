/**
 * Reports that a partition keeps until the end of the run, as the bus may lose messages. Of endless
 * kinds (a rack may be up for weeks) the newest.
 */
import type { FinalReply } from "../fabric/rack/assembly/run_file.ts";
import { MOVED_TOPIC } from "../fabric/rack/plan/shared_region.ts";

type Kept = FinalReply["reports"][number];

/**
 * Reports kept of each kind: the programs of orders, and each topic of services, cards and
 * connections.
 */
const ENDLESS_MAX = 1000;
const ENDLESS_TOPICS: ReadonlySet<string> = new Set([
  "served",
  "rnic-event",
  "warning",
  MOVED_TOPIC,
]);

const KEPT_TOPICS: ReadonlySet<string> = new Set([
  "result",
  "recovered",
  "program-failed",
  "program-stopped",
  "native-ended",
  "shutdown",
  "shutdown-step",
  "held",
  ...ENDLESS_TOPICS,
]);

function endlessKind({ topic, value }: Kept): string | undefined {
  if (typeof (value as { order?: unknown } | null)?.order === "number") return "order";
  return ENDLESS_TOPICS.has(topic) ? topic : undefined;
}

export function createKeptReports() {
  const reports: Kept[] = [];
  const counts = new Map<string, number>();
  return {
    reports: reports as readonly Kept[],
    keep(report: Kept): void {
      if (!KEPT_TOPICS.has(report.topic)) return;
      reports.push(report);
      const kind = endlessKind(report);
      if (kind === undefined) return;
      const count = (counts.get(kind) ?? 0) + 1;
      counts.set(kind, Math.min(count, ENDLESS_MAX));
      if (count <= ENDLESS_MAX) return;
      reports.splice(reports.findIndex((each) => endlessKind(each) === kind), 1);
    },
  };
}
