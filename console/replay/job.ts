/** Input of a replay's process: the run as its directory and its timekeeper have it. */
import type { RunFile } from "../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import type { Time } from "../../fabric/base/time.ts";

/** Share of the first pass that is done. */
export interface ReplayProgress {
  readonly atPs: Time;
  /** Null where the end is not known yet. */
  readonly endPs: Time | null;
  readonly events: number;
}

/** Digests that a run has left: of events before `at`, or of all where that is null. */
export interface KnownDigest {
  readonly node: string;
  readonly at: Time | null;
  readonly digest: string;
}

export interface ReplayHead {
  readonly runFile: RunFile;
  /** The run's directory, and the name of its variant. */
  readonly run: string;
  readonly variant: string;
  /** With the faults as they happened. */
  readonly plan: RackPlan;
  readonly known: readonly KnownDigest[];
  /** Why the end of the run is not known; "" where it is. */
  readonly unknownEnd: string;
  /** Replayed up to here, exclusive; null: to the end. */
  readonly until: Time | null;
  readonly isLive: boolean;
}

/** With all programs that were started by order, in any order of their instants. */
export interface ReplayJob extends ReplayHead {
  readonly orders: readonly SimulatedOrder[];
}
