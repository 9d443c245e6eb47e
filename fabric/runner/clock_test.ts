import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { createMemoryBroker, type MemoryBroker } from "../bus/memory_bus_testing.ts";
import { dealOut, faultsOf, randomRack, runOverBus, toyFactory, toyRack } from "./clock_testing.ts";
import { Simulator } from "../partition/simulator.ts";
import { encodeSealed } from "../bus/codec.ts";
import { until } from "../bus/bus_contract.ts";
import { subjectOf } from "../bus/subjects.ts";
import { sleep } from "../bus/wall_time.ts";
import { reportFromBytes } from "../clock/clock.ts";
import type { Recorded } from "../clock/record.ts";
import type { FaultPlan, RackPlan } from "../rack/plan/plan.ts";

function digestInOneProcess(
  plan: ReturnType<typeof randomRack>,
): { digest: string; events: number } {
  const simulator = new Simulator({ plan, create: toyFactory(plan) });
  const events = simulator.run();
  return { digest: simulator.digest, events };
}

/** n0 and n1 are joined by a short cable and a long one, n1 and n2 by a third. */
function twoCablesRack(seed: number): RackPlan {
  const cable = { kind: "network" as const, bitsPerSecond: 100e9 };
  return toyRack(seed, {
    names: ["n0", "n1", "n2"],
    cables: [
      { ...cable, a: { node: "n0", port: 0 }, b: { node: "n1", port: 0 }, latencyPs: 2_000 },
      { ...cable, a: { node: "n0", port: 1 }, b: { node: "n1", port: 1 }, latencyPs: 20_000 },
      { ...cable, a: { node: "n1", port: 2 }, b: { node: "n2", port: 0 }, latencyPs: 5_000 },
    ],
  });
}

/**
 * Slows every process down, and resolves when they have begun so many spans together: on a busy machine a
 * rack may be over after any time.
 */
function midway(spans: number): { delay: () => Promise<void>; reached: Promise<void> } {
  const { promise, resolve } = Promise.withResolvers<void>();
  let begun = 0;
  const delay = () => {
    if (++begun === spans) resolve();
    return sleep(1);
  };
  return { delay, reached: promise };
}

/** Resolves when p1 reports that it has sent something. */
async function lost(broker: MemoryBroker, isOver: () => boolean): Promise<void> {
  const bus = broker.connect({ onError: (error) => assert.fail(error) });
  let sent = 0;
  const subject = subjectOf({ kind: "clock.report", run: "toys", partition: "p1" });
  bus.subscribe(subject, (payload) => sent += reportFromBytes(payload)!.sent.length);
  await until(() => sent > 0 || isOver());
  await bus.close();
  assert.ok(!isOver(), "p1 had nothing more to send");
}

describe("the clock", () => {
  it("gives the same digest in one partition, in two and in one per node", async () => {
    for (let seed = 1; seed <= 12; seed++) {
      const plan = randomRack(seed, { count: 2 + (seed % 6) });
      const { digest, events } = digestInOneProcess(plan);
      assert(events > 10, `seed ${seed} does nothing`);
      for (const partitions of [1, 2, plan.nodes.length]) {
        const summary = await runOverBus({ plan, partitions: dealOut(plan, partitions) });
        assert.equal(summary.digest, digest, `seed ${seed}, ${partitions} partitions`);
      }
    }
  });

  it("gives different digests for two seeds", () => {
    const one = digestInOneProcess(randomRack(1, { count: 4 }));
    const two = digestInOneProcess(randomRack(2, { count: 4 }));
    assert.notEqual(one.digest, two.digest);
  });

  it("gives the same digest with scripted power failures and returns", async () => {
    for (let seed = 20; seed <= 120; seed++) {
      const plan = randomRack(seed, { count: 3 + (seed % 4), faults: true });
      const { digest } = digestInOneProcess(plan);
      for (const partitions of [2, plan.nodes.length]) {
        const summary = await runOverBus({ plan, partitions: dealOut(plan, partitions) });
        assert.equal(summary.digest, digest, `seed ${seed}, ${partitions} partitions`);
      }
    }
  });

  it("gives a node that returns the state of each of two cables to one neighbour", async () => {
    // n1 is off when n0 comes back, and returns when the news of that is there by one cable only.
    for (let seed = 1; seed <= 20; seed++) {
      const at = 50_000 + 600 * seed;
      const faults: FaultPlan[] = [
        { at: 30_000, action: "kill", node: "n0" },
        { at: 30_500, action: "kill", node: "n1" },
        { at: 45_000, action: "start", node: "n0" },
        { at, action: "start", node: "n1" },
      ];
      const plan = { ...twoCablesRack(seed), faults };
      const { digest } = digestInOneProcess(plan);
      const summary = await runOverBus({ plan, partitions: dealOut(plan, 3) });
      assert.equal(summary.digest, digest, `seed ${seed}, n1 returns at ${at} ps`);
    }
  });

  it("gives the same digest when the bus loses, repeats and delays messages", async () => {
    for (let seed = 40; seed <= 41; seed++) {
      const plan = randomRack(seed, { count: 4 });
      const { digest } = digestInOneProcess(plan);
      const faults = { drop: 0.05, duplicate: 0.1, delay: 0.1 };
      const broker = createMemoryBroker({ seed, faults });
      const summary = await runOverBus({ plan, partitions: dealOut(plan, 4), broker });
      assert.equal(summary.digest, digest, `seed ${seed}`);
    }
  });

  it("gives the same digest when the timekeeper is restarted in the middle", async () => {
    for (let seed = 50; seed <= 54; seed++) {
      const plan = randomRack(seed, { count: 5, faults: seed > 52 });
      const { digest } = digestInOneProcess(plan);
      let restarts = 0;
      const summary = await runOverBus({
        plan,
        partitions: dealOut(plan, 5),
        delay: () => sleep(2),
        async during(rack) {
          while (restarts < 3) {
            await sleep(15);
            rack.restartTimekeeper();
            restarts++;
          }
        },
      });
      assert.equal(restarts, 3);
      assert.equal(summary.digest, digest, `seed ${seed}`);
    }
  });

  it("gives the same digest when the broker is away for a while", async () => {
    const plan = randomRack(60, { count: 5 });
    const { digest } = digestInOneProcess(plan);
    let outages = 0;
    const summary = await runOverBus({
      plan,
      partitions: dealOut(plan, 5),
      delay: () => sleep(2),
      async during({ broker }) {
        await sleep(30);
        broker.stop();
        await sleep(50);
        broker.start();
        outages++;
      },
    });
    assert.equal(outages, 1);
    assert.equal(summary.digest, digest);
  });

  it("replays a process killed at any moment as a power failure at the recorded instant", async () => {
    for (let seed = 70; seed <= 81; seed++) {
      const plan = randomRack(seed, { count: 6 });
      // Of one node, of two that may be joined by a cable, of three.
      const processes = [6, 3, 2][seed % 3]!;
      const victim = `p${seed % processes}`;
      const faults: FaultPlan[] = [];
      const record: Recorded[] = [];
      const { delay, reached } = midway(2 * processes + seed % 7);
      const summary = await runOverBus({
        plan,
        partitions: dealOut(plan, processes),
        delay,
        onRecord(fault) {
          record.push(fault);
          faults.push(...faultsOf(fault));
        },
        async during(rack) {
          await reached;
          rack.kill(victim);
          rack.start(victim);
        },
      });
      assert.deepEqual(record.map(({ action }) => action), ["kill", "start"], `seed ${seed}`);
      const replayed = digestInOneProcess({ ...plan, faults });
      assert.equal(summary.digest, replayed.digest, `seed ${seed}`);
    }
  });

  it("goes on without what was lost together with its sender, and reports that it is inexact", async () => {
    const plan = randomRack(76, { count: 4 });
    const broker = createMemoryBroker({ seed: 1 });
    const { delay, reached } = midway(12);
    const summary = await runOverBus({
      plan,
      partitions: dealOut(plan, 4),
      broker,
      delay,
      async during(rack) {
        await reached;
        // From here on p1 is heard by the timekeeper only.
        broker.setFaults({ drop: 1, pattern: "rack.toys.wire.p1.>" });
        await lost(broker, () => rack.finished);
        rack.kill("p1");
      },
    });
    assert.equal(summary.exact, false);
  });

  it("refuses what is malformed or foreign, and goes on", async () => {
    const plan = randomRack(80, { count: 4 });
    const { digest } = digestInOneProcess(plan);
    const summary = await runOverBus({
      plan,
      partitions: dealOut(plan, 4),
      delay: () => sleep(1),
      during({ broker }) {
        const stranger = broker.connect({ onError: (error) => assert.fail(error) });
        const junk = [
          new Uint8Array([0xff]),
          encodeSealed([1, 2, 3]),
          encodeSealed("x"),
          encodeSealed([0, 0, [[1]]]),
        ];
        const subjects = ["wire.p1.p0", "clock.grant.p0", "clock.report.p0", "clock.join.p0"];
        for (const subject of [...subjects, "clock.ask", "again.p1.p0", "control.resume"]) {
          for (const payload of junk) stranger.publish(`rack.toys.${subject}`, payload);
        }
      },
    });
    assert.equal(summary.digest, digest);
  });
});
