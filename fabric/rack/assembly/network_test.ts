import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fatTreeSizes, macOf, type Network, networkOf, rnicsOf, switchNames } from "./network.ts";

const HOSTS = ["a", "b", "c", "d", "e"].map((name) => ({ name }));
const KIND = { latencyPs: 25, bitsPerSecond: 100, convergencePs: 5 };
const SHAPE = { leaves: 2, spines: 3, cables: 2 };
const LEAF_SPINE = { ...KIND, topology: "leaf-spine", leafSpine: SHAPE } as const;
const FABRIC = networkOf(LEAF_SPINE, HOSTS);
const STAR = { ...KIND, topology: "star" } as const;

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
    const own = networkOf(LEAF_SPINE, [
      { name: "a" },
      { name: "b", leaf: 1 },
      { name: "c", leaf: 1 },
    ]);
    assert.deepEqual(["a", "b", "c"].map((host) => leafOf(own, host)), ["leaf2", "leaf1", "leaf1"]);
  });

  it("joins each leaf to each spine by the cables asked for, and uses every port once", () => {
    assert.deepEqual(switchNames(LEAF_SPINE), [
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
      assert.deepEqual(flooded(networkOf(STAR, HOSTS), `${name}-rnic`), others);
    }
  });
});

describe("networkOf hosts with several RNICs", () => {
  const rails = [
    { name: "a", nics: 2, leaf: [1, 2] },
    { name: "b" },
    { name: "c", nics: 3, leaf: 1 },
  ];
  const portOf = (network: Network, rnic: string) => {
    const { node, port } = farEnd(network, rnic, 1)!;
    return `${node} ${port}`;
  };

  it("numbers the first ones as hosts with one RNIC, and the further ones behind all", () => {
    const names = rnicsOf(rails).map(({ name }) => name);
    assert.deepEqual(names, ["a-rnic", "b-rnic", "c-rnic", "a-rnic2", "c-rnic2", "c-rnic3"]);
    const star = networkOf(STAR, rails);
    assert.deepEqual(star.switches[0]!.forwarding, names.map((_, i) => [macOf(i), i]));
    assert.deepEqual(names.map((name) => portOf(star, name)), names.map((_, i) => `tor ${i}`));
  });

  it("puts each on the leaf that it names, all of a host on one, others where the fewest are", () => {
    const network = networkOf(LEAF_SPINE, rails);
    const leaves = rnicsOf(rails).map(({ name }) => farEnd(network, name, 1)!.node);
    assert.deepEqual(leaves, ["leaf1", "leaf2", "leaf1", "leaf2", "leaf1", "leaf1"]);
    for (const [i, { name }] of rnicsOf(rails).entries()) {
      for (const start of [farEnd(network, "a-rnic2", 1)!, farEnd(network, "b-rnic", 1)!]) {
        assert.deepEqual([...new Set(deliveredTo(network, start, macOf(i)))], [name]);
      }
    }
  });

  it("takes listed cables of RNICs by their names, of the first one by its host's as well", () => {
    const listed = {
      switches: ["s", "t"],
      cables: [
        { ends: [{ name: "a" }, { name: "s" }], item: 0 },
        { ends: [{ name: "t", port: 3 }, { name: "a-rnic2" }], item: 1 },
        { ends: [{ name: "b-rnic" }, { name: "t" }], item: 2 },
        { ends: [{ name: "s" }, { name: "t" }], item: 3 },
      ],
    } as const;
    const options = { ...KIND, topology: "explicit", listed } as const;
    const network = networkOf(options, [{ name: "a", nics: 2 }, { name: "b" }]);
    const places = ["a-rnic", "a-rnic2", "b-rnic"].map((name) => portOf(network, name));
    assert.deepEqual(places, ["s 0", "t 3", "t 0"]);
  });
});

describe("networkOf a fat tree", () => {
  const K = 4;
  const options = {
    ...KIND,
    topology: "fat-tree",
    fatTree: { k: K },
    uplinks: { latencyPs: 100, bitsPerSecond: 400 },
  } as const;
  const hosts = Array.from({ length: 16 }, (_, i) => ({ name: `h${i + 1}` }));
  const network = networkOf(options, hosts);
  const podOf = (name: string) => Math.ceil(Number(name.replace(/\D+/, "")) / (K / 2));
  const reached = (node: string) =>
    Array.from({ length: K }, (_, port) => farEnd(network, node, port)!.node);

  it("has k pods of k/2 edge and k/2 aggregation switches, (k/2)² cores, k³/4 hosts", () => {
    assert.deepEqual(fatTreeSizes({ k: K }), { half: 2, edges: 8, cores: 4, hosts: 16 });
    assert.deepEqual(network.switches.map(({ name }) => name), switchNames(options));
    assert.equal(network.switches.length, 5 * K * K / 4);
    assert.ok(network.switches.every(({ ports }) => ports === K));
    assert.equal(network.cables.length, 3 * 16);
  });

  it("joins each edge to its pod's aggregation switches, and each core to one of every pod", () => {
    for (let edge = 1; edge <= 8; edge++) {
      const up = reached(`edge${edge}`).filter((name) => name.startsWith("agg"));
      assert.equal(new Set(up).size, K / 2);
      assert.ok(up.every((name) => podOf(name) === podOf(`edge${edge}`)));
    }
    for (let core = 1; core <= 4; core++) {
      assert.deepEqual(reached(`core${core}`).map(podOf), [1, 2, 3, 4], "port i leads to pod i");
    }
    assert.deepEqual(reached("agg2").slice(2), ["core3", "core4"], "strides of k/2");
  });

  it("brings a frame to its addressee by (k/2)² ways between pods, and k/2 within one", () => {
    for (const [to, { name }] of hosts.entries()) {
      for (const { name: from } of hosts) {
        if (from === name) continue;
        const start = farEnd(network, `${from}-rnic`, 1)!;
        const end = farEnd(network, `${name}-rnic`, 1)!;
        const ends = deliveredTo(network, start, macOf(to));
        assert.deepEqual(new Set(ends), new Set([`${name}-rnic`]));
        const ways = start.node === end.node ? 1 : podOf(start.node) === podOf(end.node) ? 2 : 4;
        assert.equal(ends.length, ways, `${from} to ${name}`);
      }
    }
  });

  it("brings a frame for all to every other host once", () => {
    const all = hosts.map(({ name }) => `${name}-rnic`);
    for (const { name } of hosts) {
      const others = all.filter((card) => card !== `${name}-rnic`).sort();
      assert.deepEqual(flooded(network, `${name}-rnic`), others);
    }
  });

  it("gives uplinks their own rate and latency", () => {
    for (const { a, latencyPs, bitsPerSecond } of network.cables) {
      const expected = a.node.endsWith("-rnic") ? [25, 100] : [100, 400];
      assert.deepEqual([latencyPs, bitsPerSecond], expected);
    }
  });

  it("spreads fewer hosts over the edge switches, and puts one on that which it names", () => {
    const few = networkOf(options, [{ name: "a" }, { name: "b", leaf: 1 }, { name: "c" }]);
    const edges = ["a", "b", "c"].map((host) => farEnd(few, `${host}-rnic`, 1)!.node);
    assert.deepEqual(edges, ["edge2", "edge1", "edge3"]);
    assert.deepEqual(flooded(few, "a-rnic"), ["b-rnic", "c-rnic"]);
  });
});

describe("networkOf listed cables", () => {
  const end = (name: string, port?: number) => ({ name, ...(port !== undefined && { port }) });
  const listed = {
    switches: ["s1", "s2"],
    cables: [
      { ends: [end("s1"), end("a")], item: 0 },
      { ends: [end("b"), end("s2", 0)], item: 1, bitsPerSecond: 40 },
      { ends: [end("s2"), end("s1", 3)], item: 2 },
      { ends: [end("s1"), end("s2")], item: 3, latencyPs: 7 },
    ],
  } as const;
  const options = {
    ...KIND,
    topology: "explicit",
    listed,
    uplinks: { latencyPs: 100, bitsPerSecond: 400 },
  } as const;
  const network = networkOf(options, [{ name: "a" }, { name: "b" }]);

  it("takes given ports, and the lowest free one for others; a card is end a", () => {
    const ends = network.cables.map(({ a, b }) => `${a.node}:${a.port} ${b.node}:${b.port}`);
    assert.deepEqual(ends, ["a-rnic:1 s1:0", "b-rnic:1 s2:0", "s2:1 s1:3", "s1:1 s2:2"]);
    assert.deepEqual(network.switches.map(({ ports }) => ports), [4, 3]);
  });

  it("takes a cable's own rate and latency before those of its kind", () => {
    const kinds = network.cables.map(({ latencyPs, bitsPerSecond }) => [latencyPs, bitsPerSecond]);
    assert.deepEqual(kinds, [[25, 100], [25, 40], [100, 400], [7, 400]]);
  });
});
