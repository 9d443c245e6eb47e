/** Queues in numbers: what doorbells cost, over few and many queue pairs, and who gets the line. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { ManyQueuesResult } from "../../nodes/host/programs/many_queues.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SCENARIOS = new URL("../../scripts/scenarios/", import.meta.url);

function resultsOf(rack: SimulatedRack, host: string): ManyQueuesResult[] {
  return rack.reported("result", host).map((value) => value as unknown as ManyQueuesResult);
}

describe("many-queues", () => {
  it("Q-11: doorbells cost nothing while the cache has all queues, else a read for each area or one for the record", () => {
    const rack = new SimulatedRack(`
name: few
defaults: { services: none, dram: 64MiB, blueFlame: off, queues: { cache: { entries: 16 } } }
hosts:
  areas: {}
  record: { queues: { layout: record } }
  target: { queues: { cache: { entries: 1024 } } }
programs:
  - { on: target, run: many-queues-server }
  - { on: [areas, record], at: 200us, run: many-queues, to: target, qps: [2, 48], messages: 96 }
`).run();
    for (const [host, reads] of [["areas", 3], ["record", 1]] as const) {
      const [{ status, rows }] = resultsOf(rack, host) as [ManyQueuesResult];
      assert.equal(status, "done");
      assert.deepEqual(
        rows.map(({ qps, messages, dmaReadsPerDoorbell }) => [qps, messages, dmaReadsPerDoorbell]),
        [[2, 96, 0], [48, 96, reads]],
      );
      const [few, many] = rows.map(({ counters }) => counters);
      assert.deepEqual([few!.doorbells, few!.cacheMisses, few!.cacheEvictions], [96, 0, 0]);
      // Each doorbell has missed, and now and then the completion queue.
      assert.ok(many!.cacheMisses! >= 96 && many!.cacheMisses! < 192, `${many!.cacheMisses}`);
      assert.ok(many!.cacheEvictions! >= 96, `${many!.cacheEvictions}`);
    }
    // The second client has waited for the first, and nothing of either is left.
    const queuePairs = Object.values(rack.simulator.statistics()).map((each) => each.queuePairs);
    assert.deepEqual(queuePairs.filter((count) => count !== undefined), [1, 1, 1]);
  });

  it("Q-11: uses queue pairs in turn, at random, and some more than others", () => {
    const rack = new SimulatedRack(`
name: orders
defaults: { services: none, dram: 64MiB, blueFlame: off, queues: { cache: { entries: 16 } } }
hosts: { a: {}, b: {}, c: {}, target: { queues: { cache: { entries: 1024 } } } }
programs:
  - { on: target, run: many-queues-server }
  - { on: a, at: 200us, run: many-queues, to: target, qps: 48, messages: 480 }
  - { on: b, at: 200us, run: many-queues, to: target, qps: 48, messages: 480, order: random }
  - { on: c, at: 200us, run: many-queues, to: target, qps: 48, messages: 480, order: zipf }
`).run();
    const [inTurn, random, zipf] = ["a", "b", "c"].map((host) =>
      resultsOf(rack, host)[0]!.rows[0]!.counters.cacheMisses!
    );
    // In turn the oldest is always the next one; at random a third is still there.
    assert.ok(inTurn! >= 480);
    assert.ok(random! < 0.8 * inTurn!, `${random} of ${inTurn}`);
    assert.ok(zipf! < 0.8 * random!, `${zipf} of ${random}`);
  });

  it("Q-11: a client that fails, that dies with its host, or whose server does, holds up no other: all are served, or get an error", () => {
    const whileDying = (kill: string) =>
      new SimulatedRack(`
name: dead
defaults: { services: none, dram: 64MiB, queues: { count: 4096 } }
hosts: { wrong: {}, a: {}, b: {}, c: {}, target: {} }
programs:
  - { on: target, run: many-queues-server }
  - { on: wrong, at: 100us, run: many-queues, to: target, size: 128KiB }
  - { on: a, at: 200us, run: many-queues, to: target, qps: 512 }
  - { on: [b, c], at: 300us, run: many-queues, to: target, qps: 4, messages: 32 }
faults: [{ at: 2ms, kill: ${kill} }]
`).run();
    const left = whileDying("a");
    assert.deepEqual(resultsOf(left, "a"), []);
    for (const host of ["b", "c"]) {
      const [{ status, rows }] = resultsOf(left, host) as [ManyQueuesResult];
      assert.deepEqual([status, rows[0]!.messages], ["done", 32]);
    }
    const serverless = whileDying("target");
    for (const host of ["a", "b", "c"]) {
      const [{ status, error }] = resultsOf(serverless, host) as [ManyQueuesResult];
      assert.equal(status, "failed");
      assert.match(error!, /RETRY_EXC_ERR/);
    }
  });

  for (
    const [what, options, expected] of [
      ["a server that is not there", "to: b", /connect: no-service/],
      ["a message that the server has no room for", "to: target, size: 128KiB", /65536 B only/],
    ] as const
  ) {
    it(`says what is wrong: ${what}`, () => {
      const rack = new SimulatedRack(`
name: wrong
hosts: { a: {}, b: {}, target: {} }
programs:
  - { on: target, run: many-queues-server }
  - { on: a, at: 200us, run: many-queues, ${options} }
`).run();
      const [{ status, error }] = resultsOf(rack, "a") as [ManyQueuesResult];
      assert.equal(status, "failed");
      assert.match(error!, expected);
    });
  }
});

describe("shares.yaml", () => {
  it("Q-11: shows shares of the line by weight, equal and unequal, within 2 %", () => {
    const text = Deno.readTextFileSync(new URL("shares.yaml", SCENARIOS));
    const rack = new SimulatedRack(text.replaceAll("3ms", "1ms")).run();
    for (const [host, weights] of [["equal", [1, 1, 1]], ["weighted", [5, 2, 1]]] as const) {
      const flows = rack.reported("result", host) as unknown as {
        readonly weight: number;
        readonly messageBytes: number;
        readonly partsBps: readonly number[];
      }[];
      assert.deepEqual(flows.map(({ weight }) => weight).sort(), weights.toSorted());
      // Until the first messages of all have completed there are none to count.
      const sent = flows.map(({ partsBps }) => partsBps.slice(2).reduce((sum, part) => sum + part));
      const all = sent.reduce((sum, each) => sum + each);
      const parts = weights.reduce<number>((sum, each) => sum + each, 0);
      for (const [i, { weight, messageBytes }] of flows.entries()) {
        const share = sent[i]! / all * parts / weight;
        assert.ok(Math.abs(share - 1) < 0.02, `${host}, ${messageBytes} B: ${share} of its share`);
      }
    }
  });
});

describe("memory_scale.yaml", () => {
  it("Q-07, Q-11: shows fewer messages where they go to more memory than the card has translations for", () => {
    const text = Deno.readTextFileSync(new URL("memory_scale.yaml", SCENARIOS));
    const [within, beyond, inOrder] = ["16MiB", "64MiB", "64MiB"].map((bytes, i) => {
      const scenario = text.replaceAll("1GiB", bytes).replaceAll("time: 200us", "time: 60us")
        .replace("cores: 6", "cores: 6, translationCache: { entries: 8192 }")
        .replaceAll("scatter: true", `scatter: ${i < 2}`);
      const rack = new SimulatedRack(scenario).run();
      const rates = rack.reported("result", "a").map((value) =>
        (value as unknown as { readonly messagesPerSecond: number }).messagesPerSecond
      );
      const misses = rack.simulator.statistics()["b-rnic"]!["translationMisses"] ?? 0;
      return { rate: Math.min(...rates), misses: misses / rates.length };
    });
    assert.equal(within!.misses, 0);
    assert.ok(beyond!.misses > 40, `${beyond!.misses} misses for each sender`);
    assert.ok(beyond!.rate < 0.9 * within!.rate, `${beyond!.rate} beyond, ${within!.rate} within`);
    assert.ok(inOrder!.misses < 20, "one behind the other, 64 messages go to a page");
  });
});
