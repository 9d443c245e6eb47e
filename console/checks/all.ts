/** Every promise of the rack that is checked at the end of every run. */
import { completions } from "./completions.ts";
import { persistence } from "./persistence.ts";
import { replicatedLog } from "./replicated_log.ts";
import type { Checker, RunRecord } from "./run_record.ts";
import { silence } from "./silence.ts";
import { answersInOrder, conservation, lineRate } from "./wire_checks.ts";
import type { Finding } from "./finding.ts";

export const CHECKERS: readonly Checker[] = [
  persistence,
  completions,
  conservation,
  silence,
  replicatedLog,
  answersInOrder,
  lineRate,
];

/** What a checker says of a run. */
export interface Verdict {
  readonly checker: Checker;
  /** How much was looked at, for people. */
  readonly looked: string;
  readonly findings: readonly Finding[];
}

/** Looks at a run with every checker. */
export function checkAll(run: RunRecord): Verdict[] {
  return CHECKERS.map((checker) => ({
    checker,
    looked: checker.looked(run),
    findings: checker.check(run),
  }));
}

/** What is wrong with a run, for people; empty where every promise is kept. */
export function findingsText(verdicts: readonly Verdict[]): string {
  return verdicts.flatMap(({ checker, findings }) =>
    findings.map(({ text }) => `${checker.name}: ${text}`)
  ).join("\n");
}
