import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { seeded } from "../../base/property_testing.ts";
import { rnicName } from "../plan/names.ts";
import { macOf, type Network, networkOf } from "./network.ts";

/** Switches by number, with at least one way between any two; cables may be parallel. */
interface Drawn {
  readonly switches: number;
  readonly trunks: readonly (readonly [number, number])[];
  /** The switch of each host. */
  readonly homes: readonly number[];
}

const SWITCHES_MOST = 8;
const place = fc.nat(1_000);
const drawn: fc.Arbitrary<Drawn> = fc.record({
  switches: fc.integer({ min: 1, max: SWITCHES_MOST }),
  parents: fc.array(place, { minLength: SWITCHES_MOST, maxLength: SWITCHES_MOST }),
  more: fc.array(fc.tuple(place, place), { maxLength: 12 }),
  hosts: fc.array(place, { minLength: 1, maxLength: 8 }),
}).map(({ switches, parents, more, hosts }) => ({
  switches,
  trunks: [
    ...Array.from({ length: switches - 1 }, (_, i) => [i + 1, parents[i]! % (i + 1)] as const),
    ...more.map(([x, y]) => [x % switches, y % switches] as const).filter(([x, y]) => x !== y),
  ],
  homes: hosts.map((each) => each % switches),
}));

const hostName = (host: number) => `h${host}`;
const nameOf = (each: number) => `s${each}`;

function built({ switches, trunks, homes }: Drawn): Network {
  const joined = [
    ...homes.map((home, host) => [hostName(host), nameOf(home)] as const),
    ...trunks.map(([x, y]) => [nameOf(x), nameOf(y)] as const),
  ];
  return networkOf({
    topology: "explicit",
    listed: {
      switches: Array.from({ length: switches }, (_, i) => nameOf(i)),
      cables: joined.map(([x, y], item) => ({ ends: [{ name: x }, { name: y }], item })),
    },
    latencyPs: 1,
    bitsPerSecond: 1,
    convergencePs: 1,
  }, homes.map((_, host) => ({ name: hostName(host) })));
}

function farEnd({ cables }: Network, node: string, port: number) {
  for (const { a, b } of cables) {
    if (a.node === node && a.port === port) return b;
    if (b.node === node && b.port === port) return a;
  }
  return assert.fail(`${node} has no cable at port ${port}`);
}

/** Cables between any two switches, by Floyd and Warshall. */
function distances({ switches, trunks }: Drawn): number[][] {
  const all = Array.from(
    { length: switches },
    (_, x) => Array.from({ length: switches }, (_, y) => x === y ? 0 : Infinity),
  );
  for (const [x, y] of trunks) all[x]![y] = all[y]![x] = 1;
  for (let by = 0; by < switches; by++) {
    for (const row of all) {
      for (let to = 0; to < switches; to++) {
        row[to] = Math.min(row[to]!, row[by]! + all[by]![to]!);
      }
    }
  }
  return all;
}

describe("routed", () => {
  it("leads over all shortest ways, and over no others, in any network", () => {
    fc.assert(
      fc.property(drawn, (shape) => {
        const network = built(shape), hops = distances(shape);
        for (const [at, { name, forwarding, multipath = [] }] of network.switches.entries()) {
          for (const [host, home] of shape.homes.entries()) {
            const mac = macOf(host);
            const own = forwarding.filter(([to]) => to === mac).map(([, port]) => port);
            const ways = multipath.filter(([macs]) => macs.includes(mac));
            if (home === at) {
              assert.deepEqual(ways, []);
              assert.deepEqual(
                own.map((port) => farEnd(network, name, port).node),
                [rnicName(hostName(host))],
              );
              continue;
            }
            assert.deepEqual(own, []);
            assert.equal(ways.length, 1);
            const expected = shape.trunks
              .filter((ends) => ends.includes(at))
              .map(([x, y]) => x === at ? y : x)
              .filter((to) => hops[to]![home]! === hops[at]![home]! - 1);
            const found = ways[0]![1].map((port) => farEnd(network, name, port).node);
            assert.deepEqual(found.toSorted(), expected.map(nameOf).toSorted());
          }
        }
      }),
      seeded(),
    );
  });

  it("names every cable between switches, also one that is on no shortest way", () => {
    fc.assert(
      fc.property(drawn, (shape) => {
        for (const { name, multipath = [] } of built(shape).switches) {
          const trunks = shape.trunks.flat().filter((each) => nameOf(each) === name).length;
          assert.equal(new Set(multipath.flatMap(([, ports]) => ports)).size, trunks);
        }
      }),
      seeded(),
    );
  });

  it("floods over a tree that reaches every other host once", () => {
    fc.assert(
      fc.property(drawn, (shape) => {
        const network = built(shape);
        const byName = new Map(network.switches.map((each) => [each.name, each]));
        const cards = shape.homes.map((_, host) => rnicName(hostName(host)));
        for (const from of cards) {
          const reached: string[] = [], open = [farEnd(network, from, 1)];
          for (const { node, port } of open) {
            assert.ok(open.length <= network.cables.length, "a loop");
            const its = byName.get(node);
            if (its === undefined) {
              reached.push(node);
              continue;
            }
            const ports = its.flood ?? Array.from({ length: its.ports }, (_, i) => i);
            open.push(...ports.filter((to) => to !== port).map((to) => farEnd(network, node, to)));
          }
          assert.deepEqual(reached.toSorted(), cards.filter((card) => card !== from).toSorted());
        }
      }),
      seeded(),
    );
  });
});
