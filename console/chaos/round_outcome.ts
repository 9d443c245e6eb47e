/** What is left of a run when it is over: all that checkers and goals look at. */
import type { SupervisorEvent } from "../rack/supervisor.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { FinalReply } from "../../fabric/rack/build/run_file.ts";
import type { Summary } from "../../fabric/clock/record.ts";
import type { SettledRecord } from "../../nodes/files.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { Struck } from "./fault_injector.ts";

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
