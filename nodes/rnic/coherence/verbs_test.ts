/**
 * Ordinary RDMA on lines of a shared region (decisions 6, 15): `b`, a far card, also has a queue pair to `a`, and the
 * region's memory by an rkey. What its cores have in the remote cache is recalled and invalidated by its own verbs.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import type { SendWqe } from "../../../fabric/wire/host_bus/wqe.ts";
import { newHostLine } from "../../../fabric/coherence/host_agent_table.ts";
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import { EVERY_ACCESS } from "../testing/pair_testing.ts";
import { type RigMr, type RigQp, rnicPlan } from "../testing/rig_parts_testing.ts";
import type { RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { regionPlan, RegionRig } from "../testing/region_testing.ts";

interface Setup {
  readonly r: RegionRig;
  readonly qp: RigQp;
  /** Memory of the requester, `b`. */
  readonly mr: RigMr;
  readonly rkey: number;
}

function setup(timing: Partial<RnicPlan["timing"]> = {}): Setup {
  const r = new RegionRig(regionPlan({ leasePs: 5000 * PS_PER_US }), {
    plans: {
      a: {
        attach: { bitsPerSecond: 126e9 },
        timing: { ...rnicPlan("a").timing, ...timing },
      },
    },
  });
  r.register();
  const mr = r.rig.register(r.rig.b, { length: 4096, access: EVERY_ACCESS });
  const { b: qp } = r.rig.connect({ attributes: { accessFlags: EVERY_ACCESS } });
  return { r, qp, mr, rkey: r.registerMemory() };
}

/** Posts work of `b` at `line` of the region, and waits for its completion. */
function verb(
  { r, qp, mr, rkey }: Setup,
  opcode: SendWqe["opcode"],
  { line, length, ...more }: { line: number; length: number } & Partial<SendWqe>,
): string {
  const sges = length === 0 ? [] : [{ address: mr.va, length, lkey: mr.key }];
  const remote = { va: BigInt(r.region.address + line * 64), rkey };
  r.rig.send(r.rig.b, qp, { opcode, sges, remote, ...more });
  const cqes: string[] = [];
  r.rig.run(() => {
    cqes.push(...r.rig.poll(r.rig.b, qp.sendCq).map(({ status }) => status));
    return cqes.length > 0;
  });
  return cqes[0]!;
}

function local({ r, mr }: Setup, at: number): number {
  return r.rig.bytes(r.rig.b, mr, at, 1)[0]!;
}

describe("verbs on a shared region", () => {
  it("decision 6: a READ recalls what a far core has dirty, and brings it", () => {
    const s = setup();
    for (const line of [1, 2, 3]) s.r.store("far", line, line + 10);
    s.r.store("home", 4, 14);
    assert.equal(verb(s, "read", { line: 1, length: 256 }), "SUCCESS");
    assert.deepEqual([0, 64, 128, 192].map((at) => local(s, at)), [11, 12, 13, 14]);
    // It leaves nothing in the local cache (decision 4).
    assert.equal(s.r.counter("a", "localCacheLines"), 0);
  });

  it("decision 9: READs of a line take all of the card's DMA reads, and a far store among them has the line all the same", () => {
    const s = setup({ dmaReadsMax: 2 });
    const { r, qp, mr } = s;
    const sges = [{ address: mr.va, length: 64, lkey: mr.key }];
    const remote = { va: BigInt(r.region.address), rkey: s.rkey };
    const posted = 48, cqes: string[] = [];
    for (let at = 0; at < posted; at++) {
      r.rig.enqueueSend(r.rig.b, qp, { opcode: "read", sges, remote });
    }
    r.rig.ring(r.rig.b, qp.sq);
    const poll = () => cqes.push(...r.rig.poll(r.rig.b, qp.sendCq).map(({ status }) => status));
    r.rig.run(() => poll() > 4);
    const began = r.rig.now;
    r.store("far", 0, 7);
    poll();
    assert.ok(cqes.length < posted, "READs are under way when the store is done");
    assert.ok(r.rig.now - began < 50 * PS_PER_US, `the store took ${r.rig.now - began} ps`);
    r.rig.run(() => poll() === posted);
    assert.deepEqual(new Set(cqes), new Set(["SUCCESS"]));
    assert.equal(local(s, 0), 7);
  });

  it("decision 6: a WRITE invalidates all copies; the next load of either side sees it, and keeps the other bytes", () => {
    const s = setup();
    s.r.load("far", 1);
    s.r.load("home", 1);
    s.r.store("far", 2, 9);
    s.r.rig.fill(s.r.rig.b, s.mr, () => 0x55);
    assert.equal(verb(s, "write", { line: 1, length: 65 }), "SUCCESS");
    s.r.rig.runFor(20 * PS_PER_US);
    assert.ok(s.r.gone.includes(1));
    assert.equal(s.r.load("far", 1), 0x55);
    assert.equal(s.r.load("home", 2), 0x55);
    const { data } = s.r.access("far", "load", 2);
    assert.deepEqual([...data!.subarray(0, 3)], [0x55, 0, 0]);
  });

  it("decision 5: what is written behind a region's line is not seen before it", () => {
    const s = setup();
    s.r.store("far", 0, 1);
    // The recall takes a while: the flag outside of the region waits for it.
    const flag = s.r.rig.register(s.r.rig.a, { length: 64, access: EVERY_ACCESS });
    s.r.rig.fill(s.r.rig.b, s.mr, () => 7);
    const sges = [{ address: s.mr.va, length: 8, lkey: s.mr.key }];
    const line = { va: BigInt(s.r.region.address), rkey: s.rkey };
    s.r.rig.enqueueSend(s.r.rig.b, s.qp, { opcode: "write", sges, remote: line });
    const remote = { va: BigInt(flag.va), rkey: flag.key };
    s.r.rig.send(s.r.rig.b, s.qp, { opcode: "write", sges, remote });
    s.r.rig.run(() => s.r.rig.bytes(s.r.rig.a, flag, 0, 1)[0] === 7);
    assert.equal(s.r.memory(0), 7);
  });

  it("decisions 5, 12: later writes wait until memory has the line, and the line for what is before it", () => {
    const s = setup();
    const { r, qp, mr } = s;
    const flag = r.rig.register(r.rig.a, { length: 64, access: EVERY_ACCESS });
    r.rig.fill(r.rig.b, mr, () => 7);
    const sges = [{ address: mr.va, length: 8, lkey: mr.key }];
    const line = { va: BigInt(r.region.address), rkey: s.rkey };
    const other = { va: BigInt(flag.va), rkey: flag.key };
    r.holds = (message) => message.kind === "line" && message.op === "WbMtoI";
    r.rig.enqueueSend(r.rig.b, qp, { opcode: "write", sges, remote: line });
    r.rig.send(r.rig.b, qp, { opcode: "write", sges, remote: other });
    r.rig.runFor(50 * PS_PER_US);
    assert.equal(r.rig.bytes(r.rig.a, flag, 0, 1)[0], 0);
    r.release();
    r.rig.runFor(50 * PS_PER_US);
    assert.equal(r.rig.bytes(r.rig.a, flag, 0, 1)[0], 7);
    assert.equal(r.memory(0), 7);

    r.store("home", 0, 1);
    r.holds = (message) => message.kind === "coherent" && /^WbMto/.test(message.op);
    r.rig.enqueueSend(r.rig.b, qp, { opcode: "write", sges, remote: other });
    r.rig.send(r.rig.b, qp, { opcode: "write", sges, remote: line });
    r.rig.runFor(50 * PS_PER_US);
    assert.equal(r.load("home", 0), 1);
    r.release();
    r.rig.runFor(50 * PS_PER_US);
    assert.equal(r.load("home", 0), 7);
  });

  it("decision 15: atomics are done where the line is, with those of the cores of both sides", () => {
    const s = setup();
    const add = { kind: "add", offset: 0, operand: 1n } as const;
    const found: number[] = [];
    for (let i = 0; i < 4; i++) {
      s.r.access("far", "store", 0, add);
      const status = verb(s, "fetch-add", {
        line: 0,
        length: 8,
        atomic: { swapAdd: 1n, compare: 0n },
      });
      assert.equal(status, "SUCCESS");
      found.push(local(s, 0));
      s.r.access("home", "store", 0, add);
    }
    assert.deepEqual(found, [1, 4, 7, 10]);
    assert.equal(s.r.load("far", 0), 12);
    const swap = { swapAdd: 99n, compare: 12n };
    assert.equal(verb(s, "compare-swap", { line: 0, length: 8, atomic: swap }), "SUCCESS");
    assert.equal(s.r.load("home", 0), 99);
  });

  it("decision 13: a READ of a line that is lost is refused, and a WRITE of the whole line clears it", () => {
    for (const opcode of ["read", "write"] as const) {
      const s = setup();
      s.r.agent.lines.set(s.r.region.address / 64, newHostLine(LOST));
      assert.equal(s.r.load("home", 0), "lost");
      const status = verb(s, opcode, { line: 0, length: 64 });
      assert.equal(status, opcode === "write" ? "SUCCESS" : "REM_OP_ERR");
      s.r.rig.runFor(20 * PS_PER_US);
      assert.equal(s.r.load("home", 0), opcode === "write" ? 0 : "lost");
    }
  });
});
