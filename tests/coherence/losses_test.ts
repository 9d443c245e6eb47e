/**
 * Racks with a shared region whose cables lose, double, damage and reorder frames, are cut, and whose hosts die: what
 * programs see is judged by the checkers (C-09, C-10), and the run is the same in one process and in several.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { findingsOfShared, recordOfShared, sharedRack, type SharedOf } from "./shared_rack.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";

const LOSSY = ["a", "b", "c"].flatMap((host) => [
  `{ link: ${host}, loss: 2% }`,
  `{ link: ${host}, duplicate: 2% }`,
  `{ link: ${host}, corrupt: 1% }`,
  `{ link: ${host}, reorder: 2%, by: 2, hold: 10us }`,
]);
const SMALLEST = ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1";

/** What statistics of all cards add up to. */
function sum({ reports }: RunRecord, name: string): number {
  let total = 0;
  for (const report of reports) {
    const { statistics } = report as unknown as { statistics?: Record<string, number> };
    total += statistics?.[name] ?? 0;
  }
  return total;
}

describe("an unreliable fabric with a shared region", () => {
  const RACKS: Readonly<Record<string, SharedOf>> = {
    "copies kept remotely": {},
    "copies kept locally": { placement: "local" },
    "all tables one entry long": { more: SMALLEST },
    "kept locally, all tables one entry long": { placement: "local", more: SMALLEST },
  };
  for (const [name, rack] of Object.entries(RACKS)) {
    for (const seed of [1, 2, 3]) {
      it(`C-09: loads see what stores have left, and each atomic is done once: ${name}, seed ${seed}`, () => {
        const record = recordOfShared(sharedRack({ ...rack, seed, faults: LOSSY }));
        assert.deepEqual(findingsOfShared(record), []);
        void sum;
      });
    }
  }
});

describe("a rack with a shared region that loses a part", () => {
  const FAULTS: Readonly<Record<string, readonly string[]>> = {
    "a far host's cable, for longer than the lease": ["{ at: 60us, cut: b }", "{ at: 160us, heal: b }"],
    "home's cable, for longer than the lease": ["{ at: 60us, cut: a }", "{ at: 160us, heal: a }"],
    "a far host's cable, for less than the lease": ["{ at: 60us, cut: b }", "{ at: 68us, heal: b }"],
    "a far host": ["{ at: 70us, kill: b }"],
    "a far host, which comes back": ["{ at: 70us, kill: b }", "{ at: 150us, start: b }"],
    "home, which comes back": ["{ at: 70us, kill: a }", "{ at: 150us, start: a }"],
  };
  for (const [name, faults] of Object.entries(FAULTS)) {
    for (const placement of ["remote", "local"] as const) {
      for (const memory of ["scm", "dram"] as const) {
        it(`C-10: every access is answered, and nothing old is seen: ${name}, ${placement}, ${memory}`, () => {
          const record = recordOfShared(sharedRack({ faults, placement, memory, accesses: 80 }));
          assert.deepEqual(findingsOfShared(record), []);
        });
      }
    }
  }
});
