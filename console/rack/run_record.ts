/** From a finished run to the record that checkers read (`console/checks/run_record.ts`). */
import type { SeenEvent } from "../../fabric/capture/instants.ts";
import type { Observer } from "../../fabric/capture/observation.ts";
import type { OnAudit } from "../../fabric/partition/partition.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { PartitionPlan } from "../../fabric/rack/assembly/topology.ts";
import { inOrder, type ReportSeen, type RunRecord } from "../checks/run_record.ts";
import { WireLedger } from "../checks/wire_ledger.ts";
import { type DurableLog, durableLog } from "../checks/durable_log.ts";
import { recordedIn } from "./fault_lines.ts";
import { heldFor, survivedView } from "./survived.ts";
import { livesOf } from "../checks/lives.ts";

export interface Watch extends DurableLog {
  readonly notes: readonly TimedRecord[];
  readonly reports: readonly ReportSeen[];
  readonly wire: WireLedger;
  readonly onAudit: OnAudit;
  readonly onReport: (time: Time, node: string, topic: string, value: unknown) => void;
  readonly observer: Observer;
}

/** In one process, where only the plan causes power failures. */
export function watchRun(plan: RackPlan): Watch {
  const notes: TimedRecord[] = [];
  const reports: ReportSeen[] = [];
  const lives = livesOf(plan, plan.faults);
  const wire = new WireLedger(plan, lives);
  return {
    ...durableLog(lives),
    notes,
    reports,
    wire,
    onReport: (time, node, topic, value) => void reports.push({ time, node, topic, value }),
    onAudit: (time, node, by, note) => void notes.push({ time, node, by, note }),
    observer: { scope: "wire", see: (observation) => wire.see(observation), commit: () => {} },
  };
}

interface Ended {
  readonly plan: RackPlan;
  readonly directory: string;
}

/**
 * The record of a run in one process.
 * @param ended.hasWire the watch's observer received frames.
 */
export function recordOfWatched(
  { plan, directory, hasWire }: Ended & { readonly hasWire: boolean },
  { notes, reports: made, wire, durable }: Watch,
): RunRecord {
  const reports = inOrder(plan, made);
  return {
    ...commonOf({ plan, directory, reports }),
    plan,
    lives: livesOf(plan, plan.faults),
    notes,
    ...(hasWire && { wire }),
    durable,
  };
}

/**
 * The record of a run of processes.
 * @param ended.hasWire frames were recorded as well as audit records.
 */
export function recordOfProcesses(
  ended: Ended & {
    readonly partitions: readonly PartitionPlan[];
    readonly events: Iterable<SeenEvent>;
    readonly hasWire: boolean;
  },
): RunRecord {
  const { plan: planned, directory, partitions, events, hasWire } = ended;
  const { faults, linkFaults } = recordedIn(directory);
  const all = [...planned.linkFaults ?? [], ...linkFaults];
  const plan = { ...planned, ...(all.length > 0 && { linkFaults: all }) };
  const lives = livesOf(plan, [...faults, ...ownFaults(plan, partitions)]);
  const wire = new WireLedger(plan, lives);
  const notes: TimedRecord[] = [], reports: ReportSeen[] = [];
  for (const { time, node, seen } of events) {
    const { name } = plan.nodes[node]!;
    for (const each of seen) {
      if (each.kind === "note") notes.push({ time, node: name, by: each.by, note: each.note });
      else if (each.kind !== "report") wire.see(each);
      else reports.push({ time, node: name, topic: each.topic, value: each.value });
    }
  }
  return {
    ...commonOf({ plan: planned, directory, reports }),
    plan,
    lives,
    notes,
    ...(hasWire && { wire }),
  };
}

function commonOf(
  { plan, directory, reports }: Ended & Pick<RunRecord, "reports">,
): Pick<RunRecord, "until" | "reports" | "scm"> {
  return {
    ...(plan.until !== null && { until: plan.until }),
    reports,
    scm: (host) => survivedView(directory, host, { held: heldFor(host, reports) }),
  };
}

/** A process executes them on its own nodes; the timekeeper does not record them. */
function ownFaults(plan: RackPlan, partitions: readonly PartitionPlan[]): FaultPlan[] {
  const shared = new Set(
    partitions.filter(({ nodes }) => nodes.length > 1).flatMap((p) => p.nodes),
  );
  return plan.faults.filter(({ node }) => shared.has(node));
}
