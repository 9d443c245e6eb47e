/**
 * Partitions, timekeeper and broker killed and started at random, several times, in the middle of a run of
 * toys: it ends, and its record of power failures replays it, unless it says itself that it cannot. What
 * is done follows from the seed; when it hits, from the machine. See `tests/chaos/chaos_test.ts` for processes.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createMemoryBroker } from "../bus/memory_bus.ts";
import { sleep } from "../bus/wall_time.ts";
import {
  type BusRack,
  dealOut,
  faultsOf,
  randomRack,
  runOverBus,
  toyFactory,
} from "./clock_testing.ts";
import type { FaultPlan } from "../rack/plan/plan.ts";
import { Simulator } from "../partition/simulator.ts";
import { type Rng, rngFor } from "../base/rng.ts";

const FIRST_SEED = 1, RUNS = 24;

/** Strikes a rack some times; an outage of the broker ends with the next blow. */
async function chaos(rng: Rng, on: { rack: BusRack; names: readonly string[] }): Promise<void> {
  const { rack, names } = on;
  const dead = new Set<string>();
  while (!rack.isUp) await sleep(1);
  await sleep(8 + rng.below(10));
  for (let blows = 2 + rng.below(6); blows > 0 && !rack.finished; blows--) {
    const name = names[rng.below(names.length)]!;
    const what = rng.below(8);
    if (what < 3) rack.restartTimekeeper();
    else if (what < 7 && dead.delete(name)) rack.start(name);
    else if (what < 7) {
      rack.kill(name);
      dead.add(name);
    } else rack.broker.stop();
    if (rng.below(3) > 0) await sleep(rng.below(4));
    if (rng.below(2) === 0) rack.broker.start();
  }
  rack.broker.start();
}

describe("the clock, in chaos", () => {
  it("P-41 (in part): ends, and is replayed by its record where it says so", async () => {
    let exact = 0;
    for (let seed = FIRST_SEED; seed < FIRST_SEED + RUNS; seed++) {
      const plan = randomRack(seed, { count: 4 });
      const partitions = dealOut(plan, 2 + seed % 3);
      const names = partitions.map(({ name }) => name);
      const faults: FaultPlan[] = [];
      const summary = await runOverBus({
        plan,
        partitions,
        broker: createMemoryBroker({ seed }),
        delay: () => sleep(1),
        onRecord: (fault) => faults.push(...faultsOf(fault)),
        during: (rack) => chaos(rngFor(seed, "chaos"), { rack, names }),
      });
      if (!summary.exact) continue;
      exact++;
      const replay = new Simulator({ plan: { ...plan, faults }, create: toyFactory(plan) });
      replay.run();
      assert.equal(summary.digest, replay.digest, `seed ${seed}: ${JSON.stringify(faults)}`);
    }
    assert.ok(exact > 0, "every run lost something");
  });
});
