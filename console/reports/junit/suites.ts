import { formatTime } from "../../../fabric/base/time.ts";
import type { RoundReport } from "../../chaos/campaign.ts";
import { type Explored, exploredText } from "../../explore/report.ts";
import type { MatrixCell } from "../../explore/matrix.ts";
import type { JunitCase, JunitProblem, JunitSuite } from "./xml.ts";
import type { RunReport } from "../method_report.ts";
import { checksOf, type JudgedVariant } from "../run_checks.ts";

type Check = RunReport["checks"][number];

/** A suite for each variant, with a case for each check. */
export function runSuites(report: RunReport, judged: readonly JudgedVariant[]): JunitSuite[] {
  const { scenario: classname, seed, directory } = report;
  const suites = judged.map((variant): JunitSuite => {
    const { one: { label }, outcome: { digest, virtualPs, wallMs } } = variant;
    return {
      name: label,
      classname,
      wallMs,
      properties: { seed: `${seed}`, digest, "virtual time": formatTime(virtualPs), directory },
      cases: [...checksOf([variant]).map(caseOfCheck), ...nothingDone(variant)],
    };
  });
  // Expectations of checks hold for all variants together.
  const failed = new Set(
    suites.flatMap(({ cases }) => cases.flatMap(({ name, problem }) => problem ? [name] : [])),
  );
  const others = report.checks.filter(({ name, holds }) => !holds && !failed.has(name));
  if (others.length === 0) return suites;
  return [...suites, { name: "all variants", classname, cases: others.map(caseOfCheck) }];
}

/** A variant that did nothing has no verdict, like an exploration that is unchecked. */
function nothingDone({ nothing }: JudgedVariant): JunitCase[] {
  if (nothing === undefined) return [];
  const problem = { kind: "error", type: "unchecked", message: nothing } as const;
  return [{ name: "something-was-done", problem }];
}

function caseOfCheck({ name, promise, looked, holds, detail }: Check): JunitCase {
  if (holds) return { name, output: [promise, ...looked].join("\n") };
  const text = `${promise}\n${detail}`;
  return { name, problem: { kind: "failure", type: name, message: detail, text } };
}

const EXPLORED = "power-failure-at-every-instant";

/** A suite for each variant, with one case: the verdict. @param isWhole no variant is missing. */
export function exploreSuites(
  { scenario: classname, seed, explored, isWhole }: {
    readonly scenario: string;
    readonly seed: number;
    readonly explored: readonly Explored[];
    readonly isWhole: boolean;
  },
): JunitSuite[] {
  const suites = explored.map((each): JunitSuite => {
    const { label, verdict: { wallMs } } = each;
    const output = exploredText([each]);
    const problem = problemOfVerdict(each, output);
    return {
      name: label,
      classname,
      properties: { seed: `${seed}` },
      cases: [{ name: EXPLORED, wallMs, ...(problem ? { problem } : { output }) }],
    };
  });
  if (isWhole && suites.length > 0) return suites;
  const message = "it was stopped before all variants were explored";
  const problem: JunitProblem = { kind: "error", type: "partial", message };
  return [...suites, { name: "other variants", classname, cases: [{ name: EXPLORED, problem }] }];
}

/** A promise that is neither kept nor broken is an error, as a skipped case passes for good. */
function problemOfVerdict({ verdict: found }: Explored, text: string): JunitProblem | undefined {
  const { verdict, why = "", counterexample } = found;
  switch (verdict) {
    case "safe":
      return undefined;
    case "unsafe": {
      const { hosts, atPs, checker, found } = counterexample!;
      const cut = `the power of ${hosts.join(", ")} fails at ${formatTime(atPs)}`;
      return { kind: "failure", type: verdict, message: `${cut}: ${checker}: ${found}`, text };
    }
    case "failed":
      return { kind: "failure", type: verdict, message: why, text };
    case "partial":
      return { kind: "error", type: verdict, message: `not all: ${why}`, text };
    case "unchecked":
      return { kind: "error", type: verdict, message: why || "nothing was promised", text };
  }
}

/**
 * A suite for each method, with a case for each cell: an unsafe one is a failure, as
 * `rack explore --claims` of it would be.
 * @param missing cells that were not explored, as the command was stopped.
 */
export function matrixSuites(cells: readonly MatrixCell[], missing: number): JunitSuite[] {
  const suites = [...Map.groupBy(cells, ({ method }) => method)].map((
    [method, own],
  ): JunitSuite => ({
    name: method,
    classname: method,
    cases: own.map(caseOfCell),
  }));
  if (missing === 0) return suites;
  const message = `it was stopped before ${missing} cells were explored`;
  const problem: JunitProblem = { kind: "error", type: "partial", message };
  return [...suites, {
    name: "other cells",
    classname: "matrix",
    cases: [{ name: "cells", problem }],
  }];
}

function caseOfCell(cell: MatrixCell): JunitCase {
  const { update, domain, arch, ddio, receiveBuffer, attach, counterexample, crashPoints } = cell;
  const card = attach === undefined ? "" : `, ${attach} card`;
  const name = `${update}, ${domain}, ${arch}, ddio ${ddio}, receive ${receiveBuffer}${card}`;
  const output = `${crashPoints} crash points`;
  if (counterexample === null) return { name, output };
  const { hosts, atPs, checker, found } = counterexample;
  const cut = `the power of ${hosts.join(", ")} fails at ${formatTime(atPs)}`;
  const message = `${cut}: ${checker}: ${found}`;
  return {
    name,
    problem: { kind: "failure", type: "unsafe", message, text: `${message}\n${output}` },
  };
}

/** A suite, with a case for each round. */
export function chaosSuites(
  { scenario, seed }: { readonly scenario: string; readonly seed: number },
  rounds: readonly RoundReport[],
): JunitSuite[] {
  const none = { kind: "error", type: "untold", message: "no round was begun" } as const;
  return [{
    name: scenario,
    classname: scenario,
    properties: { seed: `${seed}` },
    cases: rounds.length === 0
      ? [{ name: "rounds", problem: none }]
      : rounds.map((round) => caseOfRound(round)),
  }];
}

function caseOfRound(
  { round, what, outcome, findings, untold, command, blows, wallMs }: RoundReport,
): JunitCase {
  const name = `round ${round}`;
  const output = [what, ...blows.map((blow) => blow.what), command].join("\n");
  if (outcome === "held") return { name, wallMs, output };
  const texts = findings.map(({ check, text }) => `${check}: ${text}`);
  const problem: JunitProblem = outcome === "broken"
    ? {
      kind: "failure",
      type: findings[0]?.check ?? outcome,
      message: texts[0] ?? "it did not hold",
      text: texts.join("\n"),
    }
    : { kind: "error", type: outcome, message: untold ?? "no result" };
  return { name, wallMs, output, problem };
}
