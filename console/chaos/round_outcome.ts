/** What is left of a run when it is over: all that checkers and goals look at. */
import type { SupervisorEvent } from "../rack/supervisor.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { FinalReply } from "../../fabric/rack/build/run_file.ts";
import type { Summary } from "../../fabric/clock/record.ts";
import type { SettledRecord } from "../../nodes/files.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { InjectedAction } from "./fault_injector.ts";

/** A run of a round that came to its end. */
export interface RoundOutcome {
  readonly plan: RackPlan;
  readonly directory: string;
  readonly finals: readonly FinalReply[];
  readonly record: RunRecord;
  /** Power failures and returns as they happened. */
  readonly faults: readonly FaultPlan[];
  /** Of processes: actions that were taken on them, their starts and ends, how the run ended. */
  readonly injected: readonly InjectedAction[];
  readonly events: readonly SupervisorEvent[];
  readonly summary: Summary | undefined;
  readonly settled: readonly SettledRecord[];
}
