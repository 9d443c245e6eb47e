/**
 * Power of host, card and switch in every order and at every distance: in the end the pair works. A driver
 * that boots without its card, or loses it on the way, opens it when it has come.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FaultPlan } from "../../fabric/rack/plan/plan.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { rngFor } from "../../fabric/base/rng.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** The transfer begins when all is up again. */
const TRANSFER = `
name: power-order
seed: 7
hosts: { a: { scm: { size: 1MiB }, dram: 64MiB }, b: { scm: { size: 1MiB }, dram: 64MiB } }
programs:
  - { on: a, run: put, to: b, method: persist-opcode, bytes: 4KiB, size: 1KiB, at: 5ms }
`;

/** What became of the transfer under these power failures and returns, and of programs that failed. */
function outcome(faults: readonly FaultPlan[]): unknown[] {
  const inOrder = faults.toSorted((x, y) => x.at - y.at);
  return outcomeOf(
    new SimulatedRack(TRANSFER, { change: (plan) => ({ ...plan, faults: inOrder }) }),
  );
}

function outcomeOf(rack: SimulatedRack): unknown[] {
  rack.run();
  const failed = rack.reported("program-failed");
  return [...failed, ...rack.reported("result", "a").map(({ status }) => status)];
}

/** Card and host of b are off, and each starts at its time, as a scenario says it. */
function afterStarts(times: { readonly host: Time; readonly card: Time }): unknown[] {
  return outcomeOf(
    new SimulatedRack(`${TRANSFER}
faults:
  - { at: 100us, kill: b-rnic }
  - { at: 101us, kill: b }
  - { at: ${times.host}ps, start: b }
  - { at: ${times.card}ps, start: b-rnic }
`),
  );
}

const START = 300 * PS_PER_US;

describe("Power-on of a host and its card", () => {
  // The driver sends its first command some 4.7 µs after the host's power.
  for (const us of [1e-6, 0.3, 1, 4, 4.7, 4.8, 4.95, 5.2, 5.5, 6, 8, 20, 100]) {
    it(`the card ${us} us after the host, and before it`, () => {
      const later = START + us * PS_PER_US;
      assert.deepEqual(afterStarts({ host: START, card: later }), ["done"]);
      assert.deepEqual(afterStarts({ host: later, card: START }), ["done"]);
    });
  }
});

describe("Power failures and returns of a host, cards and the switch in any order", () => {
  for (let seed = 1; seed <= 60; seed++) {
    it(`end in a pair that works (seed ${seed})`, () => {
      const rng = rngFor(seed, "power-order");
      const faults = ["b", "b-rnic", "a-rnic", "tor"].flatMap((node): FaultPlan[] => {
        const isBriefly = rng.below(2) === 0;
        const times = Array.from(
          { length: 2 * rng.below(4) },
          () => START + rng.below((isBriefly ? 12 : 400) * PS_PER_US),
        );
        return [...new Set(times)].sort((x, y) => x - y).slice(0, times.length & ~1)
          .map((at, i) => ({ at, action: i % 2 === 0 ? "kill" : "start", node }));
      });
      assert.deepEqual(outcome(faults), ["done"], JSON.stringify(faults));
    });
  }
});
