import type { JobOrder, JobResult } from "../../api/jobs.ts";
import type { Reach } from "../../scenarios/read_door.ts";

export interface JobWork {
  /** Native programs may run: the console was started so. */
  readonly allowNative?: true;
  readonly order: JobOrder;
  /** Absent: the order names none. */
  readonly scenario?: { readonly path: string; readonly reach: Reach };
  /** Where an exploration keeps what it has found; absent: nowhere. */
  readonly memory?: string;
  /** For a run that shows a counterexample. */
  readonly replay?: { readonly faults: string; readonly input: string | undefined };
}

export type JobLine =
  | { readonly say: "progress"; readonly title: string; readonly share: number }
  | { readonly say: "run"; readonly run: string }
  /** A file that its scenario names, and that is read. */
  | { readonly say: "read"; readonly file: string }
  | { readonly say: "note"; readonly text: string }
  | { readonly say: "result"; readonly result: JobResult }
  | { readonly say: "end"; readonly verdict: string; readonly isGood: boolean }
  | { readonly say: "error"; readonly message: string; readonly code: number };
