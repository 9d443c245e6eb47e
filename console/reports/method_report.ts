import { rnicName } from "../../fabric/rack/plan/names.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { PS_PER_S, type Time } from "../../fabric/base/time.ts";
import type { Finding } from "../checks/finding.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { firstLoss, isIntact, isPutResult, type PutResult } from "../checks/survival.ts";
import { countVerified } from "../checks/verified.ts";
import { withReceived } from "../checks/received.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import { type Column, columnsOf, latencyColumns, tableText, timeColumn } from "./table.ts";
import type { DeviceFaultRow } from "./device_fault_report.ts";
import type { FaultRow } from "./fault_report.ts";
import type { CongestionRow } from "./congestion_report.ts";
import type { HintRow } from "./hint_report.ts";
import type { LeadRow } from "./lead_report.ts";
import type { SharedReport } from "./shared_report.ts";
import type { QueueRow } from "./queue_report.ts";
import type { Prepared } from "../rack/prepare.ts";
import type { Refused } from "../rack/refused.ts";
import { countersOf, type Outcome, reportsOf } from "../rack/run_variant.ts";
import { heldFor, survivedView } from "../rack/survived.ts";
import type { NativeRow } from "./native_report.ts";
import { figuresOf } from "./verified_report.ts";
import { farEnd, type MethodRow, nearEnd } from "./method_row.ts";

export interface RunReport {
  readonly run: string;
  readonly scenario: string;
  readonly seed: number;
  readonly digest: string;
  readonly virtualPs: Time;
  readonly wallMs: number;
  readonly processes: number;
  readonly events: number;
  readonly directory: string;
  readonly captures?: readonly string[];
  readonly methods: readonly MethodRow[];
  readonly congestion: readonly CongestionRow[];
  readonly faults: readonly FaultRow[];
  readonly deviceFaults: readonly DeviceFaultRow[];
  /** Q-11; absent where no queue is of interest. */
  readonly queues?: readonly QueueRow[];
  /** H-30; absent where no card takes part in hints. */
  readonly hints?: readonly HintRow[];
  /** H-30; absent where hints have had nothing fetched. */
  readonly hintLeads?: readonly LeadRow[];
  /** C-11; absent where no program shares memory. */
  readonly shared?: SharedReport;
  readonly results: ReadonlyArray<
    { readonly node: string; readonly variant: string; readonly value: unknown }
  >;
  /** What native programs came to; absent where there is none. */
  readonly natives?: readonly NativeRow[];
  /** Warnings of a program, or of the host for it, which went on; absent where there is none. */
  readonly warnings?: ReadonlyArray<
    { readonly node: string; readonly variant: string; readonly text: string }
  >;
  readonly refused: ReadonlyArray<Refused & { readonly variant: string }>;
  readonly inexact?: ReadonlyArray<{ readonly variant: string; readonly why: string }>;
  /** Variants that did nothing, so that their checks say nothing, and why. */
  readonly unchecked?: ReadonlyArray<{ readonly variant: string; readonly why: string }>;
  readonly checks: ReadonlyArray<
    {
      readonly name: string;
      readonly promise: string;
      readonly looked: readonly string[];
      readonly holds: boolean;
      /** The violation, of many the first ones; "" where the check holds. */
      readonly detail: string;
      /** Each violation of a promise by itself, all that the check has looked for. */
      readonly findings?: readonly (Finding & { readonly variant: string })[];
      /** The check has stopped at its limit: there may be more. */
      readonly mayBeMore?: true;
    }
  >;
}

export type Ran = Pick<Prepared, "label" | "plan" | "inputs">;

/** Of one variant, with the SCM's content after the power failure. */
export async function rowsOf(prepared: Ran, outcome: Outcome): Promise<MethodRow[]> {
  const rows: MethodRow[] = [];
  for (const { node, topic, value } of reportsOf(outcome)) {
    if (topic !== "result" || !isPutResult(value)) continue;
    rows.push(await rowOf({ prepared, outcome, node, result: value }));
  }
  return rows;
}

async function rowOf(
  { prepared, outcome, node, result }: {
    prepared: Ran;
    outcome: Outcome;
    node: string;
    result: PutResult;
  },
): Promise<MethodRow> {
  const path = prepared.inputs[node]?.[result.file];
  const file = path === undefined
    ? madeUpBytes(result.bytes, result.object.name)
    : await Deno.readFile(path);
  const held = heldFor(result.to, reportsOf(outcome));
  const { to: host, object: { scmOffset, length } } = result;
  const image = survivedView(outcome.directory, host, { held });
  // The responder's next boot moves pending messages from its receive buffers into the object.
  const recovered = image && result.method === "send-read"
    ? withReceived(prepared.plan, { host, image })
    : image;
  const survived = recovered?.read(scmOffset, scmOffset + length) ?? new Uint8Array(length);
  const requests = Object.entries(result.requests).reduce(
    (sum, [kind, count]) => kind === "recv" ? sum : sum + count,
    0,
  );
  const { messages, startPs, endPs } = result;
  const isReplaced = isGivenBack(outcome.record?.notes ?? [], { node, result });
  const verified = countVerified(result, { file, survived: isReplaced ? undefined : survived });
  const ended = { plan: prepared.plan, finals: outcome.finals };
  const responder = prepared.plan.nodes.find(({ name }) => name === result.to);
  const ddio = responder?.kind === "host" ? responder.config.ddio ? "on" : "off" : "mixed";
  const seconds = (endPs - startPs) / PS_PER_S;
  const bytes = result.written.reduce((sum, [first, end]) => sum + end - first, 0);
  return {
    method: result.method,
    ddio,
    from: node,
    to: result.to,
    ...(result.toRnic !== undefined && { toRnic: result.toRnic }),
    ...(result.rnic !== undefined && { rnic: result.rnic }),
    messages,
    confirmed: result.confirmedMessages,
    promises: result.promises,
    requestsPerMessage: round(requests / messages),
    packetsPerMessage: result.wire ? round(result.wire.frames / messages) : null,
    bytesPerMessage: result.wire ? round(result.wire.bytes / messages) : null,
    latencyPs: result.latencyPs ?? { median: 0, p99: 0, max: 0 },
    throughputBps: seconds > 0 ? Math.round(bytes * 8 / seconds) : 0,
    cpuPs: { requester: result.cpuPs, responder: servedPs(outcome.finals, result) },
    scmAmplification: amplificationOf(outcome.finals, result.to),
    intact: isIntact(file, survived),
    ...(isReplaced && { replaced: true }),
    loss: (isReplaced ? undefined : firstLoss(result, file, survived)) ?? null,
    ...(verified && {
      verified: figuresOf(verified, result.toRnic ?? rnicName(result.to), ended),
    }),
    error: result.error ?? null,
    digest: outcome.digest,
  };
}

/**
 * Another object has the name, and the place was given back after the last write to it: later
 * objects may be written there.
 */
function isGivenBack(
  notes: RunRecord["notes"],
  { node, result }: { readonly node: string; readonly result: PutResult },
): boolean {
  const { to, endPs, object } = result;
  const from = object.scmOffset, end = from + object.length;
  const last = notes.findLastIndex(({ time, node: writer, note }) =>
    note.kind === "writes" && writer === node && note.on === to && time <= endPs &&
    note.at < end && from < note.at + note.bytes.length
  );
  return last >= 0 &&
    notes.slice(last).some(({ node: owner, note }) =>
      note.kind === "freed" && owner === to && note.at < end && from < note.at + note.length
    );
}

/** Of the responder for this object, as its service reported; 0 if it died before. */
function servedPs(finals: readonly FinalReply[], { to, object }: PutResult): Time {
  for (const { reports } of finals) {
    for (const { node, topic, value } of reports) {
      const served = Object(value) as { object?: unknown; cpuPs?: unknown };
      if (topic !== "served" || node !== to || served.object !== object.name) continue;
      return typeof served.cpuPs === "number" ? served.cpuPs : 0;
    }
  }
  return 0;
}

function amplificationOf(finals: readonly FinalReply[], host: string): number | null {
  const { scmBytesIn = 0, scmBytesOut = 0 } = countersOf(finals, host) ?? {};
  return scmBytesIn > 0 ? round(scmBytesOut / scmBytesIn) : null;
}

const round = (value: number) => Math.round(value * 1_000) / 1_000;

export function reportTable(rows: readonly MethodRow[]): string {
  const hasHosts = new Set(rows.map((row) => `${nearEnd(row)} ${farEnd(row)}`)).size > 1;
  // Writes of whole blocks have no amplification to show.
  const hasAmplification = rows.some(({ scmAmplification }) => (scmAmplification ?? 1) >= 1.1);
  return tableText(
    columnsOf<MethodRow>(
      hasHosts && { title: "from", value: nearEnd },
      hasHosts && { title: "to", value: farEnd },
      { title: "method", value: ({ method }) => method },
      { title: "ddio", value: ({ ddio }) => ddio },
      fixedColumn("requests", 2, ({ requestsPerMessage }) => requestsPerMessage),
      fixedColumn("packets", 2, ({ packetsPerMessage }) => packetsPerMessage),
      fixedColumn("bytes", 0, ({ bytesPerMessage }) => bytesPerMessage),
      ...latencyColumns<MethodRow>(({ latencyPs }) => latencyPs),
      fixedColumn("Gb/s", 2, ({ throughputBps }) => throughputBps / 1e9),
      timeColumn("cpu req", ({ cpuPs }) => cpuPs.requester),
      timeColumn("cpu resp", ({ cpuPs }) => cpuPs.responder),
      hasAmplification && fixedColumn("scm write", 2, ({ scmAmplification }) => scmAmplification),
      { title: "promises", value: ({ promises }) => promises ? "persisted" : "nothing" },
      {
        title: "intact",
        value: ({ loss, intact, replaced }) =>
          loss !== null ? "LOST" : intact ? "yes" : replaced ? "replaced" : "no",
      },
    ),
    rows,
  );
}

function fixedColumn(
  title: string,
  digits: number,
  value: (row: MethodRow) => number | null,
): Column<MethodRow> {
  return { title, value, text: (row) => value(row)?.toFixed(digits) ?? "-" };
}
