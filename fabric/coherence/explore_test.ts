/**
 * The protocol's code in every state that a small rack can reach (C-12): one line and two lines, one far card
 * and two, everything one entry long. What takes longer than a few seconds is in
 * `tests/tools/coherence_test.ts`, behind a variable of the environment.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { newCoverage } from "./coverage.ts";
import type { Exploration, Explored } from "./explore.ts";
import { explore, MUTATIONS, smallest } from "./mutations_testing.ts";

const coverage = newCoverage();

/**
 * Every state holds what `invariants.ts` says, and a quiet one can be reached from it; where the states
 * are bounded, the first ones hold. The numbers change with the protocol and with what the explorer lets happen:
 * a test says the new ones.
 */
function holds(given: Exploration, states: number): Explored {
  const found = explore({ ...given, tables: coverage.tables });
  assert.equal(found.violation, null, JSON.stringify(found.violation, null, 1));
  assert.equal(found.states, states);
  assert.equal(found.isWhole, given.statesMax === undefined);
  return found;
}

describe("every state of the coherent card's protocol", () => {
  it("C-09, C-12: two computers, one line: loads, stores, ownership, flushes, evictions", () => {
    holds({ size: smallest(1), with: ["own", "flush"] }, 2451);
  });

  it("C-09, C-12: two computers, one line: verbs beside the cores", () => {
    holds({ size: smallest(1), with: ["verbs"] }, 7847);
  });

  it("C-09: two computers, one line: the copy moves at any time, the first 8 000 states", () => {
    holds({ size: smallest(1), with: ["moves"], statesMax: 8000 }, 8622);
  });

  it("C-10: two computers, one line: one fault at any time, with its return: a lease, a cable, a card, a host, on either side", () => {
    const { faults } = holds({ size: smallest(1), with: ["own", "losses"] }, 58_945);
    assert.deepEqual([...faults.keys()].sort(), [
      "card 1 or its host loses its power",
      "card 1 says Hello again",
      "card 1 starts again",
      "card 1 waits no longer",
      "card 1's lease ends",
      "home gives card 1 up",
      "home's card dies",
      "home's card starts again",
      "home's host dies",
      "home's host starts again",
      "the cable to card 1 heals",
      "the cable to card 1 is cut",
      "the host finds card 1 without power",
    ]);
  });

  it("C-06, C-10, decision 14: the copy kept at home, one fault at any time: no answer to an earlier life ends an access", () => {
    holds({ size: smallest(1), with: ["losses"], place: "local" }, 25_599);
  });

  it("C-12: two computers, two lines, all tables one entry long: from everywhere it goes on", () => {
    holds({ size: smallest(1, 2) }, 17_555);
  });

  it("C-12: three computers, one line, the first 8 000 states", () => {
    holds({ size: smallest(2), statesMax: 8000 }, 8588);
  });

  it("C-12: an access that asks again whenever the copy moves need not end, and is found", () => {
    const moving: Exploration = { size: smallest(1), with: ["moves"], isAnswered: true };
    const { violation } = explore(moving);
    assert.match(violation?.message ?? "", /^an access of card 1 may wait for ever, .* go round$/);
    assert.deepEqual(violation?.path, ["card 1: load 0", "moves to local", "(stuck)"]);
  });

  it("C-05 (in part): uses every row of the tables but two", () => {
    // A `Dirty` that comes while a third card is invalidated: three computers, beyond the first 8 000 states.
    assert.deepEqual(coverage.unused(), ["home snooped free: Dirty", "home P1 free: Dirty"]);
  });
});

describe("a protocol that is broken", () => {
  it("C-12: is found out, whichever of its rules it is", () => {
    assert.ok(MUTATIONS.length >= 30);
    const missed = MUTATIONS.filter(({ exploration }) => explore(exploration).violation === null);
    assert.deepEqual(missed.map(({ name }) => name), []);
  });
});
