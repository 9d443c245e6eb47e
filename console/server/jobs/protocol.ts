import type { JobOrder, JobResult } from "../../api/jobs.ts";

export interface JobWork {
  /** Native programs may run: the console was started so. */
  readonly allowNative?: true;
  readonly order: JobOrder;
  /** A path, and where the scenario's own paths begin if not in its folder. */
  readonly scenario: string;
  readonly base: string | undefined;
  /** For a run that shows a counterexample. */
  readonly replay?: { readonly faults: string; readonly input: string | undefined };
}

export type JobLine =
  | { readonly say: "progress"; readonly title: string; readonly share: number }
  | { readonly say: "run"; readonly run: string }
  | { readonly say: "note"; readonly text: string }
  | { readonly say: "result"; readonly result: JobResult }
  | { readonly say: "end"; readonly verdict: string; readonly isGood: boolean }
  | { readonly say: "error"; readonly message: string; readonly code: number };
