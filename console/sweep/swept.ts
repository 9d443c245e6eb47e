import type { RunReport } from "../reports/method_report.ts";
import type { Combination } from "./combinations.ts";

export interface SweptCombination extends Pick<Combination, "number" | "values"> {
  /**
   * `done`: its checks hold, as those of a `rack run` with exit code 0. `unchecked`: its programs
   * did nothing.
   */
  readonly state: "done" | "unchecked" | "failed" | "interrupted" | "not run";
  /** Why it is not done; else empty. */
  readonly error: string;
  /** As `rack run --json` has it; null where the run has come to no end. */
  readonly report: RunReport | null;
  /** Its scenario, and the files of a failed run; relative to the sweep's directory. */
  readonly scenario: string;
  readonly directory: string | null;
}

/** Relative to the sweep's directory. */
export function folderOf({ scenario }: Pick<SweptCombination, "scenario">): string {
  return scenario.replace(/\.yaml$/, "");
}

/** @param path of the sweep. */
export async function sweptBy(
  row: SweptCombination,
  report: RunReport,
  { path }: { readonly path: string },
): Promise<SweptCombination> {
  const directory = folderOf(row);
  const broken = report.checks.filter(({ holds }) => !holds);
  if (broken.length === 0) {
    // Figures are in the report, and the scenario makes the rest again.
    await Deno.remove(`${path}/${directory}`, { recursive: true });
    const { unchecked: [nothing] = [] } = report;
    return nothing === undefined
      ? { ...row, state: "done", report }
      : { ...row, state: "unchecked", error: nothing.why, report };
  }
  const error = broken.map(({ name, detail }) => `${name}: ${detail}`).join("; ");
  return { ...row, state: "failed", error, report, directory };
}

/** @param error absent where the sweep was interrupted. */
export function unswept(row: SweptCombination, error?: string): SweptCombination {
  const directory = folderOf(row);
  return error === undefined
    ? { ...row, state: "interrupted", directory }
    : { ...row, state: "failed", error, directory };
}
