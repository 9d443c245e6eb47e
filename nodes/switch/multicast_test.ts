import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Frame, Input, Node, Outputs } from "../../fabric/node.ts";
import type { SwitchPlan } from "../../fabric/rack/plan/plan.ts";
import { decodeReport, encodeReport } from "../../fabric/wire/roce/igmp.ts";
import { allocate } from "../../fabric/base/slab.ts";
import { createSwitch } from "./switch.ts";

const GROUP = 0xef01_0203;

function planOf(change: Partial<SwitchPlan> = {}): SwitchPlan {
  return {
    ports: 4,
    mode: "cut-through",
    latencyPs: 150_000,
    queueBytes: 1 << 20,
    forwarding: [],
    ...change,
  };
}

/** A switch whose frames leave at once; what it sent since it was last asked. */
class Bench {
  readonly node: Node;
  #sent: { port: number; bytes: Uint8Array<ArrayBuffer> }[] = [];
  readonly #out: Outputs = {
    tracing: false,
    trace: () => {},
    report: () => {},
    send: (port, message, departAt) => {
      this.#sent.push({ port, bytes: (message as Frame).bytes });
      return departAt;
    },
  };
  #now = 0;

  constructor(plan: SwitchPlan) {
    this.node = createSwitch("tor", plan, { seed: 1 });
    this.#step({ kind: "power" });
  }

  #step(input: Input): void {
    this.#now += 1_000_000;
    this.node.step(this.#now, input, this.#out);
  }

  arrive(port: number, bytes: Uint8Array<ArrayBuffer>): void {
    this.#step({ kind: "message", port, message: { kind: "frame", bytes }, tailPs: 0 });
  }

  link(port: number, up: boolean): void {
    this.#step({ kind: "link", port, up });
  }

  /** Ports of the frames sent since. */
  ports(): number[] {
    return this.taken().map(({ port }) => port);
  }

  taken(): { port: number; bytes: Uint8Array<ArrayBuffer> }[] {
    const sent = this.#sent;
    this.#sent = [];
    return sent;
  }
}

function frame(): Uint8Array<ArrayBuffer> {
  const bytes = allocate(60);
  bytes.set([0x01, 0x00, 0x5e, 1, 2, 3], 0);
  bytes.set([0x08, 0x00, 0x45], 12);
  bytes.set([17], 23);
  bytes.set([0xef, 1, 2, 3], 30);
  return bytes;
}

function report(member: boolean): Uint8Array<ArrayBuffer> {
  return encodeReport({ mac: 0x0200_0000_0001, address: 0x0a00_0001 }, [{ group: GROUP, member }]);
}

describe("createSwitch: multicast", () => {
  it("sends a group to its reported members only; reports are not forwarded", () => {
    const bench = new Bench(planOf());
    bench.arrive(0, frame());
    assert.deepEqual(bench.ports(), [1, 2, 3]);
    bench.arrive(2, report(true));
    assert.deepEqual(bench.ports(), []);
    bench.arrive(0, frame());
    assert.deepEqual(bench.ports(), [2]);
    bench.arrive(2, report(false));
    bench.arrive(0, frame());
    assert.deepEqual(bench.ports(), [1, 2, 3]);
    assert.equal(bench.node.statistics()["snoopedReports"], 2);
  });

  it("a port whose link is down has no members; the group then has none, and is flooded", () => {
    const bench = new Bench(planOf());
    bench.arrive(1, report(true));
    bench.link(1, false);
    bench.arrive(0, frame());
    assert.deepEqual(bench.ports(), [2, 3]);
    bench.link(1, true);
    bench.arrive(1, report(true));
    bench.arrive(0, frame());
    assert.deepEqual(bench.ports(), [1]);
  });

  it("reports to other switches itself, also when the cable to one comes up again", () => {
    const bench = new Bench(planOf({ multipath: [[[], [3]]] }));
    bench.arrive(0, report(true));
    const sent = bench.taken();
    assert.deepEqual(sent.map(({ port }) => port), [3, 3]);
    assert.deepEqual(decodeReport(sent[0]!.bytes), [{ group: GROUP, member: true }]);
    bench.link(3, false);
    bench.link(3, true);
    assert.deepEqual(bench.ports(), [3, 3]);
  });

  it("a cable outside the tree carries no group frame in or out", () => {
    const bench = new Bench(planOf({ multipath: [[[], [2, 3]]], flood: [0, 1, 2] }));
    bench.arrive(0, frame());
    assert.deepEqual(bench.ports(), [1, 2]);
    bench.arrive(3, frame());
    assert.deepEqual(bench.ports(), []);
  });
});
