/**
 * C-09: nothing is lost by an orderly shutdown. A shutdown with too little time shows at its power
 * failure: the host has not reported that all is written back.
 */
import type { ShutdownStep } from "../../nodes/host/shutdown.ts";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import type { ShutdownPlan } from "../../fabric/rack/plan/plan.ts";
import { countOf, type Finding, nodeTime } from "./finding.ts";
import { lifeAt } from "./lives.ts";
import {
  checkerOf,
  type CheckSteps,
  inSteps,
  mostOf,
  type ReportSeen,
  type RunRecord,
} from "./run_record.ts";
import { firstFault } from "./shared/faults.ts";

export const shutdowns = checkerOf({
  name: "shutdowns-end-in-time",
  promise:
    "A host that is shut down has given its shared regions back, and has written to memory what caches alone have of " +
    "SCM, before its power goes off; unless another fault cuts the shutdown short.",
  looked: (run) => countOf(shutdownsOf(run).length, "orderly shutdown"),
  subjects: (run) => shutdownsOf(run).length,
  concerns: ({ plan }) => plannedIn(plan).length > 0,
  without: "no host was shut down",
  steps: checkShutdowns,
});

interface Planned extends ShutdownPlan {
  readonly host: string;
}

function plannedIn({ nodes }: RunRecord["plan"]): Planned[] {
  return nodes.flatMap((node) =>
    node.kind === "host"
      ? (node.config.shutdowns ?? []).map((each) => ({ ...each, host: node.name }))
      : []
  );
}

function shutdownsOf(run: RunRecord): Planned[] {
  return plannedIn(run.plan).filter(({ host, at, offAt }) =>
    run.lives.get(host)?.[lifeAt(run, host, at)]?.to === offAt &&
    (run.until === undefined || offAt < run.until)
  );
}

function* checkShutdowns(run: RunRecord): CheckSteps {
  const planned = shutdownsOf(run);
  if (planned.length === 0) return [];
  const byHost = new Map(planned.map(({ host }) => [host, [] as ReportSeen[]]));
  yield* inSteps(run.reports, (report) => {
    if (isOfShutdown(report)) byHost.get(report.node)?.push(report);
  });
  const faultAt = firstFault(run), findings: Finding[] = [];
  for (const each of planned) {
    yield;
    findings.push(...lateIn(each, { reports: byHost.get(each.host)!, faultAt }));
    if (findings.length >= mostOf(run)) break;
  }
  return findings.slice(0, mostOf(run));
}

function isOfShutdown({ topic }: ReportSeen): boolean {
  return topic === "shutdown" || topic === "shutdown-step";
}

function* lateIn(
  { host, at, offAt }: Planned,
  seen: { readonly reports: readonly ReportSeen[]; readonly faultAt: Time },
): Generator<Finding> {
  const reports = seen.reports.filter(({ time, value }) =>
    time <= offAt && Object(value).begun === at
  );
  const ended = reports.find(({ topic }) => topic === "shutdown");
  if (ended === undefined) {
    const step = reports.findLast(({ topic }) => topic === "shutdown-step");
    const text = `${host}: ${lateText({ at, offAt }, step?.value as ShutdownStep | undefined)}`;
    return yield { text, at: { node: host, time: offAt } };
  }
  const { failed } = Object(ended.value) as { readonly failed?: readonly string[] };
  // A card or a cable that failed before destroys the data that it alone had: the loss is reported
  // by range.
  if (seen.faultAt < ended.time) return;
  for (const why of failed ?? []) {
    const text = `${host}: its shutdown at ${formatTime(at)} has not given a region back: ${why}`;
    yield { text, at: nodeTime(ended) };
  }
}

function lateText({ at, offAt }: ShutdownPlan, step: ShutdownStep | undefined): string {
  return `its shutdown at ${formatTime(at)} had ${
    formatTime(offAt - at as Time)
  } and did not end: ` +
    `its power went off at ${formatTime(offAt)} before ${undoneText(step)}`;
}

/** Which step of a shutdown had not ended. @param step the value of its last `shutdown-step`, if there is one. */
export function undoneText(step: ShutdownStep | undefined): string {
  switch (step?.step) {
    case "end-programs":
      return `its ${countOf(step.programs, "program")} had ended`;
    case "give-back": {
      const what = step.regions.length === 1 ? "region" : "regions";
      return `it had given back its shared ${what} ${step.regions.join(", ")}`;
    }
    case "write-back":
      return `it had written back the last ${countOf(step.lines, "line")} of SCM`;
    case undefined:
      return "its shutdown had begun";
  }
}
