/** Racks of toys whose cables do wrong at random: the same in any packing, and replayed from a record. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { USERS } from "../bus/access.ts";
import { createMemoryBroker, type MemoryBroker } from "../bus/memory_bus_testing.ts";
import { decode, encode } from "../bus/codec.ts";
import { subjectOf } from "../bus/subjects.ts";
import { sleep } from "../bus/wall_time.ts";
import { dealOut, faultsOf, randomRack, runOverBus, toyFactory } from "../runner/clock_testing.ts";
import { IMPAIRMENTS, type LinkFaultPlan, type LinkFaultRequest } from "../rack/plan/link_plan.ts";
import type { Node } from "../node.ts";
import type { FaultPlan, RackPlan } from "../rack/plan/plan.ts";
import { Simulator } from "./simulator.ts";
import { type Rng, rngFor } from "../base/rng.ts";
import { NEVER } from "../base/time.ts";

const DIRECTIONS = ["a", "b", "both"] as const;

/** A fault of any kind. Cuts and heals take turns for each cable elsewhere. */
function randomImpairment(rng: Rng, plan: RackPlan): LinkFaultRequest {
  const action = IMPAIRMENTS[rng.below(IMPAIRMENTS.length)]!;
  const at = rng.below(200_000);
  return {
    action,
    cable: rng.below(plan.cables.length),
    direction: DIRECTIONS[rng.below(3)]!,
    at,
    ...(rng.below(2) === 0 && { until: at + 1 + rng.below(200_000) }),
    ...(rng.below(2) === 0 ? { share: 0.1 + rng.unit() * 0.8 } : { nth: 1 + rng.below(3) }),
    ...(action === "delay" && { delayPs: rng.below(50_000), jitterPs: rng.below(50_000) }),
    ...(action === "reorder" && rng.below(2) === 0 && { overtakenBy: 1 + rng.below(2) }),
    ...(action === "reorder" && { holdPs: 1 + rng.below(50_000) }),
  };
}

function randomLinkFaults(plan: RackPlan): LinkFaultPlan[] {
  const rng = rngFor(plan.seed, "link faults");
  const faults: Omit<LinkFaultPlan, "id">[] = [];
  for (let i = 1 + rng.below(5); i > 0; i--) {
    const fault = randomImpairment(rng, plan);
    faults.push({ ...fault, at: fault.at! });
  }
  for (const cable of plan.cables.keys()) {
    if (rng.below(2) === 0) continue;
    const direction = DIRECTIONS[rng.below(3)]!;
    const at = 1 + rng.below(100_000);
    faults.push({ action: "cut", cable, direction, at });
    if (rng.below(3) > 0) {
      faults.push({ action: "heal", cable, direction, at: at + 1 + rng.below(100_000) });
    }
  }
  return faults.map((fault, id) => ({ id, ...fault }));
}

function inOneProcess(plan: RackPlan): Simulator {
  const simulator = new Simulator({ plan, create: toyFactory(plan) });
  simulator.run();
  return simulator;
}

describe("cables that do wrong", () => {
  it("give the same digest in one partition, in two and in one per node", async () => {
    let hit = 0, different = 0;
    for (let seed = 1; seed <= 24; seed++) {
      const healthy = randomRack(seed, { count: 2 + (seed % 6) });
      const plan = { ...healthy, linkFaults: randomLinkFaults(healthy) };
      const simulator = inOneProcess(plan);
      hit += simulator.linkFaultCounts().reduce((sum, each) => sum + each.hit, 0);
      if (simulator.digest !== inOneProcess(healthy).digest) different++;
      for (const partitions of [2, plan.nodes.length]) {
        const summary = await runOverBus({ plan, partitions: dealOut(plan, partitions) });
        assert.equal(summary.digest, simulator.digest, `seed ${seed}, ${partitions} partitions`);
      }
    }
    assert.ok(hit > 80 && different > 16, `${hit} frames, ${different} racks`);
  });

  it("do so with power failures and returns, too", async () => {
    for (let seed = 200; seed < 226; seed++) {
      const healthy = randomRack(seed, { count: 3 + (seed % 4), faults: true });
      const plan = { ...healthy, linkFaults: randomLinkFaults(healthy) };
      const { digest } = inOneProcess(plan);
      for (const partitions of [2, plan.nodes.length]) {
        const summary = await runOverBus({ plan, partitions: dealOut(plan, partitions) });
        assert.equal(summary.digest, digest, `seed ${seed}, ${partitions} partitions`);
      }
    }
  });

  it("do not depend on the order in which their faults were added", () => {
    for (let seed = 300; seed < 310; seed++) {
      const healthy = randomRack(seed, { count: 4, faults: true });
      const linkFaults = randomLinkFaults(healthy);
      const { digest } = inOneProcess({ ...healthy, linkFaults });
      const turned = inOneProcess({ ...healthy, linkFaults: linkFaults.toReversed() });
      assert.equal(turned.digest, digest, `seed ${seed}`);
    }
  });
});

describe("a frame that a cable holds back", () => {
  const HOLD: Omit<LinkFaultPlan, "id"> = {
    action: "reorder",
    cable: 0,
    direction: "both",
    at: 0,
    holdPs: 50_000_000,
    overtakenBy: 5,
  };

  /** n00 sends one frame at 1 µs and nothing else. @returns when n01 gets it, in each of its lives. */
  function arrivals(changes: Partial<Pick<RackPlan, "faults" | "linkFaults">>): number[] {
    const plan = { ...randomRack(1, { count: 2 }), ...changes };
    const at: number[] = [];
    const create = (name: string): Node => {
      let deadline = name === "n00" ? 1_000_000 : NEVER;
      return {
        name,
        kind: "switch",
        processingPs: 1_000,
        step(now, input, out) {
          if (input.kind === "message") at.push(now);
          if (input.kind !== "wake") return;
          deadline = NEVER;
          out.send(0, { kind: "frame", bytes: new Uint8Array(64) }, now + 1_000);
        },
        wakeAt: () => deadline,
        statistics: () => ({}),
      };
    };
    new Simulator({ plan, create }).run();
    return at;
  }

  it("is not heard by a later life of the node that it was sent to", () => {
    const faults = [
      { at: 2_000_000, action: "kill", node: "n01" },
      { at: 9_000_000, action: "start", node: "n01" },
    ] as const;
    assert.deepEqual(arrivals({ linkFaults: [{ ...HOLD, id: 0 }], faults }), []);
  });
});

const ASK = { by: USERS.timekeeper, timeoutMs: 50 };

/** Orders faults over the bus as a command does: repeats each order until it is answered. */
async function order(
  broker: MemoryBroker,
  of: { token: string; fault: LinkFaultRequest; isOver: () => boolean },
): Promise<void> {
  const bus = broker.connect({ onError: () => {} });
  const subject = subjectOf({ kind: "control", run: "toys", verb: "link" });
  while (!of.isOver()) {
    const payload = encode({ token: of.token, fault: of.fault });
    const answer = await bus.request(subject, payload, ASK).then(decode, () => ({}));
    const { at, error } = answer as { at?: number; error?: string };
    if (at !== undefined || error !== undefined) break;
    await sleep(1);
  }
  await bus.close();
}

describe("faults of cables ordered while a rack runs", () => {
  it("are replayed by their record, over deaths and restarts of the timekeeper", async () => {
    let ordered = 0, told = 0, different = 0;
    for (let seed = 1; seed <= 10; seed++) {
      const plan = randomRack(seed, { count: 4 });
      const rng = rngFor(seed, "orders");
      const faults: FaultPlan[] = [], linkFaults: LinkFaultPlan[] = [];
      const broker = createMemoryBroker({ seed });
      const summary = await runOverBus({
        plan,
        partitions: dealOut(plan, 2 + seed % 3),
        broker,
        delay: () => sleep(1),
        onRecord: (line) => {
          faults.push(...faultsOf(line));
          if (line.action === "link") linkFaults.push(line.fault);
        },
        async during(rack) {
          const isOver = () => rack.finished;
          for (let i = 0; i < 6 && !isOver(); i++) {
            await sleep(2 + rng.below(4));
            const { at: _, until: __, ...impairment } = randomImpairment(rng, plan);
            const cable = rng.below(plan.cables.length);
            const fault: LinkFaultRequest = i % 2 === 0
              ? impairment
              : { action: i === 3 ? "heal" : "cut", cable, direction: "both" };
            const asked = order(broker, { token: `${seed}-${i}`, fault, isOver });
            if (seed % 2 === 0 && i === 2) rack.restartTimekeeper();
            if (seed % 3 === 0 && i === 4) {
              rack.kill("p1");
              rack.start("p1");
            }
            await asked;
            told++;
          }
        },
      });
      ordered += linkFaults.length;
      if (!summary.exact) continue;
      const replayed = inOneProcess({ ...plan, faults, linkFaults });
      assert.equal(replayed.digest, summary.digest, `seed ${seed}`);
      if (inOneProcess({ ...plan, faults }).digest !== summary.digest) different++;
    }
    assert.ok(different > 2, `${different} runs were changed by their orders`);
    assert.ok(ordered > 20, `${ordered} of ${told} were carried out`);
  });
});
