/** Every whole-rack test holds its run to every promise of the rack, unless it says why not. */
import { AssertionError } from "node:assert/strict";
import { checkAll, type Verdict } from "../../console/checks/all.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";

/** @throws AssertionError with all that checkers find wrong with a run. */
export function assertSound(record: RunRecord): void {
  const text = findingsText(checkAll(record));
  if (text !== "") throw new AssertionError({ message: `The run broke its promises:\n${text}` });
}

/** All findings as text; empty where every promise is kept. */
export function findingsText(verdicts: readonly Verdict[]): string {
  return verdicts.flatMap(({ checker, findings }) =>
    findings.map(({ text }) => `${checker.name}: ${text}`)
  ).join("\n");
}
