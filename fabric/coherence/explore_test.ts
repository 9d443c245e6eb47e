/**
 * The protocol's code in every state that a small rack can reach (C-12): one line and two lines, one far card
 * and two, everything one entry long. What takes longer than a few seconds is in
 * `tests/tools/coherence_test.ts`, behind a variable of the environment.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Exploration, explore } from "./explore_testing.ts";
import { MUTATIONS, smallest } from "./mutations_testing.ts";

/** All that is reached holds what `invariants_testing.ts` says, and from all of it a quiet state is reached. */
function holds(given: Exploration, states: number): void {
  const found = explore(given);
  assert.equal(found.violation, null, JSON.stringify(found.violation, null, 1));
  assert.equal(found.states, states);
  assert.equal(found.isWhole, given.statesMax === undefined);
}

// The numbers of states change with the protocol and with what the explorer lets happen: a test says the new ones.
describe("every state of the coherent card's protocol", () => {
  it("C-12 (in part): two computers, one line: loads, stores, ownership, flushes, evictions", () => {
    holds({ size: smallest(1), with: ["own", "flush"] }, 2451);
  });

  it("C-09 (in part), C-12 (in part): two computers, one line: the copy moves at any time", () => {
    holds({ size: smallest(1), with: ["moves"] }, 21106);
  });

  it("C-09 (in part), C-12 (in part): two computers, one line: verbs beside the cores", () => {
    holds({ size: smallest(1), with: ["verbs"] }, 6955);
  });

  it("C-10 (in part): two computers, one line: a lease ends, a card dies, on either side", () => {
    holds({ size: smallest(1), with: ["losses"] }, 23006);
  });

  it("C-12 (in part): two computers, two lines, all tables one entry long: from everywhere it goes on", () => {
    holds({ size: smallest(1, 2) }, 17555);
  });

  it("C-12 (in part): three computers, one line, as far as the first 12 000 states", () => {
    holds({ size: smallest(2), statesMax: 12_000 }, 12480);
  });
});

describe("a protocol that is broken", () => {
  it("C-12 (in part): is found out, whichever of its rules it is", () => {
    assert.ok(MUTATIONS.length >= 30);
    const missed = MUTATIONS.filter(({ exploration }) => explore(exploration).violation === null);
    assert.deepEqual(missed.map(({ name }) => name), []);
  });
});
