/** Knowledge of queues that a host and its RNIC share: part of both plans. */
import type { Time } from "../../base/time.ts";
import { type Placement, PLACEMENTS } from "../../wire/host_bus/queue_placement.ts";

export interface DoorbellPlan {
  /** `fifo`: a write into the card's doorbell space; `message`: a message, which waits nowhere. */
  readonly form: "fifo" | "message";
  readonly carries: "pointer" | "number";
  /** Entries of the doorbell space: a doorbell that finds it full is dropped. Absent: no limit. */
  readonly slots?: number;
  /** Until the driver rings again for a send queue that stands still. Absent: never. */
  readonly retryPs?: Time;
  /**
   * Faults: doorbells per million that get lost; `coalescedPpm`: overwritten by the queue's next
   * one.
   */
  readonly lostPpm?: number;
  readonly coalescedPpm?: number;
}

/**
 * `host`: in the host's memory, which the card reads by DMA. `node`: in a CXL memory
 * expander, like DRAM with a longer miss (`pluggedLoadPs`). Both die with the host. `device`: at
 * the card, which reads it on the chip; cores store by posted MMIO writes, and load by MMIO reads,
 * each a round trip on the bus. It lasts while the card has power.
 */
export const QUEUE_STORES = ["host", "node", "device"] as const;
export type QueueStore = typeof QUEUE_STORES[number];

export interface QueuePlan {
  /**
   * `three-space`: the host's pointer lies in space 3 with its time, or comes with the doorbell,
   * and the newer one counts. `classic`: the baseline of Q-10: the card reads the pointer's
   * address, then the pointer; the doorbell has only the queue's number.
   */
  readonly scheme: "three-space" | "classic";
  /** Absent: `host`. */
  readonly store?: Exclude<QueueStore, "host">;
  readonly placement: Placement;
  /** See `queue_placement.ts`. */
  readonly layout: "areas" | "record";
  /**
   * when the RNIC writes its own pointer to the host's view. `batched`: when the queue has
   * become empty, and with every quarter of the ring; `at-eviction`: when it leaves the cache.
   */
  readonly readPointer: "at-eviction" | "batched";
  /** the answer to a request for a lock: by message, or in a word of host memory. */
  readonly lockAnswer: "message" | "memory";
  readonly doorbell: DoorbellPlan;
  /**
   * Completions for which an armed queue raises its event (ibv_req_notify_cq). Absent: also those
   * not taken yet, as in mlx5, whose doorbell carries the host's consumer index (rdma-core,
   * `mlx5_arm_cq`): that of the entry to tell of (DPDK d76a17f7b820), so that Linux's network driver
   * does not poll again after it (`mlx5e_napi_poll`). `next`: only later ones, which is all that the
   * architecture promises (IBA, Request Completion Notification): a program that does not poll once
   * more after arming sleeps.
   */
  readonly arm?: "next";
  /** Absent: as messages. */
  readonly events?: "queue";
}

export const QUEUE_PLAN: QueuePlan = {
  scheme: "three-space",
  placement: PLACEMENTS.default,
  layout: "areas",
  readPointer: "at-eviction",
  lockAnswer: "message",
  doorbell: { form: "fifo", carries: "pointer" },
};

/**
 * 65 536 queue pairs with two queues each, and as many completion and shared receive queues.
 */
export const QUEUES_MOST = 2 ** 18;

/**
 * Where a scenario names no number. [choice] Two queues for each of 2048 connections: a commercial
 * RNIC's message rate is 47 % lower "when there are a few thousand connections" (A Scalable RDMA
 * Network Interface Card with Efficient Cache Management, ISCAS'23, abstract, which does not name
 * the card). No published number of a ConnectX-5 or -6 could be opened. By a reader's excerpts,
 * Kong et al. (NSDI'23, §2.3, §3.6) describe such cards' cache of queue pair contexts, whose miss
 * is a round trip of the bus, and "do not figure out the total size of the cache".
 */
export const CACHED_QUEUES = 4096;

export interface QueueCachePlan {
  /** 0: there is no cache. */
  readonly entries: number;
  readonly evict: "oldest" | "several-oldest" | "older-than" | "random";
  /** `several-oldest` and `random`: how many at once. `older-than`: the age in ps. */
  readonly amount: number | Time;
}
