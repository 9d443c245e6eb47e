import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { packets } from "./testing/pair_testing.ts";
import { scatteredPair, write } from "./testing/transport_testing.ts";

describe("round robin", () => {
  it("two queue pairs share the wire, as many frames each as share a DMA read", () => {
    const p = scatteredPair();
    const other = { ...p, ...p.rig.connect() };
    p.rig.frames.length = 0;
    // More than the first one can fetch before the second one's WQE is here.
    for (let i = 0; i < 4; i++) {
      write(p, 32768);
      write(other, 32768);
    }
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.ring(p.rig.a, other.a.sq);
    p.rig.run();
    const owners = packets(p, "a").map(({ bth }) => bth.destQpn);
    let longest = 0, run = 0;
    for (let i = 100; i < 150; i++) {
      run = owners[i] === owners[i - 1] ? run + 1 : 1;
      longest = Math.max(longest, run);
    }
    assert.equal(longest, 4, `one queue pair had ${longest} frames in a row: ${owners}`);
  });
});
