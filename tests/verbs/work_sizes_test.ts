/** Work requests of many elements or none, queues of no work requests, null regions, by a program's verbs. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { MAX_SGE } from "../../fabric/wire/host_bus/wqe.ts";
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import type { VerbError } from "../../nodes/host/verbs/objects.ts";
import { alone } from "../support/alone.ts";
import { bringUp, connected, rcOptions, run, statuses } from "../support/two_programs.ts";

function errnoOf(answer: unknown): string | undefined {
  return (answer as VerbError | undefined)?.errno;
}

describe("a work request of 30 elements", () => {
  it("gathers and scatters all of them: WRITE, READ, SEND, receive, shared receive", () => {
    const each = 40;
    connected(function* (context, { pd, mr }, table) {
      const { cpu, device } = context;
      const v = device.verbs;
      const cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const plan = rcOptions(cq);
      const qp = v.must(yield* v.createQp(pd, { ...plan, maxSendSge: MAX_SGE }));
      yield* bringUp(context, table, { qp, side: "left", name: "wide" });
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      // Elements in reverse order, with gaps.
      const places = Array.from({ length: MAX_SGE }, (_, i) => (MAX_SGE - 1 - i) * 100);
      const sges = places.map((at) => v.sge(mr, at, each));
      for (const [i, at] of places.entries()) {
        cpu.store(mr.address + at, new Uint8Array(each).fill(i + 1));
      }
      const { length } = qp.sq.units;
      assert.ok(length >= 8 * 9, "a WQE of 30 elements has nine units");
      for (let round = 0; round < 5; round++) {
        for (const opcode of ["write", "send", "send"] as const) {
          v.must(
            yield* v.postSend(qp, { opcode, sges, ...(opcode === "write" && { remote: to }) }),
          );
          assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
          table.put(`${opcode} ${round}`);
        }
      }
      for (const at of places) cpu.store(mr.address + at, new Uint8Array(each));
      v.must(yield* v.postSend(qp, { opcode: "read", sges, remote: to }));
      assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
      for (const [i, at] of places.entries()) {
        assert.deepEqual(cpu.load(mr.address + at, each), new Uint8Array(each).fill(i + 1));
      }
      // Each element is a DMA read of its own, and the WQE's nine units are fetched.
      const took: number[] = [];
      for (const list of [[v.sge(mr, 0, MAX_SGE * each)], sges]) {
        const before = cpu.now;
        v.must(yield* v.postSend(qp, { opcode: "write", sges: list, remote: to }));
        assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
        took.push(cpu.now - before);
      }
      assert.ok(took[1]! > took[0]!, `${took} ps`);
      const many = [...sges, sges[0]!];
      assert.equal(
        (yield* v.postSend(qp, { opcode: "read", sges: many, remote: to }))?.errno,
        "EINVAL",
      );
      for (const caps of [{ maxSendSge: MAX_SGE + 1 }, { maxRecvSge: MAX_SGE + 1 }]) {
        assert.equal(errnoOf(yield* v.createQp(pd, { ...plan, ...caps })), "EINVAL");
      }
      assert.equal(errnoOf(yield* v.createSrq(pd, { maxWr: 4, maxSge: MAX_SGE + 1 })), "EINVAL");
      table.put("done");
    }, function* (context, { pd, mr }, table) {
      const { cpu, device } = context;
      const v = device.verbs;
      const cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const plan = rcOptions(cq);
      const qp = v.must(yield* v.createQp(pd, { ...plan, maxRecvSge: MAX_SGE }));
      const sges = Array.from({ length: MAX_SGE }, (_, i) => v.sge(mr, 4096 + i * 100, each));
      v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
      for (let i = 0; i < 6; i++) v.must(yield* v.postRecv(qp, { sges }));
      v.must(yield* v.modifyQp(qp, { state: "reset" }));
      const expected = Array.from({ length: MAX_SGE * each }, (_, i) => Math.floor(i / each) + 1);
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      for (let i = 0; i < 8; i++) {
        if (i === 0) yield* bringUp(context, table, { qp, side: "right", name: "wide" });
        v.must(yield* v.postRecv(qp, { sges }));
      }
      let seen = 0;
      while (seen < 10) {
        const got = yield* v.waitCompletion(cq);
        for (const { status, byteLen } of got) {
          assert.deepEqual([status, byteLen], ["SUCCESS", expected.length]);
          if (seen++ < 2) v.must(yield* v.postRecv(qp, { sges }));
        }
        const scattered = sges.flatMap(({ address }) => [...cpu.load(address, each)]);
        assert.deepEqual(scattered, expected);
        for (const { address } of sges) cpu.store(address, new Uint8Array(each));
      }
      yield* table.get(context, "done");
    });
  });

  it("is taken by a shared receive queue, whose strides follow", () => {
    connected(function* (context, { pd, mr }, table) {
      const v = context.device.verbs;
      const cq = v.must(yield* v.createCq(context.device, { entries: 16 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxRecvWr: 0 })));
      yield* bringUp(context, table, { qp, side: "left", name: "shared" });
      context.cpu.store(mr.address, Uint8Array.from({ length: 3000 }, (_, i) => i % 250));
      v.must(yield* v.postSend(qp, { opcode: "send", sges: [v.sge(mr, 0, 3000)] }));
      assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
    }, function* (context, { pd, mr }, table) {
      const { cpu, device } = context;
      const v = device.verbs;
      const cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const srq = v.must(yield* v.createSrq(pd, { maxWr: 4, maxSge: MAX_SGE }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxSendWr: 1, maxRecvWr: 0, srq })));
      const sges = Array.from({ length: MAX_SGE }, (_, i) => v.sge(mr, 8000 - i * 200, 100));
      v.must(yield* v.postSrqRecv(srq, { wrId: 3, sges }));
      yield* bringUp(context, table, { qp, side: "right", name: "shared" });
      const [got] = yield* v.waitCompletion(cq);
      assert.deepEqual([got?.wrId, got?.byteLen], [3, 3000]);
      const bytes = sges.flatMap(({ address }) => [...cpu.load(address, 100)]);
      assert.deepEqual(bytes, Array.from({ length: 3000 }, (_, i) => i % 250));
    });
  });
});

describe("a queue pair with maxRecvWr: 0", () => {
  it("sends, takes no receives, and answers a SEND by RNR NAKs", () => {
    connected(function* (context, { pd, mr }, table) {
      const v = context.device.verbs;
      const cq = v.must(yield* v.createCq(context.device, { entries: 16 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxRecvWr: 0 })));
      assert.equal(v.must(yield* v.queryQp(qp)).caps.maxRecvWr, 0);
      yield* bringUp(context, table, { qp, side: "left", name: "one way" });
      const full = yield* v.postRecv(qp, { sges: [] });
      assert.equal(full?.errno, "ENOMEM");
      assert.match(
        full.reason,
        /^0 receives are outstanding, and maxRecvWr leaves no room: expected/,
      );
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      v.must(yield* v.postSend(qp, { opcode: "write", sges: [v.sge(mr, 0, 8)], remote: to }));
      assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
      table.put("written");
      yield* table.get(context, "refused");
    }, function* (context, { pd, mr }, table) {
      const v = context.device.verbs;
      const cq = v.must(yield* v.createCq(context.device, { entries: 16 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxRecvWr: 0 })));
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* bringUp(context, table, { qp, side: "right", name: "one way" });
      v.must(yield* v.modifyQp(qp, { state: "sqd" }));
      v.must(yield* v.modifyQp(qp, { state: "sqd", rnrRetry: 1 }));
      v.must(yield* v.modifyQp(qp, { state: "rts" }));
      yield* table.get(context, "written");
      v.must(yield* v.postSend(qp, { opcode: "send", sges: [] }));
      assert.deepEqual(yield* statuses(context, qp), ["RNR_RETRY_EXC_ERR"]);
      table.put("refused");
    });
  });

  it("with maxSendWr: 0 it only receives", () => {
    run(function* (context, table) {
      const { device } = context;
      const v = device.verbs;
      const pd = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxSendWr: 0, maxRecvWr: 4 })));
      v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
      v.must(yield* v.postRecv(qp, { wrId: 9, sges: [] }));
      v.must(yield* v.modifyQp(qp, { state: "reset" }));
      yield* bringUp(context, table, { qp, side: "left", name: "sink" });
      v.must(yield* v.postRecv(qp, { wrId: 10, sges: [] }));
      const full = yield* v.postSend(qp, { opcode: "send", sges: [] });
      assert.equal(full?.errno, "ENOMEM");
      assert.match(full.reason, /^0 sends are outstanding, and maxSendWr leaves no room: expected/);
      assert.deepEqual((yield* v.waitCompletion(cq)).map(({ wrId }) => wrId), [10]);
    }, function* (context, table) {
      const { device } = context;
      const v = device.verbs;
      const pd = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 16 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxSendWr: 4, maxRecvWr: 0 })));
      yield* bringUp(context, table, { qp, side: "right", name: "sink" });
      v.must(yield* v.postSend(qp, { opcode: "send", sges: [] }));
      assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
    });
  });
});

describe("a null region by verbs", () => {
  it("pads a message with zeros, and is undone by deregMr", () => {
    connected(function* (context, { qp, pd, mr }, table) {
      const v = context.device.verbs;
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      const cq = qp.sendCq;
      const plan = rcOptions(cq, { maxSendWr: 4, maxRecvWr: 1 });
      const wide = v.must(yield* v.createQp(pd, { ...plan, maxSendSge: 3 }));
      yield* bringUp(context, table, { qp: wide, side: "left", name: "wide" });
      const hole = v.must(yield* v.allocNullMr(pd));
      const users = pd.uses.count;
      const sges = [v.sge(mr, 0, 300), v.sge(hole, 0, 500), v.sge(mr, 300, 200)];
      v.must(yield* v.postSend(wide, { opcode: "write", sges, remote: to }));
      assert.deepEqual(yield* statuses(context, wide), ["SUCCESS"]);
      table.put("written");
      assert.equal(hole.rkey, 0);
      assert.equal((yield* v.reregMr(hole, { access: IBV_ACCESS_LOCAL_WRITE }))?.errno, "EINVAL");
      v.must(yield* v.deregMr(hole));
      assert.equal((yield* v.deregMr(hole))?.errno, "EINVAL");
      assert.equal(pd.uses.count, users - 1);
      v.must(yield* v.postSend(wide, { opcode: "write", sges, remote: to }));
      assert.deepEqual(yield* statuses(context, wide), ["LOC_PROT_ERR"]);
    }, function* (context, { qp, pd, mr }, table) {
      const { cpu, device } = context;
      const v = device.verbs;
      const cq = qp.sendCq;
      const plan = rcOptions(cq, { maxSendWr: 4, maxRecvWr: 1 });
      const wide = v.must(yield* v.createQp(pd, plan));
      cpu.store(mr.address, new Uint8Array(1000).fill(7));
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* bringUp(context, table, { qp: wide, side: "right", name: "wide" });
      yield* table.get(context, "written");
      yield* cpu.sleep(10_000_000);
      assert.deepEqual(cpu.load(mr.address + 300, 500), new Uint8Array(500));
      assert.deepEqual(cpu.load(mr.address + 800, 200), new Uint8Array(200));
    });
  });
});

describe("modifySrq with maxWr", () => {
  it("counts outstanding receives, whatever their slots are, and keeps to the limit", () => {
    let ended = false;
    alone(function* ({ device }) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const srq = v.must(yield* v.createSrq(pd, { maxWr: 20 }));
      const post = (count: number) =>
        v.postSrqRecv(srq, Array.from({ length: count }, (_, wrId) => ({ wrId, sges: [] })));
      v.must(yield* post(20));
      assert.equal((yield* v.modifySrq(srq, { maxWr: 19 }))?.errno, "EBUSY");
      v.must(yield* v.modifySrq(srq, { maxWr: 40 }));
      assert.deepEqual(v.must(yield* v.querySrq(srq)), { maxWr: 40, maxSge: 1, limit: 0 });
      v.must(yield* post(20));
      const full = yield* post(1);
      assert.deepEqual([full?.errno, full?.bad], ["ENOMEM", 0]);
      // Neither of two changes is made where one of them is refused.
      assert.equal((yield* v.modifySrq(srq, { maxWr: 50, limit: 51 }))?.errno, "EINVAL");
      v.must(yield* v.modifySrq(srq, { maxWr: 50, limit: 30 }));
      assert.deepEqual(v.must(yield* v.querySrq(srq)), { maxWr: 50, maxSge: 1, limit: 30 });
      for (const maxWr of [0, -1, 2.5, 2 ** 15, NaN]) {
        assert.equal((yield* v.modifySrq(srq, { maxWr }))?.errno, "EINVAL", `${maxWr}`);
      }
      assert.equal((yield* v.modifySrq(srq, { maxWr: 39 }))?.errno, "EBUSY");
      assert.equal(v.must(yield* v.querySrq(srq)).maxWr, 50);
      ended = true;
    });
    assert.ok(ended);
  });

  it("goes on with receives in high slots: each completes once, as what it was posted as", () => {
    connected(function* (context, { pd }, table) {
      const v = context.device.verbs;
      const cq = v.must(yield* v.createCq(context.device, { entries: 64 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxSendWr: 40, maxRecvWr: 0 })));
      yield* bringUp(context, table, { qp, side: "left", name: "srq" });
      for (const count of [18, 7]) {
        for (let i = 0; i < count; i++) {
          v.must(yield* v.postSend(qp, { opcode: "send", sges: [] }));
          yield* statuses(context, qp);
        }
        table.put(`sent ${count}`);
        yield* table.get(context, `took ${count}`);
      }
    }, function* (context, { pd }, table) {
      const { device } = context;
      const v = device.verbs;
      const cq = v.must(yield* v.createCq(device, { entries: 64 }));
      const srq = v.must(yield* v.createSrq(pd, { maxWr: 20 }));
      const qp = v.must(yield* v.createQp(pd, rcOptions(cq, { maxSendWr: 1, maxRecvWr: 0, srq })));
      const post = (...wrIds: number[]) =>
        v.postSrqRecv(srq, wrIds.map((wrId) => ({ wrId, sges: [] })));
      v.must(yield* post(...Array.from({ length: 20 }, (_, i) => i)));
      yield* bringUp(context, table, { qp, side: "right", name: "srq" });
      yield* table.get(context, "sent 18");
      const ids = function* () {
        return (yield* v.pollCq(cq, 64)).map(({ wrId }) => wrId);
      };
      assert.deepEqual(yield* ids(), Array.from({ length: 18 }, (_, i) => i));
      // Receives 18 and 19 are outstanding, in the slots 18 and 19.
      assert.equal((yield* v.modifySrq(srq, { maxWr: 1 }))?.errno, "EBUSY");
      v.must(yield* v.modifySrq(srq, { maxWr: 2 }));
      assert.equal((yield* post(50))?.errno, "ENOMEM");
      v.must(yield* v.modifySrq(srq, { maxWr: 7 }));
      v.must(yield* post(20, 21, 22, 23, 24));
      assert.equal((yield* post(50))?.errno, "ENOMEM");
      table.put("took 18");
      yield* table.get(context, "sent 7");
      assert.deepEqual(yield* ids(), [18, 19, 20, 21, 22, 23, 24]);
      v.must(yield* post(30, 31, 32, 33, 34, 35, 36));
      table.put("took 7");
    });
  });
});
