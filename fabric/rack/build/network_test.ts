import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { macOf, type Network, networkOf, switchNames } from "./network.ts";

const HOSTS = ["a", "b", "c", "d", "e"].map((name) => ({ name }));
const SHAPE = { leaves: 2, spines: 3, cables: 2, convergencePs: 5 };
const FABRIC = networkOf({ topology: "leaf-spine", leafSpine: SHAPE }, HOSTS);

function farEnd(network: Network, node: string, port: number) {
  for (const { a, b } of network.cables) {
    if (a.node === node && a.port === port) return b;
    if (b.node === node && b.port === port) return a;
  }
  return undefined;
}

/** Where copies of a frame for all end, that host `from` sends. */
function flooded(network: Network, from: string): string[] {
  const reached: string[] = [];
  const todo = [farEnd(network, from, 1)!];
  for (let steps = 0; todo.length > 0; steps++) {
    assert.ok(steps < 1_000, "a loop");
    const at = todo.pop()!;
    const shape = network.switches.find(({ name }) => name === at.node);
    if (shape === undefined) {
      reached.push(at.node);
      continue;
    }
    const ports = shape.flood ?? Array.from({ length: shape.ports }, (_, port) => port);
    for (const port of ports) {
      if (port !== at.port) todo.push(farEnd(network, at.node, port)!);
    }
  }
  return reached.sort();
}

/** All nodes that a frame from `at` to a host can come to, by any way that a switch may choose. */
function deliveredTo(network: Network, at: { node: string; port: number }, mac: number): string[] {
  const shape = network.switches.find(({ name }) => name === at.node);
  if (shape === undefined) return [at.node];
  const direct = shape.forwarding.find(([to]) => to === mac);
  const ports = direct !== undefined
    ? [direct[1]]
    : shape.multipath?.find(([macs]) => macs.includes(mac))?.[1] ?? [];
  assert.ok(ports.length > 0, `${at.node} knows no way to ${mac}`);
  return ports.flatMap((port) => deliveredTo(network, farEnd(network, at.node, port)!, mac));
}

describe("networkOf", () => {
  it("spreads hosts over the leaves, and puts one on the leaf that it names", () => {
    const leafOf = (network: Network, host: string) => farEnd(network, `${host}-rnic`, 1)!.node;
    const leaves = HOSTS.map(({ name }) => leafOf(FABRIC, name));
    assert.deepEqual(leaves, ["leaf1", "leaf2", "leaf1", "leaf2", "leaf1"]);
    const own = networkOf({ topology: "leaf-spine", leafSpine: SHAPE }, [
      { name: "a" },
      { name: "b", leaf: 1 },
      { name: "c", leaf: 1 },
    ]);
    assert.deepEqual(["a", "b", "c"].map((host) => leafOf(own, host)), ["leaf2", "leaf1", "leaf1"]);
  });

  it("joins each leaf to each spine by the cables asked for, and uses every port once", () => {
    assert.deepEqual(switchNames({ topology: "leaf-spine", leafSpine: SHAPE }), [
      ...["leaf1", "leaf2", "spine1", "spine2", "spine3"],
    ]);
    assert.equal(FABRIC.cables.length, HOSTS.length + 2 * 3 * 2);
    for (const { name, ports } of FABRIC.switches) {
      for (let port = 0; port < ports; port++) {
        assert.notEqual(farEnd(FABRIC, name, port), undefined, `${name} port ${port}`);
      }
    }
    const ends = FABRIC.cables.flatMap((
      { a, b },
    ) => [`${a.node} ${a.port}`, `${b.node} ${b.port}`]);
    assert.equal(new Set(ends).size, ends.length);
  });

  it("brings a frame to its addressee by every way that a switch may choose", () => {
    for (const [to, host] of HOSTS.entries()) {
      for (const from of HOSTS) {
        if (from === host) continue;
        const start = farEnd(FABRIC, `${from.name}-rnic`, 1)!;
        const ends = deliveredTo(FABRIC, start, macOf(to));
        assert.deepEqual(new Set(ends), new Set([`${host.name}-rnic`]));
        const ways = start.node === farEnd(FABRIC, `${host.name}-rnic`, 1)!.node ? 1 : 3 * 2 * 2;
        assert.equal(ends.length, ways);
      }
    }
  });

  it("brings a frame for all to every other host once, over a tree", () => {
    for (const { name } of HOSTS) {
      const others = HOSTS.filter((other) => other.name !== name).map((o) => `${o.name}-rnic`);
      assert.deepEqual(flooded(FABRIC, `${name}-rnic`), others);
      assert.deepEqual(flooded(networkOf({ topology: "star" }, HOSTS), `${name}-rnic`), others);
    }
  });
});
