/**
 * A core's access to a line of a region, and the interface that a program's handle needs of its
 * host for it.
 */
import type { Time } from "../../../fabric/base/time.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { HoldPlan } from "../../../fabric/rack/plan/plan.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FarOp, FarResult } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { CoreCost } from "./home_agent.ts";
import type { StoreBuffer } from "./store_buffer.ts";

/** A core's request for a line; `lines`: of a flush. */
export interface LineRequest {
  readonly op: Exclude<FarOp, "own">;
  readonly line: number;
  readonly change?: LineChange | undefined;
  readonly lines?: number | undefined;
}

/** The end of an access. `data`: the line as a load saw it, or as it was before an atomic. */
export interface Outcome {
  readonly result: FarResult;
  readonly data?: Uint8Array | undefined;
  /** Of a far load: a program has moved the copies to home's card, where no invalidation tells of a change. */
  readonly away?: true;
  readonly cost: CoreCost;
}

export interface RegionAccess {
  readonly flushCosts: { readonly issuePs: Time; readonly fencePs: Time };
  /** The store buffer of a core, with `memory: tso`; undefined with `sc`, where stores do not wait. */
  buffer(core: number): StoreBuffer | undefined;
  /**
   * Called before a program's next access, or its next store into a buffer. @returns until when it
   * is held; 0: it is not. Absent where no program is held.
   */
  readonly holdOf?: ((program: string, step: HoldPlan["step"]) => Time) | undefined;
  /** Cost of a store into the buffer, and of a load from it. */
  readonly storePs: Time;
  /** True if {@link ready} would return at once. */
  isReady(region: SharedRegion, cpu: Cpu): boolean;
  /**
   * Returns when the region can be accessed: a far host's is registered (C-03). Without a card it
   * returns at once, as an access then ends as fenced. @throws RegionRefused
   */
  ready(region: SharedRegion, cpu: Cpu): Steps<void>;
  /** Ends the registration of a region; its copies are written back. @throws RegionRefused */
  deregister(region: SharedRegion, cpu: Cpu): Steps<void>;
  nextId(): number;
  /**
   * Begins an access. The caller asks for its {@link outcome} at once. @returns the access's
   * number.
   */
  begin(region: SharedRegion, request: LineRequest): number;
  /** The end of an access, given out once; undefined before it. */
  outcome(ticket: number): Outcome | undefined;
  /** The core has paid for an ended access and goes on. */
  paid(ticket: number, outcome: Outcome): void;
  flushRoomAt(region: SharedRegion, line: number): Time;
  /** Number of times that the content seen by cores of a line may have changed. */
  changesOf(region: SharedRegion, line: number): number;
  /** The signals of such changes. */
  signalsOf(region: SharedRegion, line: number): readonly string[];
  /** This host has stored to a line: its other programs may wait for that. */
  stored(region: SharedRegion, line: number): void;
  /** A program has polled a line whose changes no invalidation reports. */
  polled(): void;
}
