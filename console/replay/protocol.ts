import type { ReplayEngine } from "./engine.ts";
import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import type { RecordBytes } from "../../nodes/native_records.ts";
import type { ReplayHead, ReplayProgress } from "./job.ts";

export const METHODS = [
  "timeline",
  "density",
  "snapshot",
  "programs",
  "verdicts",
  "memory",
  "memoryMap",
  "loss",
  "cableHistory",
  "cableCapture",
  "operations",
  "ladder",
  "eventsAround",
  "find",
  "digests",
  "digestsIn",
  "digestsAt",
  "end",
] as const;
export type Method = typeof METHODS[number];

export type Arguments<M extends Method> = Parameters<ReplayEngine[M]>;
export type Result<M extends Method> = Awaited<ReturnType<ReplayEngine[M]>>;

/**
 * To the process: first the run to replay, then calls; for a rack that is up also its later state.
 * Orders come once, in several frames before the head of the message they belong to.
 */
export type ReplayRequest =
  | { readonly kind: "orders"; readonly orders: readonly SimulatedOrder[] }
  /** Of a native program, as it has grown: likewise before the head. */
  | { readonly kind: "record"; readonly record: RecordBytes }
  | { readonly kind: "open"; readonly head: ReplayHead }
  | {
    readonly kind: "call";
    readonly id: number;
    readonly method: Method;
    readonly given: readonly unknown[];
  };

export type ReplayReply =
  | { readonly kind: "progress"; readonly progress: ReplayProgress }
  | { readonly kind: "opened" }
  | { readonly kind: "answer"; readonly id: number; readonly value: unknown }
  /** `id` is absent where the replay as a whole has failed. */
  | {
    readonly kind: "failed";
    readonly id?: number;
    readonly message: string;
    readonly code: number;
    /** A wrong question, not a fault. */
    readonly isRefusal: boolean;
  };
