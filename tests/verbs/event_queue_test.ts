/** The card's event queue (`queues: { events: queue }`): asynchronous events as entries of a completion queue. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Program } from "../../nodes/host/program_context.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** Arms the limit of shared receive queues that have nothing posted, so that it is reached at once. */
const alarms: Program = function* ({ cpu, device, options }) {
  const v = device.verbs;
  for (let round = 0; round < Number(options["rounds"]); round++) {
    const pd = v.allocPd(device);
    const srqs = [];
    for (let i = 0; i < Number(options["queues"]); i++) {
      srqs.push(v.must(yield* v.createSrq(pd, { maxWr: 4 })));
    }
    for (const srq of srqs) v.must(yield* v.modifySrq(srq, { limit: 2 }));
    const seen = [];
    while (seen.length < srqs.length) {
      const event = yield* v.getAsyncEvent(device, { deadline: cpu.now + 1e9 });
      if (event === "timeout") break;
      v.must(v.ackAsyncEvent(device, event));
      // The driver's own, which no card puts into its queue.
      if (event.type === "DEVICE_FATAL") continue;
      seen.push("srqn" in event ? event.srqn : event);
    }
    cpu.report("seen", { expected: srqs.map(({ srqn }) => srqn), seen, at: cpu.now });
    for (const srq of srqs) yield* v.destroySrq(srq);
    const queue = device.state.eventQueue;
    if (queue !== undefined) {
      cpu.report("destroyed", { errno: (yield* v.destroyCq(queue))?.errno ?? "none" });
    }
    // In one test the card fails meanwhile, and is there again.
    yield* cpu.sleep(3e9);
  }
};

function run(events: string, { rounds = 1, queues = 3, cache = 256, faults = "" } = {}) {
  return new SimulatedRack(
    `
name: events
hosts: { a: { queues: { events: ${events}, cache: { entries: ${cache} } } } }
programs: [{ on: a, program: ./alarms.ts, at: 100us, rounds: ${rounds}, queues: ${queues} }]
${faults}
`,
    { programs: { "./alarms.ts": alarms } },
  ).run();
}

function seenOf(rack: SimulatedRack) {
  assert.deepEqual(rack.reported("program-failed", "a"), []);
  return rack.reported("seen", "a").map(({ expected, seen }) => ({ expected, seen }));
}

describe("the card's event queue", () => {
  it("Q-12: has each event once and in order, as messages have, by an entry and an interrupt", () => {
    const byMessage = run("message"), byQueue = run("queue");
    const [{ expected, seen }] = seenOf(byQueue) as [{ expected: unknown; seen: unknown }];
    assert.deepEqual(seen, expected);
    assert.equal(seenOf(byMessage)[0]!.seen instanceof Array, true);
    const [before, after] = [byMessage, byQueue].map((rack) => rack.simulator.statistics());
    assert.equal(after!["a-rnic"]!.cqes! - before!["a-rnic"]!.cqes!, 3);
    assert.equal(after!["a-rnic"]!.completionQueues, before!["a-rnic"]!.completionQueues! + 1);
    assert.ok(after!["a-rnic"]!.interrupts! >= 1);
    // It has the card for its user.
    assert.deepEqual(byQueue.reported("destroyed", "a"), [{ errno: "EBUSY" }]);
  });

  it("Q-07, Q-12: is looked up when it is not cached, as any queue is", () => {
    const rack = run("queue", { queues: 8, cache: 1 });
    const [{ expected, seen }] = seenOf(rack) as [{ expected: unknown; seen: unknown }];
    assert.deepEqual(seen, expected);
    assert.ok(rack.simulator.statistics()["a-rnic"]!.queueReads! > 0);
  });

  it("Q-12: goes round its ring, and the driver says how far it is", () => {
    // The ring has 4096 units.
    const rack = run("queue", { queues: 100, rounds: 45 });
    for (const { expected, seen } of seenOf(rack)) assert.deepEqual(seen, expected);
    assert.equal(seenOf(rack).length, 45);
  });

  it("is made anew when the card has failed and is back", () => {
    const faults = "faults: [{ kill: a-rnic, at: 2ms }, { start: a-rnic, at: 3ms }]";
    const rack = run("queue", { rounds: 2, faults });
    const rounds = seenOf(rack);
    assert.equal(rounds.length, 2);
    for (const { expected, seen } of rounds) assert.deepEqual(seen, expected);
    assert.equal(rack.simulator.statistics()["a-rnic"]!.cqes, 3, "of the card's second life");
  });
});
