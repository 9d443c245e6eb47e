import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import type { QueueCachePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import { QueueCache, type QueueEntry } from "./queue_cache.ts";

function entry(queue: number, cachedAt = queue): QueueEntry {
  return {
    queue,
    kind: "sq",
    owner: queue,
    wqeAddress: 0,
    indexAddress: 0,
    depth: 16,
    unitBytes: 64,
    state: "rts",
    valid: true,
    own: 0,
    host: 15,
    stamp: 0,
    recycled: false,
    rung: false,
    pins: 0,
    dirty: false,
    told: 0,
    cachedAt,
    place: 0,
  };
}

function filled(
  plan: Omit<QueueCachePlan, "entries">,
  seed = 1,
): { cache: QueueCache; entries: QueueEntry[] } {
  const cache = new QueueCache({ entries: 4, ...plan }, rngFor(seed, "test"));
  const entries = [0, 1, 2, 3].map((queue) => entry(queue));
  for (const each of entries) assert.deepEqual(cache.insert(each, each.queue), []);
  return { cache, entries };
}

function queues(evicted: readonly QueueEntry[]): number[] {
  return evicted.map(({ queue }) => queue);
}

describe("QueueCache", () => {
  it("Q-07: oldest makes room by the one cached first", () => {
    const { cache } = filled({ evict: "oldest", amount: 3 });
    assert.deepEqual(queues(cache.insert(entry(4), 4)), [0]);
    assert.deepEqual(queues(cache.insert(entry(5), 5)), [1]);
    assert.equal(cache.find(0), undefined);
    assert.equal(cache.size, 4);
  });

  it("Q-07: several-oldest evicts that many at once", () => {
    const { cache } = filled({ evict: "several-oldest", amount: 3 });
    assert.deepEqual(queues(cache.insert(entry(4), 4)), [0, 1, 2]);
    assert.equal(cache.size, 2);
  });

  it("Q-07: older-than evicts all of an age, and the oldest where none has it", () => {
    const { cache } = filled({ evict: "older-than", amount: 10 });
    assert.deepEqual(queues(cache.insert(entry(4), 12)), [0, 1]);
    const young = filled({ evict: "older-than", amount: 10 });
    assert.deepEqual(queues(young.cache.insert(entry(4), 5)), [0]);
  });

  it("Q-07: random draws from the seed: the same for one seed, not the same for all", () => {
    const draws = [1, 2, 3, 4, 5, 6].map((seed) => {
      const { cache } = filled({ evict: "random", amount: 2 }, seed);
      const again = filled({ evict: "random", amount: 2 }, seed);
      const evicted = queues(cache.insert(entry(4), 4));
      assert.equal(evicted.length, 2);
      assert.deepEqual(queues(again.cache.insert(entry(4), 4)), evicted);
      return evicted.join();
    });
    assert.ok(new Set(draws).size > 1);
  });

  for (const evict of ["oldest", "several-oldest", "older-than", "random"] as const) {
    it(`Q-07: ${evict} spares what is in use, and grows where all of it is`, () => {
      const { cache, entries } = filled({ evict, amount: 1 });
      for (const each of entries) each.pins = 1;
      assert.deepEqual(cache.insert(entry(4), 1000), []);
      entries[2]!.pins = 0;
      const fifth = cache.find(4)!;
      fifth.pins = 1;
      assert.deepEqual(queues(cache.insert(entry(5), 1000)), [2]);
    });
  }
});
