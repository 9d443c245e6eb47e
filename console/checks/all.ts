/** Every promise of the rack that is checked at the end of every run. */
import { completions } from "./completions.ts";
import { persistence } from "./persistence.ts";
import { replicatedLog } from "./replicated_log.ts";
import type { Checker, RunRecord } from "./run_record.ts";
import { answered } from "./shared/answered.ts";
import { loads } from "./shared/loads.ts";
import { servedInTurn } from "./shared/served_in_turn.ts";
import { singleWriter } from "./shared/single_writer.ts";
import { shutdowns } from "./shutdowns.ts";
import { silence } from "./silence.ts";
import { wholeObjects } from "./whole_objects.ts";
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
  wholeObjects,
  loads,
  singleWriter,
  answered,
  servedInTurn,
  shutdowns,
];

export interface Verdict {
  readonly checker: Checker;
  readonly looked: string;
  readonly findings: readonly Finding[];
}

export function checkAll(run: RunRecord): Verdict[] {
  return CHECKERS.map((checker) => ({
    checker,
    looked: checker.looked(run),
    findings: checker.check(run),
  }));
}

/** All findings as text; empty where every promise is kept. */
export function findingsText(verdicts: readonly Verdict[]): string {
  return verdicts.flatMap(({ checker, findings }) =>
    findings.map(({ text }) => `${checker.name}: ${text}`)
  ).join("\n");
}
