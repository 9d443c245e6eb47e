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
    const marks = (fabric: string) => switchOf(fabric).congestion!.ecn;
    assert.deepEqual(marks("switch: { queue: 64KiB }, ecn: on"), {
      kminBytes: 6_400,
      kmaxBytes: 25_600,
      pmax: 0.2,
    });
    assert.deepEqual(marks("switch: { queue: 101KiB }, ecn: on"), tor.ecn, "room for the default");
    assert.deepEqual(marks("switch: { queue: 64KiB }, ecn: on, pfc: on"), tor.ecn, "lossless");
    assert.deepEqual(tor.pfc!.threshold, {
      kind: "static",
      xoffBytes: 131_072,
      xonBytes: 131_072 - 2 * 4248,
    });
    assert.equal(tor.pfc!.ports.length, 2);
  });

  it("takes each mechanism by itself", () => {
    const only = switchOf("pfc: { xoff: 32KiB, xon: 16KiB }").congestion!;
    const threshold = { kind: "static", xoffBytes: 32_768, xonBytes: 16_384 };
    assert.deepEqual([only.ecn, only.pfc!.threshold], [null, threshold]);
    assert.equal(rnicOf("dcqcn: { additive: 5Mbps }").congestion!.dcqcn!.additiveBps, 5e6);
    const { dscp, pfc } = rnicOf("pfc: on, priorities: { dscp: 40 }").congestion!;
    assert.deepEqual([dscp, pfc!.lossless], [40, 1 << 5]);
    assert.equal(switchOf("switch: { buffer: 2MiB }").bufferBytes, 2 << 20);
  });

  it("divides a buffer of a given size by alpha, and others by XOFF", () => {
    const shared = "switch: { buffer: 2MiB }";
    const dynamic = { kind: "dynamic", alpha: 1 / 8, xonOffsetBytes: 2 * 4248 };
    assert.deepEqual(switchOf(`${shared}, pfc: on`).congestion!.pfc!.threshold, dynamic);
    const fixed = switchOf(`${shared}, pfc: { xoff: 32KiB }`).congestion!.pfc!.threshold;
    assert.equal(fixed.kind, "static");
    for (const alpha of ["2", "1/128", "0.5"]) {
      const { threshold } = switchOf(`pfc: { alpha: ${alpha}, xonOffset: 1KiB }`).congestion!.pfc!;
      const value = alpha === "1/128" ? 1 / 128 : Number(alpha);
      assert.deepEqual(threshold, { kind: "dynamic", alpha: value, xonOffsetBytes: 1_024 });
    }
  });

  it("has the headroom that the scenario gives, in bytes or for a length of cable", () => {
    const ports = (fabric: string) => switchOf(fabric).congestion!.pfc!.ports;
    const needed = ports("pfc: on")[0]!.headroomBytes;
    assert.deepEqual(ports("pfc: { headroom: 5KiB }")[0], {
      bitsPerSecond: 100e9,
      headroomBytes: 5_120,
      neededBytes: needed,
      peer: "a-rnic",
    });
    // 300 m of fibre: 1 515 152 ps there and back, less the 25 ns of the cable that there is.
    const more = Math.ceil(2 * (1_515_152 - 25_000) * 100e9 / 8 / 1e12);
    const { headroomBytes } = ports("pfc: { headroom: 300m }")[0]!;
    assert.ok(Math.abs(headroomBytes - needed - more) <= 1, `${headroomBytes}`);
    const pool = switchOf("pfc: { headroomPool: 64KiB }").congestion!.pfc!.headroomPoolBytes;
    assert.equal(pool, 65_536);
  });

  it("reserves a frame for each group unless the scenario says how much, with PFC or a buffer", () => {
    assert.equal(switchOf("pfc: on").reservedBytes, 4248);
    assert.equal(switchOf("switch: { buffer: 2MiB }, mtu: 1024").reservedBytes, 1_176);
    assert.equal(switchOf("pfc: on, switch: { reserved: 9KiB }").reservedBytes, 9_216);
    assert.equal("reservedBytes" in switchOf("ecn: on"), false);
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
    ["pfc: { alpha: 0.3 }", /fabric\.pfc\.alpha: found 0\.3, expected a power of two from 1\/128/],
    ["pfc: { xoff: 1KiB, alpha: 1 }", /fabric\.pfc\.alpha: found alpha beside xoff/],
    [
      "pfc: { alpha: 1, xon: 1KiB }",
      /fabric\.pfc\.xon: found xon, expected xonOffset/,
    ],
    ["pfc: { xon: 1KiB, xonOffset: 1KiB }", /fabric\.pfc\.xonOffset: found xonOffset beside xon/],
    ["pfc: { headroom: 5km }", /fabric\.pfc\.headroom: .*like 40KiB, or a cable's length/],
    [
      "topology: direct, pfc: { xoff: 1KiB }",
      /fabric\.pfc\.xoff: .*expected none, as it is a switch/,
    ],
    ["pfc: on, priorities: { lossless: [] }", /lossless: found none, expected a priority at least/],
    [
      "mtu: 1024, switch: { buffer: 64KiB }, pfc: { xoff: 1MiB }",
      /fabric\.pfc\.xoff: found 1 MiB, expected at most \d+ B: tor shares \d+ B of its 65536 B/,
    ],
    [
      "pfc: { xoff: 900MiB }",
      /fabric\.pfc\.xoff: found 900 MiB, expected at most \d+ B: tor shares/,
    ],
    [
      "switch: { buffer: 32KiB }, pfc: on",
      /fabric\.switch\.buffer: found 32 KiB, expected at least \d+ B in tor: headroom \d+ B, reserved/,
    ],
    [
      "switch: { buffer: 8KiB }",
      /fabric\.switch\.buffer: .*expected at least 12744 B in tor: headroom 0 B, reserved 8496 B/,
    ],
    [
      "topology: leaf-spine, leaves: 2, spines: 4, switch: { buffer: 64KiB }, pfc: on",
      /fabric\.switch\.buffer: .* in leaf1: headroom/,
    ],
    [
      "switch: { queue: 64KiB }, ecn: { kmin: 100KiB }",
      /fabric\.ecn\.kmin: found 100 KiB, expected less than 65536 B/,
    ],
    [
      "switch: { buffer: 64KiB }, ecn: on",
      /fabric\.switch\.buffer: found at most \d+ B for a port of tor, expected more than 100 KiB, the default of fabric\.ecn\.kmin/,
    ],
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
