/** Short programs on every order of the protocol's code: what loads return is what some order of all allows. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  type LitmusAccess,
  type LitmusThread,
  reachedOutcomes,
  sequentialOutcomes,
} from "./litmus_testing.ts";
import { MUTATIONS, smallest } from "./mutations_testing.ts";
import { HOST } from "./system.ts";

const X = 0, Y = 1;
const load = (line: number): LitmusAccess => ({ line });
const store = (line: number, value: number): LitmusAccess => ({ line, store: value });

/** Exactly the sequential outcomes: nothing else, and none that the protocol cannot reach. */
function agrees(threads: readonly LitmusThread[], place: "local" | "remote" = "remote"): number {
  const agents = threads.filter(({ by }) => by > 0).map(({ by }) => by);
  const lines = 1 +
    Math.max(...threads.flatMap(({ accesses }) => accesses.map(({ line }) => line)));
  const size = smallest(Math.max(...agents), lines);
  const { outcomes, states } = reachedOutcomes({ size, threads, place });
  assert.deepEqual([...outcomes].sort(), [...sequentialOutcomes(threads)].sort());
  return states;
}

/** All programs of two accesses to one line; stores of a thread have values of their own. */
function* pairsOfAccesses(first: number): Generator<LitmusAccess[]> {
  for (let choice = 0; choice < 4; choice++) {
    yield [0, 1].map((at) => (choice >> at & 1) === 1 ? store(X, first + at) : load(X));
  }
}

describe("two computers, one line, two accesses each", () => {
  for (const place of ["remote", "local"] as const) {
    it(`C-12: all pairs of programs return what some order of them allows: ${place}`, () => {
      for (const home of pairsOfAccesses(1)) {
        for (const far of pairsOfAccesses(3)) {
          agrees([{ by: HOST, accesses: home }, { by: 1, accesses: far }], place);
        }
      }
    });
  }
});

describe("litmus tests across two lines", () => {
  const tests: { name: string; threads: readonly LitmusAccess[][] }[] = [
    { name: "message passing", threads: [[store(X, 1), store(Y, 1)], [load(Y), load(X)]] },
    { name: "store buffering", threads: [[store(X, 1), load(Y)], [store(Y, 1), load(X)]] },
    { name: "load buffering", threads: [[load(X), store(Y, 1)], [load(Y), store(X, 1)]] },
  ];
  for (const { name, threads: [a = [], b = []] } of tests) {
    it(`C-09: ${name}, either side first, each placement: sequential consistency`, () => {
      for (const place of ["remote", "local"] as const) {
        agrees([{ by: HOST, accesses: a }, { by: 1, accesses: b }], place);
        agrees([{ by: HOST, accesses: b }, { by: 1, accesses: a }], place);
      }
    });
  }

  it("C-12: sees a lost invalidation: message passing returns the flag, and old data", () => {
    const broken = MUTATIONS.find(({ name }) => /acknowledged, and S stays/.test(name));
    const tables = broken?.exploration.tables;
    assert.ok(tables !== undefined);
    const threads: LitmusThread[] = [
      { by: HOST, accesses: [store(X, 1), store(Y, 1)] },
      { by: 1, accesses: [load(X), load(Y), load(X)] },
    ];
    const size = { ...smallest(1, 2), remoteCache: { lines: 2, writeBacks: 1 } };
    const home = { ...size.home, entries: 2 };
    const { outcomes } = reachedOutcomes({ size: { ...size, home }, threads, tables });
    const allowed = sequentialOutcomes(threads);
    assert.ok([...outcomes].some((each) => !allowed.has(each)), [...outcomes].join(", "));
  });
});
