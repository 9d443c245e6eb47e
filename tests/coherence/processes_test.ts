/** C-03: shared regions with a process for each node: the digest is that of one process (DESIGN §3). */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { reportsOf } from "../../console/rack/run_variant.ts";
import { RackBench } from "../support/process_rack.ts";

const PROGRAM = new URL("../../scripts/scenarios/coherent_lock.ts", import.meta.url).pathname;

/** Of each of the two computers. Each takes the lock from the other, and loads what the other has stored. */
const SECTIONS = 12;

/** The program of `coherent_lock.yaml` on one of its pairs: each frame between processes costs a step of all of them. */
const SCENARIO = `
name: shared-processes
seed: 7
profile: clx-optane-cx5
defaults: { services: none, attach: coherent }
hosts: { home-remote: {}, far-remote: {} }
shared:
  - { name: remote, home: home-remote, far: [far-remote], memory: dram, bytes: 4KiB, placement: remote }
programs:
  - on: all
    program: ${PROGRAM}
    bytes: 4KiB
    clients: 2
    begin: 200us
    sections: ${SECTIONS}
    tickets: ${2 * SECTIONS}
    hold: 1us
    pause: 5us
`;

describe("a rack with shared regions", () => {
  let bench: RackBench;
  beforeAll(async () => void (bench = await RackBench.open()));
  afterAll(() => bench.close());

  it("C-03: has one digest in one process, in one per machine and in one per node: a lock that computers share", async () => {
    const one = await bench.run({ scenario: SCENARIO, packing: "all" });
    const counters = reportsOf(one.outcome).filter(({ topic }) => topic === "result")
      .map(({ value }) => (value as { readonly counter: number }).counter);
    assert.deepEqual(counters, [2 * SECTIONS, 2 * SECTIONS]);
    for (const packing of ["machine", "node"] as const) {
      const { outcome } = await bench.run({ scenario: SCENARIO, packing });
      assert.ok(outcome.processes > 1);
      assert.equal(outcome.digest, one.outcome.digest, packing);
    }
  });
});
