/** ECMP through fabrics of several tiers: the plan's routes and each switch's own hash together. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { macOf, type Network, networkOf } from "../../fabric/rack/assembly/network.ts";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import { makeBth } from "../../fabric/wire/roce/packet_testing.ts";
import { encodePacket } from "../../fabric/wire/roce/packet.ts";
import { choosePort, createMultipath } from "./ecmp.ts";

const HOSTS = Array.from({ length: 16 }, (_, i) => ({ name: `h${i + 1}` }));
const TREE = networkOf({
  topology: "fat-tree",
  fatTree: { k: 4 },
  latencyPs: 1,
  bitsPerSecond: 1,
  convergencePs: 1,
}, HOSTS);

/** The ways of a network, as one run's seed has them. */
class Ways {
  readonly #ends = new Map<string, { readonly node: string; readonly port: number }>();
  readonly #tables;

  constructor({ switches, cables }: Network, seed: number) {
    for (const { a, b } of cables) {
      this.#ends.set(`${a.node} ${a.port}`, b).set(`${b.node} ${b.port}`, a);
    }
    const rest = { mode: "cut-through", latencyPs: 1, queueBytes: 1 } as const;
    this.#tables = new Map(switches.map((shape) => {
      const plan: SwitchPlan = { ...rest, ...shape };
      const direct = new Map(shape.forwarding);
      return [shape.name, { direct, multipath: createMultipath(shape.name, plan, { seed })! }];
    }));
  }

  /** The switches on the way of a flow's packets. */
  of(flow: { from: number; to: number; port: number; psn?: number }): string[] {
    const bytes = packet(flow);
    const passed: string[] = [];
    let at = this.#ends.get(`${HOSTS[flow.from]!.name}-rnic 1`)!;
    for (let table = this.#tables.get(at.node); table !== undefined;) {
      passed.push(at.node);
      assert.ok(passed.length <= 5, `${passed.join(" ")}: no shortest way`);
      const port = table.direct.get(macOf(flow.to)) ??
        choosePort(table.multipath, bytes, () => true)!;
      at = this.#ends.get(`${at.node} ${port}`)!;
      table = this.#tables.get(at.node);
    }
    assert.equal(at.node, `${HOSTS[flow.to]!.name}-rnic`);
    return passed;
  }
}

function packet({ from, to, port, psn = 0 }: {
  readonly from: number;
  readonly to: number;
  readonly port: number;
  readonly psn?: number;
}): Uint8Array {
  return encodePacket({
    destinationMac: macOf(to),
    sourceMac: macOf(from),
    sourceAddress: 0x0a00_0001 + from,
    destinationAddress: 0x0a00_0001 + to,
    dscp: 26,
    ecn: 2,
    ttl: 64,
    identification: psn,
    udpSourcePort: port,
    bth: makeBth({ opcode: OPCODE["RC RDMA WRITE MIDDLE"], destQpn: 17, psn, ackReq: false }),
    payload: new Uint8Array(64),
  });
}

describe("ECMP in a fat tree", () => {
  const ways = new Ways(TREE, 7);
  const ports = Array.from({ length: 1024 }, (_, i) => 0xc000 + i);

  it("brings every pair together over the shortest ways: 1, 3 or 5 switches", () => {
    for (const from of HOSTS.keys()) {
      for (const to of HOSTS.keys()) {
        if (from === to) continue;
        const lengths = ports.slice(0, 8).map((port) => ways.of({ from, to, port }).length);
        const near = from % 8 === to % 8
          ? 1
          : Math.floor(from % 8 / 2) === Math.floor(to % 8 / 2)
          ? 3
          : 5;
        assert.deepEqual(new Set(lengths), new Set([near]));
      }
    }
  });

  it("spreads the flows of two hosts over all cores, about evenly: tiers choose apart", () => {
    const counts = new Map<string, number>();
    for (const port of ports) {
      const core = ways.of({ from: 0, to: 5, port })[2]!;
      counts.set(core, (counts.get(core) ?? 0) + 1);
    }
    assert.deepEqual([...counts.keys()].toSorted(), ["core1", "core2", "core3", "core4"]);
    for (const count of counts.values()) assert.ok(count > 200 && count < 312, String(count));
  });

  it("keeps all packets of a flow on one way, and has the same ways for the same seed", () => {
    const again = new Ways(TREE, 7), other = new Ways(TREE, 8);
    let differ = 0;
    for (const port of ports.slice(0, 64)) {
      const flow = { from: 3, to: 12, port };
      const way = ways.of(flow);
      for (let psn = 1; psn < 20; psn++) assert.deepEqual(ways.of({ ...flow, psn }), way);
      assert.deepEqual(again.of(flow), way);
      if (other.of(flow).join() !== way.join()) differ++;
    }
    assert.ok(differ > 32, `${differ} of 64 flows go another way with another seed`);
  });
});
