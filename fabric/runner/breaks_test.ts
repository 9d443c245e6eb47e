/**
 * A rack that stops at a break stands as a whole at an instant, with the digest that the same rack in
 * one process has there, and the break is the step that it was to be.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../base/rng.ts";
import type { Time } from "../base/time.ts";
import { until } from "../bus/bus_contract.ts";
import { sleep } from "../bus/wall_time.ts";
import { createMemoryBroker } from "../bus/memory_bus_testing.ts";
import type { Predicate } from "../trace/predicate.ts";
import { Simulator } from "../partition/simulator.ts";
import type { RackPlan } from "../rack/plan/plan.ts";
import {
  type BusRack,
  type BusRunOptions,
  dealOut,
  randomRack,
  runOverBus,
  TOY_STEP,
  toyFactory,
} from "./clock_testing.ts";

/** Each time that a toy hears something, in the order of one process. */
function heard(plan: RackPlan): [at: Time, node: string][] {
  const all: [Time, string][] = [];
  const onTrace = (at: Time, node: string) => void all.push([at, node]);
  new Simulator({ plan, create: toyFactory(plan), onTrace }).run();
  return all;
}

function digestAt(plan: RackPlan, end: Time): string {
  const simulator = new Simulator({ plan, create: toyFactory(plan) });
  simulator.run(end);
  return simulator.digest;
}

const stands = ({ timekeeper }: BusRack) => timekeeper.paused && timekeeper.standsAt !== undefined;

/** Stops at random breaks one after the other, and compares; returns how often. */
async function stopAndGo(seed: number, options: Pick<BusRunOptions, "broker"> = {}) {
  const plan = randomRack(seed, { count: 2 + seed % 5, faults: seed % 2 === 0 });
  const rng = rngFor(seed, "breaks");
  const all = heard(plan);
  const partitions = dealOut(plan, 1 + rng.below(plan.nodes.length));
  let stops = 0;
  const during = async (rack: BusRack) => {
    await until(() => rack.isUp && rack.timekeeper.standsAt === 0);
    for (let from = 0;;) {
      const left = all.filter(([at]) => at >= from);
      const { name } = plan.nodes[rng.below(plan.nodes.length)]!;
      const breaks: Predicate[] = [
        { step: TOY_STEP, count: 1 + rng.below(12) },
        { step: TOY_STEP, node: name, count: 1 + rng.below(5) },
        { step: "never" },
      ];
      const wanted = breaks.map(({ step, node, count = 1 }) =>
        step === TOY_STEP
          ? left.filter((each) => each[1] === (node ?? each[1]))[count - 1]
          : undefined
      );
      const at = Math.min(...wanted.map((each) => each?.[0] ?? Infinity));
      rack.timekeeper.resume({ breaks });
      if (at === Infinity) return;
      await until(() => stands(rack));
      stops++;
      const { hits } = rack.timekeeper.breaks;
      const places = [0, 1, 2].filter((place) => wanted[place]?.[0] === at);
      assert.deepEqual(hits.map((hit) => hit.break).sort(), places, `seed ${seed} at ${at}`);
      for (const { atPs, count, break: place } of hits) {
        assert.deepEqual([atPs, count], [at, breaks[place]!.count], `seed ${seed}`);
      }
      // A hit on any device: of several at one instant, one of them.
      for (const { node } of hits) assert.ok(left.some(([t, n]) => t === at && n === node));
      assert.equal(rack.timekeeper.standsAt, at + 1, `seed ${seed}`);
      const { digest } = rack.timekeeper.summary("quiet");
      assert.equal(digest, digestAt(plan, at + 1), `seed ${seed} at ${at}`);
      from = at + 1;
    }
  };
  const summary = await runOverBus({ plan, partitions, paused: true, during, ...options });
  assert.equal(summary.digest, digestAt(plan, Infinity), `seed ${seed}`);
  return stops;
}

describe("a rack with breaks", () => {
  it("stops as a whole at the instant of the hit, and ends as one that was never stopped", async () => {
    let stops = 0;
    for (let seed = 1; seed <= 12; seed++) stops += await stopAndGo(seed);
    assert.ok(stops > 50, `${stops} stops`);
  });

  it("does so over a bus that loses, repeats and delays messages", async () => {
    for (let seed = 60; seed <= 61; seed++) {
      const faults = { drop: 0.05, duplicate: 0.1, delay: 0.3, pattern: "rack.*.clock.>" };
      const broker = createMemoryBroker({ seed, faults });
      await stopAndGo(seed, { broker });
    }
  });

  it("stands as a whole wherever it is paused", async () => {
    for (let seed = 70; seed <= 75; seed++) {
      const plan = randomRack(seed, { count: 4 });
      let paused = 0;
      const summary = await runOverBus({
        plan,
        partitions: dealOut(plan, 4),
        during: async (rack) => {
          await until(() => rack.isUp);
          while (!rack.finished) {
            rack.timekeeper.pause();
            await until(() => rack.finished || stands(rack));
            if (rack.finished) return;
            const { standsAt } = rack.timekeeper;
            const { digest } = rack.timekeeper.summary("quiet");
            assert.equal(digest, digestAt(plan, standsAt!), `seed ${seed} at ${standsAt}`);
            paused++;
            rack.timekeeper.resume();
            await sleep(1);
          }
        },
      });
      assert.ok(paused > 0);
      assert.equal(summary.digest, digestAt(plan, Infinity));
    }
  });
});
