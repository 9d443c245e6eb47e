/** A core's access to a line of a region, and what a program's handle needs of its host for it. */
import type { Time } from "../../../fabric/base/time.ts";
import type { LineChange } from "../../../fabric/wire/host_bus/line_change.ts";
import type { HoldPlan } from "../../../fabric/rack/plan/plan.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { FarOp, FarResult } from "../../../fabric/wire/host_bus/region_messages.ts";
import type { Cpu, Steps } from "../cpu/program.ts";
import type { CoreCost } from "./home_agent.ts";
import type { StoreBuffer } from "./store_buffer.ts";

/** What a core asks of a line; `lines`: of a flush. */
export interface LineRequest {
  readonly op: Exclude<FarOp, "own">;
  /** Index in the region. */
  readonly line: number;
  readonly change?: LineChange | undefined;
  readonly lines?: number | undefined;
}

/** How an access has ended. `data`: the line as a load saw it, as it was before an atomic. */
export interface Outcome {
  readonly result: FarResult;
  readonly data?: Uint8Array | undefined;
  /** Of a far load: a program has moved the copies to home's card, where no invalidation tells of a change. */
  readonly away?: true;
  /** What its core owes beyond its wait, by module. */
  readonly cost: CoreCost;
}

/** What a handle needs of its host's regions. */
export interface RegionAccess {
  readonly flushCosts: { readonly issuePs: Time; readonly fencePs: Time };
  /** The store buffer of a core, with `memory: tso`; undefined with `sc`, where stores do not wait. */
  buffer(core: number): StoreBuffer | undefined;
  /**
   * A program does its next access, or its next store into a buffer. @returns until when it is held; 0: it is not. Not
   * there where no program is.
   */
  readonly holdOf?: ((program: string, step: HoldPlan["step"]) => Time) | undefined;
  /** What a core pays for a store into its buffer, and for a load from there. */
  readonly storePs: Time;
  /** Whether {@link ready} would return at once. */
  isReady(region: SharedRegion, cpu: Cpu): boolean;
  /**
   * Returns when the region can be accessed: a far host's is registered (C-03). Without a card it returns at once:
   * an access ends as fenced then. @throws RegionRefused
   */
  ready(region: SharedRegion, cpu: Cpu): Steps<void>;
  /** The region is registered no more: its copies are written back. @throws RegionRefused */
  deregister(region: SharedRegion, cpu: Cpu): Steps<void>;
  /** A number for an access's audit records. */
  nextId(): number;
  /** Begins an access; {@link outcome} has its end, and is asked at once. @returns its number. */
  begin(region: SharedRegion, request: LineRequest): number;
  /** How an access has ended, once; undefined while it has not. */
  outcome(ticket: number): Outcome | undefined;
  /** Its core has paid for an access that has ended so: it goes on. */
  paid(ticket: number, outcome: Outcome): void;
  /** When the iMC has room for a write-back of a line at home. */
  flushRoomAt(region: SharedRegion, line: number): Time;
  /** How often what cores have seen of a line may have changed. */
  changesOf(region: SharedRegion, line: number): number;
  /** Signals that say so. */
  signalsOf(region: SharedRegion, line: number): readonly string[];
  /** This host's own store: its other programs may wait for it. */
  stored(region: SharedRegion, line: number): void;
  /** A program has looked at a line that no invalidation had told of. */
  polled(): void;
}
