/** Messages of a job's process on its standard output, a JSON document a line. Its order is on its input. */
import type { JobOrder, JobResult } from "../../api/jobs.ts";

/** The order with the scenario as a file. */
export interface JobWork {
  /** Native programs may run: the console was started so. */
  readonly allowNative?: true;
  readonly order: JobOrder;
  /** Path of the scenario, and the folder in which its own paths begin where that is another one. */
  readonly scenario: string;
  readonly base: string | undefined;
  /** For a run that shows a counterexample: its faults, and the data that programs read. */
  readonly replay?: { readonly faults: string; readonly input: string | undefined };
}

export type JobLine =
  | { readonly say: "progress"; readonly title: string; readonly share: number }
  | { readonly say: "run"; readonly run: string }
  | { readonly say: "note"; readonly text: string }
  /** The results so far. */
  | { readonly say: "result"; readonly result: JobResult }
  | { readonly say: "end"; readonly verdict: string; readonly isGood: boolean }
  | { readonly say: "error"; readonly message: string; readonly code: number };
