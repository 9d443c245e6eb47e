/** How the queues of a host and its RNIC are known to both: part of both plans. */
import type { Time } from "../../base/time.ts";
import { type Placement, PLACEMENTS } from "../../wire/host_bus/queue_placement.ts";

/** Absent in a plan: {@link QUEUE_PLAN}. */
export interface QueuePlan {
  readonly placement: Placement;
  /** Whether each space has an area of its own, or a queue's three parts lie together. */
  readonly layout: "areas" | "record";
  /**
   * Q-03, when the RNIC writes the pointer that it moves where the host reads it. `batched`: when the
   * queue has become empty, and else with every quarter of the ring; `at-eviction`: when the queue
   * leaves the cache.
   */
  readonly readPointer: "at-eviction" | "batched";
}

/** What a plan without one means. */
export const QUEUE_PLAN: QueuePlan = {
  placement: PLACEMENTS.default,
  layout: "areas",
  readPointer: "at-eviction",
};

/** Entries of a cache that a scenario does not name: a choice. */
export const CACHED_QUEUES = 256;

/** Ways of giving up entries of a full cache of queue information. */
export interface QueueCachePlan {
  /** Queues that the cache holds; 0: there is no cache. */
  readonly entries: number;
  readonly evict: "oldest" | "several-oldest" | "older-than" | "random";
  /** `several-oldest` and `random`: how many at once. `older-than`: the age in ps. */
  readonly amount: number | Time;
}
