import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { makePlan } from "../../../fabric/rack/assembly/topology.ts";
import { hostOfRnic } from "../../../fabric/rack/plan/names.ts";
import { parseScenario } from "../../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../../fabric/rack/scenario/variants.ts";
import type { Topology } from "../../api/rack.ts";
import { type Box, type CableLine, type Layout, layOut } from "./layout.ts";

type Shape = Pick<Topology, "nodes" | "cables">;

/** `hosts` below each of `leaves` switches, each of them joined to each of `spines`. */
function rack(leaves: number, spines: number, hosts: number): Shape {
  const nodes: Topology["nodes"] = [], cables: Topology["cables"] = [];
  const node = (name: string, kind: "host" | "rnic" | "switch", host: string | null = null) =>
    nodes.push({ name, kind, process: name, host, config: {} });
  const cable = (a: string, b: string, kind: "bus" | "network" = "network") =>
    cables.push({
      name: `${a}/${b}`,
      kind,
      a: { node: a, port: 0 },
      b: { node: b, port: 0 },
      latencyPs: 1,
      bitsPerSecond: 1,
    });
  for (let spine = 1; spine <= spines; spine++) node(`spine${spine}`, "switch");
  for (let leaf = 1; leaf <= leaves; leaf++) {
    node(`leaf${leaf}`, "switch");
    for (let spine = 1; spine <= spines; spine++) cable(`leaf${leaf}`, `spine${spine}`);
    for (let i = 0; i < hosts; i++) {
      const host = `h${leaf}-${i}`;
      node(host, "host");
      node(`${host}-rnic`, "rnic", host);
      cable(host, `${host}-rnic`, "bus");
      cable(`${host}-rnic`, `leaf${leaf}`);
    }
  }
  return { nodes, cables };
}

function overlap(x: Box, y: Box): boolean {
  return x.x < y.x + y.w && y.x < x.x + x.w && x.y < y.y + y.h && y.y < x.y + x.h;
}

describe("layOut", () => {
  for (const [leaves, spines, hosts] of [[1, 0, 2], [2, 2, 2], [1, 0, 32], [10, 4, 20]] as const) {
    it(`stands ${hosts} hosts below each of ${leaves} switches in the plane, none over another`, () => {
      const { hosts: placed, switches, width, height, cables } = layOut(
        rack(leaves, spines, hosts),
      );
      const boxes = [
        ...placed.flatMap(({ box, cards }) => [box, ...cards.map((card) => card.box)]),
        ...switches.map(({ box }) => box),
      ];
      assert.equal(boxes.length, 2 * leaves * hosts + leaves + spines);
      for (const [i, box] of boxes.entries()) {
        assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.w <= width && box.y + box.h <= height);
        for (const other of boxes.slice(i + 1)) assert.ok(!overlap(box, other));
      }
      assert.equal(cables.length, leaves * (hosts + spines));
      assert.ok(width / height < 4, `${width} × ${height}`);
    });
  }

  it("stands hosts in the order of their numbers, however a scenario names them", () => {
    const { nodes, cables } = rack(1, 0, 12);
    const { hosts } = layOut({ nodes: nodes.toReversed(), cables });
    assert.deepEqual(
      hosts.map(({ host }) => host),
      Array.from({ length: 12 }, (_, i) => `h1-${i}`),
    );
  });

  it("ends a cable at its devices, first at end a", () => {
    const { hosts, switches, cables } = layOut(rack(1, 0, 2));
    for (const { name, points } of cables) {
      const [a] = name.split("/");
      const card = hosts.flatMap(({ cards }) => cards).find((each) => each.name === a)!.box;
      const leaf = switches[0]!.box;
      assert.equal(points[0]![1], card.y);
      assert.equal(points.at(-1)![1], leaf.y + leaf.h);
    }
  });
});

/** The rack of a scenario with this fabric and these hosts. */
function built(fabric: string, hosts: string): Shape {
  const scenario = parseScenario(`name: x\nfabric: ${fabric}\nhosts: ${hosts}\n`, "x.yaml");
  const { nodes, cables } = makePlan(variants(scenario, {})[0]!);
  return {
    nodes: nodes.map(({ name, kind }) => ({
      name,
      kind,
      process: name,
      host: hostOfRnic(name) ?? null,
      config: {},
    })),
    cables: cables.map(({ kind, a, b, latencyPs, bitsPerSecond }) => ({
      name: `${a.node}/${b.node}`,
      kind,
      a,
      b,
      latencyPs,
      bitsPerSecond,
    })),
  };
}

/** Devices that a cable passes over, other than its ends. */
function passedOver({ points, name }: CableLine, { hosts, switches }: Layout): string[] {
  const ends = name.split("/");
  const boxes: readonly (readonly [string, Box])[] = [
    ...switches.map(({ name, box }) => [name, box] as const),
    ...hosts.flatMap(({ host, box, cards }) => [
      [host, box] as const,
      ...cards.map((card) => [card.name, card.box] as const),
    ]),
  ];
  return boxes.flatMap(([device, { x, y, w, h }]) => {
    const isOver = points.slice(1).some(([toX, toY], i) => {
      const [fromX, fromY] = points[i]!;
      return Array.from({ length: 101 }, (_, step) => step / 100).some((part) => {
        const atX = fromX + (toX - fromX) * part, atY = fromY + (toY - fromY) * part;
        return atX > x && atX < x + w && atY > y && atY < y + h;
      });
    });
    return isOver && !ends.includes(device) ? [device] : [];
  });
}

function assertClear(shape: Shape, layout: Layout): void {
  const { hosts, switches, width, height, cables } = layout;
  const boxes = [
    ...hosts.flatMap(({ box, cards }) => [box, ...cards.map((card) => card.box)]),
    ...switches.map(({ box }) => box),
  ];
  for (const [i, box] of boxes.entries()) {
    assert.ok(box.x >= 0 && box.y >= 0 && box.x + box.w <= width && box.y + box.h <= height);
    for (const other of boxes.slice(i + 1)) assert.ok(!overlap(box, other));
  }
  assert.equal(cables.length, shape.cables.filter(({ kind }) => kind === "network").length);
  for (const cable of cables) {
    assert.deepEqual(passedOver(cable, layout), [], cable.name);
    assert.ok(cable.points.every(([x, y]) => x >= 0 && y >= 0 && x <= width && y <= height));
  }
  assert.equal(new Set(cables.map(({ points }) => points.join(" "))).size, cables.length);
}

describe("layOut of fabrics of several tiers", () => {
  const RING = "{ topology: explicit, switches: s1..s4, cables: " +
    "[h1..h2/s1, h3..h4/s3, { ends: s1/s2, count: 2 }, s2/s3, s3/s4, s4/s1, s1/s3] }";
  const LINE = "{ topology: explicit, switches: s1..s3, cables: [h1/s1, h2/s2, h3..h4/s3, " +
    "s1/s2, s2/s3, { ends: s1/s3, count: 2 }] }";
  const fabrics: Readonly<Record<string, readonly [Shape, rows: number]>> = {
    "a fat tree, its hosts drawn large": [
      built("{ topology: fat-tree, k: 4 }", "{ h1..h8: {} }"),
      3,
    ],
    "a full fat tree": [built("{ topology: fat-tree, k: 4 }", "{ h1..h16: {} }"), 3],
    "a fat tree of k 8 with two hosts": [
      built("{ topology: fat-tree, k: 8 }", "{ h1..h2: {} }"),
      3,
    ],
    "more spines than two leaves are wide": [
      built("{ topology: leaf-spine, leaves: 2, spines: 12 }", "{ h1..h2: {} }"),
      2,
    ],
    "a ring of switches": [built(RING, "{ h1..h4: {} }"), 2],
    "hosts with eight RNICs each": [
      built("{ topology: leaf-spine, leaves: 1, spines: 1 }", "{ h1..h4: { nics: 8 } }"),
      2,
    ],
    "many hosts with two RNICs": [
      built("{ topology: star }", "{ h1..h20: { nics: 2 } }"),
      1,
    ],
    "cables along a row": [built(LINE, "{ h1..h4: {} }"), 1],
  };
  const rooms = [undefined, { w: 1000, h: 640 }, { w: 520, h: 800 }];
  for (const [name, [shape]] of Object.entries(fabrics)) {
    it(`stands ${name} in any room with no device over another and no cable over a third`, () => {
      for (const room of rooms) assertClear(shape, layOut(shape, room));
    });
  }

  for (const [leaves, hosts] of [[12, 4], [1, 48], [6, 8], [24, 2], [1, 8], [8, 1]] as const) {
    it(`fills the room with ${hosts} hosts below each of ${leaves} switches, and can be read`, () => {
      const room = { w: 1000, h: 640 }, shape = rack(leaves, leaves > 1 ? 2 : 0, hosts);
      const layout = layOut(shape, room), { width, height } = layout;
      assertClear(shape, layout);
      const scale = Math.min(room.w / width, room.h / height);
      assert.ok(13 * scale >= 7.5, `letters of ${13 * scale} px`);
      const share = width * height * scale ** 2 / (room.w * room.h);
      assert.ok(share > 0.66, `${Math.round(100 * share)} % of the room: ${width} × ${height}`);
    });
  }

  for (const [name, [shape, rows]] of Object.entries(fabrics)) {
    it(`stands ${name} in ${rows} rows, no device over another and no cable over a third`, () => {
      const layout = layOut(shape);
      assert.equal(new Set(layout.switches.map(({ box }) => box.y)).size, rows);
      assertClear(shape, layout);
    });
  }
});
