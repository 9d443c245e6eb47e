import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../base/time.ts";
import { headroomBytes } from "./congestion.ts";
import { Refusal } from "../plan/problem.ts";
import { makePlan } from "./topology.ts";
import { variants } from "../scenario/variants.ts";
import { parseScenario } from "../scenario/parse_scenario.ts";

function planOf(fabric: string) {
  const text = `name: x\nfabric: { ${fabric} }\nhosts: { a: {}, b: {} }\n`;
  return makePlan(variants(parseScenario(text, "x.yaml"))[0]!);
}

function switchOf(fabric: string) {
  const node = planOf(fabric).nodes.find(({ kind }) => kind === "switch");
  assert.ok(node?.kind === "switch");
  return node.config;
}

function rnicOf(fabric: string) {
  const node = planOf(fabric).nodes.find(({ kind }) => kind === "rnic");
  assert.ok(node?.kind === "rnic");
  return node.config;
}

describe("congestion control of a scenario", () => {
  it("is off unless it is asked for: the plan does not know of it", () => {
    for (const fabric of ["mtu: 4096", "ecn: off, pfc: off, dcqcn: off"]) {
      assert.equal("congestion" in switchOf(fabric), false);
      assert.equal("congestion" in rnicOf(fabric), false);
    }
  });

  it("has defaults: RoCE's usual class, the paper's parameters", () => {
    const { congestion } = rnicOf("ecn: on, pfc: on, dcqcn: on");
    assert.deepEqual([congestion!.dscp, congestion!.cnpDscp], [26, 48]);
    assert.equal(congestion!.pfc!.lossless, 1 << 3);
    assert.equal(congestion!.dcqcn!.g, 1 / 256);
    assert.equal(congestion!.dcqcn!.cnpIntervalPs, 50 * PS_PER_US);
    const tor = switchOf("ecn: on, pfc: on, dcqcn: on").congestion!;
    assert.deepEqual(tor.ecn, { kminBytes: 102_400, kmaxBytes: 409_600, pmax: 0.2 });
    assert.equal(tor.pfc!.xoffBytes, 131_072);
    assert.ok(tor.pfc!.xonBytes < tor.pfc!.xoffBytes);
    assert.equal(tor.pfc!.ports.length, 2);
  });

  it("takes each mechanism by itself", () => {
    const only = switchOf("pfc: { xoff: 32KiB, xon: 16KiB }").congestion!;
    assert.deepEqual([only.ecn, only.pfc!.xoffBytes, only.pfc!.xonBytes], [null, 32_768, 16_384]);
    assert.equal(rnicOf("dcqcn: { additive: 5Mbps }").congestion!.dcqcn!.additiveBps, 5e6);
    const { dscp, pfc } = rnicOf("pfc: on, priorities: { dscp: 40 }").congestion!;
    assert.deepEqual([dscp, pfc!.lossless], [40, 1 << 5]);
    assert.equal(switchOf("switch: { buffer: 2MiB }").bufferBytes, 2 << 20);
  });

  it("works without a switch", () => {
    const { congestion } = rnicOf("topology: direct, pfc: on");
    assert.ok(congestion!.pfc!.headroomPs > 0);
  });

  const wrong: readonly (readonly [fabric: string, message: RegExp])[] = [
    ["ecn: maybe", /fabric\.ecn: found "maybe", expected on, off or a mapping with kmin/],
    ["ecn: { kmin: 2MiB }", /fabric\.ecn\.kmax: found .*, expected at least kmin, 2 MiB/],
    ["ecn: { pmax: 2 }", /fabric\.ecn\.pmax: found 2, expected a number from 0 to 1/],
    ["pfc: { xoff: 1KiB, xon: 2KiB }", /fabric\.pfc\.xon: .*expected at most xoff, 1 KiB/],
    ["dcqcn: { gain: 1 }", /fabric\.dcqcn\.gain: found an unknown key/],
    ["priorities: { lossless: [8] }", /fabric\.priorities\.lossless\[0\]/],
  ];
  for (const [fabric, message] of wrong) {
    it(`refuses ${fabric}`, () => {
      assert.throws(() => planOf(fabric), (error) => {
        assert.ok(error instanceof Refusal);
        assert.match(error.message, message);
        return true;
      });
    });
  }
});

describe("headroomBytes", () => {
  it("is what is promised, in the cable and begun, both ways", () => {
    const plan = planOf("latency: 1us, rate: 100Gbps, mtu: 4096");
    const byName = (name: string) => plan.nodes.find((node) => node.name === name)!;
    const cable = plan.cables.find(({ kind }) => kind === "network")!;
    const bytes = headroomBytes(cable, { near: byName("tor"), far: byName("a-rnic"), mtu: 4096 });
    // Switch 150 ns; request 84 B in 6.72 ns; RNIC 500 + 50 + 30 + 40 ns; cable 2 · 1 us; 3 frames of
    // 4248 B in 339.84 ns: 3796.24 ns, at 12.5 B/ns.
    assert.equal(bytes, 47_453);
  });
});
