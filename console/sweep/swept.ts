/** A combination of a sweep with what came of it: what runs combinations makes, and what a sweep keeps. */
import type { RunReport } from "../reports/method_report.ts";
import type { Combination } from "./combinations.ts";

/** What came of one combination. */
export interface SweptCombination extends Pick<Combination, "number" | "values"> {
  /** `done`: its checks hold, as those of a `rack run` with exit code 0. */
  readonly state: "done" | "failed" | "interrupted" | "not run";
  /** Why it is not done; else empty. */
  readonly error: string;
  /** As `rack run --json` has it; null where the run has come to no end. */
  readonly report: RunReport | null;
  /** Its scenario, and of one that failed also what its run has left; relative to the sweep's directory. */
  readonly scenario: string;
  readonly directory: string | null;
}
