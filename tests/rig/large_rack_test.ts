/**
 * Racks of a thousand hosts in one process: they come up, carry messages and keep promises, and the one with the most
 * switches does the same again.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SimulatedRack } from "../support/simulated_rack.ts";

const HOSTS = 1_000;
const STRIDE = 20;

const nameOf = (host: number) => `h${String(host % HOSTS + 1).padStart(4, "0")}`;

/** Every twentieth host writes one message to one on the other side of the rack. */
function scenario(fabric: string): string {
  const puts = Array.from({ length: HOSTS / STRIDE }, (_, i) => {
    const on = nameOf(i * STRIDE), to = nameOf(i * STRIDE + HOSTS / 2);
    return `  - { on: ${on}, run: put, to: ${to}, method: persist-opcode, size: 64, bytes: 64 }`;
  });
  const hosts = `${nameOf(0)}..${nameOf(HOSTS - 1)}`;
  return `name: large\n${fabric}\nhosts: { ${hosts}: { scm: { size: 128KiB }, dram: 4MiB } }\n` +
    `programs:\n${puts.join("\n")}\n`;
}

describe("a rack of 1 000 hosts in one process", () => {
  function run(fabric: string): SimulatedRack {
    const rack = new SimulatedRack(scenario(fabric)).run();
    assert.equal(rack.reported("result").length, HOSTS / STRIDE);
    return rack;
  }

  it("keeps its promises behind one switch", () => {
    run("");
  });

  it("keeps its promises behind 32 leaves and 8 spines", () => {
    run("fabric: { topology: leaf-spine, leaves: 32, spines: 8 }");
  });

  it("keeps its promises behind a fat tree of 320 switches, and has the same digest twice", () => {
    const fabric = "fabric: { topology: fat-tree, k: 16 }";
    const { digest } = run(fabric).simulator;
    const again = new SimulatedRack(scenario(fabric), {
      unsound: "it was checked the first time",
    }).run();
    assert.equal(again.simulator.digest, digest);
  });
});
