/** What SCM's medium is written for what programs store, over a whole host. */
import { strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { Program } from "../../nodes/host/program_context.ts";

const BLOCKS = 500;

/** Stores `bytes` every `stride` bytes of SCM, past the cache or through it, and fences. */
function storing(bytes: number, stride: number, how: "ntstore" | "clwb"): Program {
  return function* ({ cpu }) {
    for (let at = 0; at < 256 * BLOCKS; at += stride) {
      const data = new Uint8Array(bytes).fill(7);
      if (how === "ntstore") cpu.ntstore(cpu.scm.address + at, data);
      else {
        cpu.store(cpu.scm.address + at, data);
        cpu.clwb(cpu.scm.address + at, bytes);
      }
      yield* cpu.sfence();
    }
  };
}

/** Bytes written to the medium for each that the controller was given. */
function amplification(program: Program): number {
  const rack = new SimulatedRack(
    "name: amplification\nhosts: { a: { services: none, scm: { size: 1MiB } } }\n" +
      "programs: [{ on: a, program: ./store.ts }]",
    { programs: { "./store.ts": program } },
  ).run();
  equal(rack.reported("program-ended").length, 1, JSON.stringify(rack.reports));
  const counters = rack.simulator.statistics()["a"]!;
  return counters["scmBytesOut"]! / counters["scmBytesIn"]!;
}

describe("Write amplification of SCM", () => {
  it("P-01 (in part): is 1 for stores that follow each other, 4 for a line of each block, 32 for 8 B of each", () => {
    equal(amplification(storing(64, 64, "ntstore")), 1);
    equal(amplification(storing(64, 256, "ntstore")), 4);
    equal(amplification(storing(8, 256, "ntstore")), 32);
    // The cache hands on whole lines.
    equal(amplification(storing(8, 256, "clwb")), 4);
    equal(amplification(storing(64, 64, "clwb")), 1);
  });
});
