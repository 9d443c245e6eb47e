/** C-03: shared regions with a process for each node: the digest is that of one process (DESIGN §3). */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { RackBench, type RunOf } from "../support/process_rack.ts";

const SCENARIOS = new URL("../../scripts/scenarios/", import.meta.url);

const RUNS: readonly (readonly [name: string, run: RunOf])[] = [
  ["a lock that is kept by compare-swap", { scenario: new URL("coherent_lock.yaml", SCENARIOS) }],
];

describe("a rack with shared regions", () => {
  let bench: RackBench;
  beforeAll(async () => void (bench = await RackBench.open()));
  afterAll(() => bench.close());

  for (const [name, run] of RUNS) {
    it(`C-03: has one digest in one process, in one per machine and in one per node: ${name}`, async () => {
      const one = await bench.run({ ...run, packing: "all" });
      for (const packing of ["machine", "node"] as const) {
        const { outcome } = await bench.run({ ...run, packing });
        assert.ok(outcome.processes > 1);
        assert.equal(outcome.digest, one.outcome.digest, packing);
      }
    });
  }
});
