import { REPORTED_MAX } from "../checks/finding.ts";
import { rackDigest } from "../../fabric/partition/digest.ts";
import { nativeIn } from "../../fabric/rack/plan/plan.ts";
import { notRestarted } from "../../fabric/rack/plan/not_restarted.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { hostsByAddress } from "../../fabric/trace/trace.ts";
import { checkAllInTurns } from "../checks/all.ts";
import { hasWritten, whyNothingDone } from "../checks/activity.ts";
import { isPutResult } from "../checks/survival.ts";
import { failuresWithSources } from "../rack/native/source_lines.ts";
import { type Outcome, type Reported, reportsOf } from "../rack/run_variant.ts";
import { plainly } from "./json.ts";
import { congestionRows } from "./congestion_report.ts";
import { deviceFaultRows } from "./device_fault_report.ts";
import { faultRows } from "./fault_report.ts";
import { hintRows } from "./hint_report.ts";
import { leadRows } from "./lead_report.ts";
import { nativeRows } from "./native_report.ts";
import { queueRows } from "./queue_report.ts";
import { moduleRows } from "./module_report.ts";
import { placementRows } from "./placement_report.ts";
import { joinedReport, sharedReport } from "./shared_report.ts";
import { tracedIn } from "../rack/trace_operation.ts";
import { checkProtocols } from "./protocol_checks.ts";
import { type Ran, rowsOf, type RunReport } from "./method_report.ts";
import { checksOf, type JudgedVariant, promisesOf } from "./run_checks.ts";

/**
 * Examines a variant that was run: its SCM files, every promise of the rack, and the checks of the
 * user's own protocols.
 * @param options.claims check the claims of methods as if they were promises.
 * @param options.signal ends the checks; it then rejects with the signal's reason.
 */
export async function judge<One extends Ran & Parameters<typeof checkProtocols>[0]>(
  one: One,
  ended: Outcome,
  { claims = false, signal }: {
    readonly claims?: boolean;
    readonly signal?: AbortSignal | undefined;
  } = {},
): Promise<JudgedVariant> {
  const files = nativeIn(one.plan).map(({ program }) => program.native.file);
  const outcome = failuresWithSources(ended, files);
  const { record, directory, ...reportable } = outcome;
  const protocols = outcome.protocols ??
    (record === undefined ? [] : await checkProtocols(one, { record, directory, signal }));
  const rows = await rowsOf(one, outcome);
  if (record === undefined) return { one, outcome: { ...reportable, directory }, rows, protocols };
  const claimed = { ...record, findingsMost: REPORTED_MAX, ...(claims && { claims }) };
  const promises = promisesOf(claimed, await checkAllInTurns(claimed, signal));
  // Else frames and notes of many variants would be kept until the last one has ended.
  const { reports, scm, lives } = record;
  const reported = { ...reportable, directory, record: { reports, scm, lives } };
  const nothing = whyNothingDone({
    ...record,
    hasWritten: () => hasWritten(record, outcome.finals),
  });
  const judged = { one, outcome: reported, rows, protocols, promises };
  return nothing === undefined ? judged : { ...judged, nothing };
}

export function summarise(
  { id, path, wallMs, nats, outcomes, expect = [] }: {
    readonly id: string;
    readonly path: string;
    readonly wallMs: number;
    readonly nats: boolean;
    readonly expect?: readonly string[];
    readonly outcomes: readonly JudgedVariant[];
  },
): RunReport {
  const { plan } = outcomes[0]!.one;
  const methods = outcomes.flatMap(({ rows }) => rows);
  const digests = outcomes.map(({ one, outcome }) => [one.label, outcome.digest] as const);
  const inexact = outcomes.flatMap(({ one, outcome }) =>
    (outcome.inexact ?? []).map((why) => ({ variant: one.label, why }))
  );
  const unchecked = outcomes.flatMap(({ one, nothing }) =>
    nothing === undefined ? [] : [{ variant: one.label, why: nothing }]
  );
  const warnings = [
    ...outcomes.flatMap(({ one: { label, plan } }) =>
      notRestarted(plan).map((each) => ({ variant: label, ...each }))
    ),
    ...warningsOf(outcomes),
  ];
  const natives = outcomes.flatMap(({ one, outcome }) => nativeRows(one, outcome));
  const queues = outcomes.flatMap(({ one, outcome }) => queueRows(one, outcome));
  const hints = outcomes.flatMap(({ one, outcome }) => hintRows(one, outcome));
  const hintLeads = outcomes.flatMap(({ one, outcome }) => leadRows(one, outcome));
  const shared = joinedReport(
    outcomes.flatMap(({ one, outcome }) => {
      const placements = placementRows(one, outcome);
      const modules = placements.length === 0 ? [] : moduleRows(one, tracedIn(outcome.directory));
      return sharedReport(one.label, { reports: reportsOf(outcome), placements, modules }) ?? [];
    }),
  );
  return {
    run: id,
    scenario: plan.scenario,
    seed: plan.seed,
    digest: digests.length === 1 ? digests[0]![1] : rackDigest(digests),
    virtualPs: outcomes.reduce((sum, { outcome }) => sum + outcome.virtualPs, 0),
    wallMs: Math.round(wallMs),
    processes: Math.max(...outcomes.map(({ outcome }) => outcome.processes)) + (nats ? 1 : 0),
    events: outcomes.reduce((sum, { outcome }) => sum + outcome.events, 0),
    directory: path,
    methods,
    congestion: outcomes.flatMap(({ one, outcome }) => congestionRows(one.label, outcome)),
    faults: outcomes.flatMap(({ one, outcome }) =>
      faultRows(one.label, { plan: one.plan, finals: outcome.finals })
    ),
    deviceFaults: outcomes.flatMap(({ one, outcome }) =>
      deviceFaultRows(one.label, { plan: one.plan, finals: outcome.finals })
    ),
    ...(queues.length > 0 && { queues }),
    ...(hints.length > 0 && { hints }),
    ...(hintLeads.length > 0 && { hintLeads }),
    ...(shared && { shared }),
    results: otherResults(outcomes),
    ...(natives.length > 0 && { natives }),
    refused: outcomes.flatMap(({ one, outcome }) =>
      outcome.refused.map((row) => ({ variant: one.label, ...row }))
    ),
    ...(warnings.length > 0 && { warnings }),
    ...(inexact.length > 0 && { inexact }),
    ...(unchecked.length > 0 && { unchecked }),
    checks: checksOf(outcomes, { expect }),
  };
}

function otherResults(
  outcomes: readonly { one: Ran; outcome: Reported }[],
): RunReport["results"] {
  return outcomes.flatMap(({ one, outcome }) =>
    reportsOf(outcome).filter(({ topic, value }) =>
      topic === "program-failed" || (topic === "result" && !isPutResult(value))
    ).map(({ node, value }) => ({ node, variant: one.label, value }))
  );
}

/** Each once, however often it came. */
export function warningsOf(
  outcomes: readonly {
    readonly one: Pick<Ran, "label"> & { readonly plan: Pick<RackPlan, "addresses"> };
    readonly outcome: Pick<Reported, "finals" | "record">;
  }[],
): NonNullable<RunReport["warnings"]> {
  const all = outcomes.flatMap(({ one, outcome }) => {
    const names = hostsByAddress(one.plan);
    return reportsOf(outcome).filter(({ topic }) => topic === "warning").map((
      { node, value },
    ) => ({ node, variant: one.label, text: named(warningText(value), names) }));
  });
  return [...new Map(all.map((each) => [JSON.stringify(each), each])).values()];
}

/** Cards know addresses: the text has the hosts' names in their place. */
export function named(text: string, names: ReadonlyMap<string, string>): string {
  return text.replaceAll(/\b\d+(?:\.\d+){3}\b/g, (address) => names.get(address) ?? address);
}

function warningText(value: unknown): string {
  const { message } = Object(value) as { readonly message?: unknown };
  return typeof message === "string" ? message : JSON.stringify(value, plainly);
}
