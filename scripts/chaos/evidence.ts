/** What is left of a run when it is over: all that checkers and goals look at. */
import type { SupervisorEvent } from "../../console/server/supervisor.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan.ts";
import type { FinalReply } from "../../fabric/rack/run_file.ts";
import type { Summary } from "../../fabric/time/record.ts";
import type { SettledRecord } from "../../nodes/files.ts";
import type { RunRecord } from "../../tests/checkers/run_record.ts";
import type { Struck } from "./striker.ts";

/** A run of a round that came to its end. */
export interface Evidence {
  readonly plan: RackPlan;
  readonly directory: string;
  readonly finals: readonly FinalReply[];
  readonly record: RunRecord;
  /** Power failures and returns as they happened. */
  readonly faults: readonly FaultPlan[];
  /** Of processes: what was done to them, what became of them, how it ended. */
  readonly struck: readonly Struck[];
  readonly events: readonly SupervisorEvent[];
  readonly summary: Summary | undefined;
  readonly settled: readonly SettledRecord[];
}
