import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Topology } from "../../api/rack.ts";
import { type Box, layOut } from "./layout.ts";

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
        ...placed.flatMap(({ box, cardBox }) => [box, cardBox]),
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
      const card = hosts.find(({ card }) => card === a)!.cardBox, leaf = switches[0]!.box;
      assert.equal(points[0]![1], card.y);
      assert.equal(points.at(-1)![1], leaf.y + leaf.h);
    }
  });
});
