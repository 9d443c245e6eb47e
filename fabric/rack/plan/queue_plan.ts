/** How the queues of a host and its RNIC are known to both: part of both plans. */
import type { Time } from "../../base/time.ts";
import { type Placement, PLACEMENTS } from "../../wire/host_bus/queue_placement.ts";

/** how the host tells the card that a queue has news. */
export interface DoorbellPlan {
  /** `fifo`: a write into the card's doorbell space; `message`: a message, which waits nowhere. */
  readonly form: "fifo" | "message";
  /** What it carries besides the queue's number. */
  readonly carries: "pointer" | "number";
  /** Entries of the doorbell space: a doorbell that finds it full is dropped. Absent: no limit. */
  readonly slots?: number;
  /** When the driver rings again for a send queue that stands still. Absent: never. */
  readonly retryPs?: Time;
  /** Faults: doorbells per million that get lost, or are written over by the queue's next one. */
  readonly lostPpm?: number;
  readonly coalescedPpm?: number;
}

/**
 * Q-03, where queue information lies. `host`: in the host's memory, which the card reads by DMA. `node`: in
 * memory plugged into the node, a CXL memory expander: cores and the card reach it through the host as they
 * reach DRAM, caches included, and what misses them takes longer (`pluggedLoadPs`). Both die with the host.
 * `device`: in memory at the card, which reads it on the chip; cores store into it by MMIO writes, which are
 * posted, and load from it by MMIO reads, each a round trip on the bus. It keeps its content while the card
 * has power, through the death of its host as well.
 */
export const QUEUE_STORES = ["host", "node", "device"] as const;
export type QueueStore = typeof QUEUE_STORES[number];

/** Absent in a plan: {@link QUEUE_PLAN}. */
export interface QueuePlan {
  /**
   * How the card comes to know the host's pointer. `three-space`: it lies in space 3 with its time, or comes
   * with the doorbell, and the newer one counts. `classic`: the baseline of Q-10. The card reads the
   * pointer's address, then the pointer; the doorbell has the queue's number only.
   */
  readonly scheme: "three-space" | "classic";
  /** Absent: `host`. */
  readonly store?: Exclude<QueueStore, "host">;
  readonly placement: Placement;
  /** Whether each space has an area of its own, or a queue's three parts lie together. */
  readonly layout: "areas" | "record";
  /**
   * Q-03, when the RNIC writes the pointer that it moves where the host reads it. `batched`: when the
   * queue has become empty, and else with every quarter of the ring; `at-eviction`: when the queue
   * leaves the cache.
   */
  readonly readPointer: "at-eviction" | "batched";
  /** how the RNIC answers a request for a lock: by message, or in a word of host memory. */
  readonly lockAnswer: "message" | "memory";
  readonly doorbell: DoorbellPlan;
  /**
   * For which completions an armed queue raises its event (ibv_req_notify_cq). Absent, `unread`: also for those that
   * the program has not taken yet, as mlx5 has it, whose doorbell says how far the host has read (`mlx5_arm_cq` of
   * rdma-core: the consumer index). `next`: for completions that come afterwards alone, which is all that the
   * architecture promises (IBA, Request Completion Notification): who does not poll once more after arming sleeps.
   */
  readonly arm?: "next";
  /** Asynchronous events come as entries of a queue; absent: each as a message of its own. */
  readonly events?: "queue";
}

/** What a plan without one means. */
export const QUEUE_PLAN: QueuePlan = {
  scheme: "three-space",
  placement: PLACEMENTS.default,
  layout: "areas",
  readPointer: "at-eviction",
  lockAnswer: "message",
  doorbell: { form: "fifo", carries: "pointer" },
};

/**
 * Queues of a host: 65 536 queue pairs with two queues each, and as many completion queues and
 * shared receive queues.
 */
export const QUEUES_MOST = 2 ** 18;

/**
 * Entries of a cache that a scenario does not name. [choice] Two queues for each of 2048 connections: a
 * commercial RNIC's message rate is 47 % lower "when there are a few thousand connections" (A Scalable
 * RDMA Network Interface Card with Efficient Cache Management, ISCAS'23, abstract, which does not name the card).
 * No number of a ConnectX-5 or ConnectX-6 is published where it could be opened. Kong et al. (Understanding RDMA
 * Microarchitecture Resources for Performance Isolation, NSDI'23, §2.3 and §3.6, by a reader's excerpts) have such
 * cards with a cache of queue pair contexts, a miss of which is a round trip of the bus, and "do not figure out the
 * total size of the cache".
 */
export const CACHED_QUEUES = 4096;

/** Ways of giving up entries of a full cache of queue information. */
export interface QueueCachePlan {
  /** Queues that the cache holds; 0: there is no cache. */
  readonly entries: number;
  readonly evict: "oldest" | "several-oldest" | "older-than" | "random";
  /** `several-oldest` and `random`: how many at once. `older-than`: the age in ps. */
  readonly amount: number | Time;
}
