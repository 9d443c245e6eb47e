/** Whether the programs of a run ran through. */
import { PROGRAMS } from "../../fabric/rack/plan/vocabulary.ts";
import { lifeAt } from "./lives.ts";
import type { ReportSeen, RunRecord } from "./run_record.ts";

type Report = Pick<ReportSeen, "node" | "topic" | "value">;

/** Without an end. */
const ENDLESS: ReadonlySet<string> = new Set(["sink", "perftest-server"]);

/** Programs that did not run through, each with its node and why. */
export function failuresOf(reports: readonly Report[]): string[] {
  return reports.flatMap(({ node, topic, value }) => {
    const why = failureOf(topic, value);
    return why === undefined ? [] : [`${node}: ${why}`];
  });
}

/** Shipped programs that have reported nothing though their host kept its power and the run came to its end. */
export function unendedOf(
  run: Pick<RunRecord, "plan" | "lives" | "until">,
  reports: readonly Report[],
): string[] {
  if (run.until !== undefined) return [];
  return run.plan.nodes.flatMap((node) => {
    if (node.kind !== "host" || (run.lives.get(node.name) ?? []).length > 1) return [];
    if (lifeAt(run, node.name, Number.MAX_SAFE_INTEGER) < 0) return [];
    const runs = node.config.programs.map(({ run }) => run)
      .filter((run) => Object.hasOwn(PROGRAMS, run) && !ENDLESS.has(run));
    return [...Map.groupBy(runs, (run) => run)].flatMap(([run, { length }]) => {
      const ended = reports.filter((report) => report.node === node.name && isEndOf(run, report));
      if (ended.length >= length) return [];
      return [`${node.name}: ${length - ended.length} of ${length} ${run} never came to an end`];
    });
  });
}

function isEndOf(run: string, { topic, value }: Report): boolean {
  const { program } = (value ?? {}) as { readonly program?: unknown };
  if (topic === "result") return program === run;
  return topic === "program-failed" && String(program).replace(/#\d+$/, "") === run;
}

/** Why a program failed. A result with its progress, after a fault of the rack, is no failure. */
function failureOf(topic: string, value: unknown): string | undefined {
  const { program, object, message, status, error, reason } = value as Record<string, unknown>;
  if (topic === "program-failed") return String(message);
  const hasBegun = (program === "put" || program === "append") && object !== undefined;
  const neverBegan = topic === "result" && status === "failed" && !hasBegun;
  return neverBegan ? String(error ?? reason ?? "it says that it failed, and not why") : undefined;
}
