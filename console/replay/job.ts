import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import type { Time } from "../../fabric/base/time.ts";

export interface ReplayProgress {
  readonly atPs: Time;
  /** Null: not known yet. */
  readonly endPs: Time | null;
  readonly events: number;
}

/** Of events before `at`, or of all where that is null. */
export interface KnownDigest {
  readonly node: string;
  readonly at: Time | null;
  readonly digest: string;
}

export interface ReplayHead {
  readonly runFile: RunFile;
  readonly run: string;
  readonly variant: string;
  /** With the faults as they happened. */
  readonly plan: RackPlan;
  readonly known: readonly KnownDigest[];
  readonly unknownEnd: string;
  /** Exclusive; null: to the end. */
  readonly until: Time | null;
  /** Where the run is known to have come, for the progress; null: not known. */
  readonly expectedPs: Time | null;
  readonly isLive: boolean;
}

/** With all programs that were started by order, in any order of their instants. */
export interface ReplayJob extends ReplayHead {
  readonly orders: readonly SimulatedOrder[];
}

/**
 * Equal where no fault has come to a run in the meantime. One may be dated before an instant up to
 * which the run was replayed: of a device that had done nothing since.
 */
export function faultsIn({ faults, linkFaults = [] }: RackPlan): string {
  return `${faults.length} ${linkFaults.length}`;
}
