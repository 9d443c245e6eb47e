/**
 * Racks with a shared region whose cables lose, double, damage and reorder frames, are cut, and whose hosts die: what
 * programs see is judged by the checkers (C-09, C-10), and the run is the same in one process and in several.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { reportsOf } from "../../console/rack/run_variant.ts";
import { RackBench } from "../support/process_rack.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import {
  findingsOfShared,
  recordOfShared,
  type SharedOf,
  sharedRack,
  sharedScenario,
} from "./shared_rack.ts";
import type { AccessedRecord } from "../../fabric/audit.ts";
import type { RunRecord } from "../../console/checks/run_record.ts";

const LOSSY = ["a", "b", "c"].flatMap((host) => [
  `{ link: ${host}, loss: 2% }`,
  `{ link: ${host}, duplicate: 2% }`,
  `{ link: ${host}, corrupt: 1% }`,
  `{ link: ${host}, reorder: 2%, by: 2, hold: 10us }`,
]);
const SMALLEST = ", remoteCache: 1, localCache: 1, slots: 1, entries: 1, writeBacks: 1";

/** Accesses that have ended, by their result. */
function results({ notes }: RunRecord): Partial<Record<AccessedRecord["result"], number>> {
  const counts: Partial<Record<AccessedRecord["result"], number>> = {};
  for (const { note } of notes) {
    if (note.kind === "accessed") counts[note.result] = (counts[note.result] ?? 0) + 1;
  }
  return counts;
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
        const { done = 0 } = results(record);
        assert.ok(done > 100, `${done} accesses were done`);
      });
    }
  }
});

describe("a rack with a shared region that loses a part", () => {
  const FAULTS: Readonly<Record<string, readonly string[]>> = {
    "a far host's cable, for longer than the lease": [
      "{ at: 60us, cut: b }",
      "{ at: 160us, heal: b }",
    ],
    "home's cable, for longer than the lease": ["{ at: 60us, cut: a }", "{ at: 160us, heal: a }"],
    "a far host's cable, for less than the lease": [
      "{ at: 60us, cut: b }",
      "{ at: 68us, heal: b }",
    ],
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
          const { done = 0 } = results(record);
          assert.ok(done > 100, `${done} accesses were done`);
        });
      }
    }
  }

  it("C-10, decision 13: a cut that outlasts the lease fences, and a shorter one does not", () => {
    for (const [heal, isFenced] of [["160us", true], ["68us", false]] as const) {
      const faults = ["{ at: 60us, cut: b }", `{ at: ${heal}, heal: b }`];
      const { fenced = 0 } = results(recordOfShared(sharedRack({ faults, accesses: 80 })));
      assert.equal(fenced > 0, isFenced, `${fenced} accesses until ${heal}`);
    }
  });
});

describe("two regions of one home, whose leases differ", () => {
  it("C-10, decision 13: an access to either is answered in time, as home's card waits for the longest lease", () => {
    const text = sharedScenario({ faults: ["{ at: 130us, cut: b }"] }).replace(
      "programs:",
      "  - { name: t, home: a, far: [b, c], bytes: 64, lease: 400us }\nprograms:",
    );
    const [variant] = variants(parseScenario(text, "shared.yaml"));
    const record = recordOfShared({ ...sharedRack({ accesses: 80 }), plan: makePlan(variant!) });
    assert.deepEqual(findingsOfShared(record), []);
    const begins = new Map<string, number>();
    let longest = 0;
    for (const { time, by, note } of record.notes) {
      if (note.kind === "access") begins.set(`${by} ${note.id}`, time);
      if (note.kind !== "accessed") continue;
      longest = Math.max(longest, time - begins.get(`${by} ${note.id}`)!);
    }
    assert.ok(longest > 4 * 22.5 * PS_PER_US, `the longest access took ${longest} ps`);
  });
});

describe("an unreliable rack with a shared region, in several processes", () => {
  let bench: RackBench;
  beforeAll(async () => void (bench = await RackBench.open()));
  afterAll(() => bench.close());

  const program = new URL("./adds_program.ts", import.meta.url).pathname;
  // One rack for all of it, as processes take most of the time: b is cut from home, and later home dies.
  const FAULTS = [
    ...LOSSY,
    "{ at: 40us, cut: b }",
    "{ at: 80us, heal: b }",
    "{ at: 110us, kill: a }",
    "{ at: 150us, start: a }",
  ];
  const SCENARIO = `
name: shared-losses
seed: 5
defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }
hosts: { a: {}, b: {}, c: {} }
shared:
  - { name: s, home: a, far: [b, c], bytes: 4KiB, lease: 20us }
programs:
  - { on: all, program: ${program} }
faults:
${FAULTS.map((fault) => `  - ${fault}`).join("\n")}
`;

  it("C-10: has one digest in one process and in one per machine: cables lose, double, damage, reorder and are cut, home dies and comes back", async () => {
    const one = await bench.run({ scenario: SCENARIO, packing: "all" });
    const { outcome } = await bench.run({ scenario: SCENARIO, packing: "machine" });
    assert.ok(outcome.processes > 1);
    assert.equal(outcome.digest, one.outcome.digest);
    // Of c only home's death is told: its own cable is whole.
    const told = reportsOf(one.outcome).filter(({ topic, value }) =>
      topic === "adds" && (value as { readonly told: number }).told > 0
    ).map(({ node }) => node);
    assert.ok(["b", "c"].every((host) => told.includes(host)), `${told}`);
  });
});
