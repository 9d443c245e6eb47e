/** The driver's queues against the real RNIC: programs on the two hosts of a rack use them. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { bringUp, connected, rcOptions, run, statuses } from "../support/two_programs.ts";
import type { Srq, WorkCompletion } from "../../nodes/host/verbs/objects.ts";

describe("shared receive queues by verbs", () => {
  it("§7 #27 #28 #29 #30: one pool, the limit's event once, no receives on the queue pair itself", () => {
    const got: WorkCompletion[] = [];
    const qpns: number[] = [];
    run(function* (context, table) {
      const { allocPd, createCq, createQp, postSend, must } = context.device.verbs;
      const pd = allocPd(context.device);
      const cq = must(yield* createCq(context.device, { entries: 64 }));
      const plan = rcOptions(cq);
      const qps = [must(yield* createQp(pd, plan)), must(yield* createQp(pd, plan))] as const;
      for (const [i, qp] of qps.entries()) {
        yield* bringUp(context, table, { qp, side: "left", name: `qp${i}` });
      }
      for (const i of [0, 1, 0, 1] as const) {
        must(yield* postSend(qps[i], { opcode: "send", sges: [] }));
        assert.deepEqual(yield* statuses(context, qps[i]), ["SUCCESS"]);
      }
      table.put("sent");
    }, function* (context, table) {
      const { device } = context;
      const { allocPd, createCq, createQp, createSrq, destroySrq, destroyQp, must } = device.verbs;
      const { modifySrq, querySrq, postSrqRecv, postRecv, pollCq, getAsyncEvent } = device.verbs;
      const { modifyQp, ackAsyncEvent } = device.verbs;
      const pd = allocPd(device);
      const cq = must(yield* createCq(device, { entries: 64 }));
      const srq: Srq = must(yield* createSrq(pd, { maxWr: 10 }));
      const plan = rcOptions(cq, { maxRecvWr: 0, srq });
      const qps = [must(yield* createQp(pd, plan)), must(yield* createQp(pd, plan))] as const;
      qpns.push(...qps.map(({ qpn }) => qpn));
      const wrs = Array.from({ length: 10 }, (_, wrId) => ({ wrId: 100 + wrId, sges: [] }));
      must(yield* postSrqRecv(srq, wrs));
      assert.equal((yield* postSrqRecv(srq, wrs[0]!))?.errno, "ENOMEM");
      for (const [i, qp] of qps.entries()) {
        yield* bringUp(context, table, { qp, side: "right", name: `qp${i}` });
      }
      assert.equal((yield* postRecv(qps[0], wrs[0]!))?.errno, "EINVAL");
      must(yield* modifySrq(srq, { limit: 7 }));
      assert.equal((yield* modifySrq(srq, { limit: 11 }))?.errno, "EINVAL");
      yield* table.get(context, "sent");
      got.push(...(yield* pollCq(cq, 10)));
      const event = (type: string) =>
        function* (): Steps<unknown> {
          for (;;) {
            const found = yield* getAsyncEvent(device, { deadline: context.cpu.now + 1e9 });
            if (found === "timeout") return found;
            must(ackAsyncEvent(device, found));
            if (found.type === type) return found;
          }
        }();
      assert.deepEqual(yield* event("SRQ_LIMIT_REACHED"), {
        type: "SRQ_LIMIT_REACHED",
        srqn: srq.srqn,
      });
      assert.deepEqual(must(yield* querySrq(srq)), { maxWr: 10, maxSge: 1, limit: 0 });
      must(yield* modifyQp(qps[0], { state: "err" }));
      assert.deepEqual(yield* event("QP_LAST_WQE_REACHED"), {
        type: "QP_LAST_WQE_REACHED",
        qpn: qps[0].qpn,
      });
      assert.deepEqual(yield* pollCq(cq, 10), []);
      assert.equal((yield* destroySrq(srq))?.errno, "EBUSY");
      for (const qp of qps) must(yield* destroyQp(qp));
      assert.equal(yield* destroySrq(srq), undefined);
    });
    const [first, second] = qpns;
    assert.deepEqual(got.map(({ qpNum }) => qpNum), [first, second, first, second]);
    assert.deepEqual(got.map(({ wrId }) => wrId), [100, 101, 102, 103]);
  });
});

describe("completion queues by verbs", () => {
  it("§7 #18: a queue is resized while it holds completions, and while somebody spins on it", () => {
    connected(function* (context, { qp, mr }, table) {
      const { resizeCq, pollCq, postSend, sge, waitCompletion, must } = context.device.verbs;
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      const cq = qp.sendCq;
      for (let round = 0; round < 3; round++) {
        for (let wrId = 0; wrId < 5; wrId++) {
          must(yield* postSend(qp, { opcode: "write", wrId, sges: [sge(mr, 0, 8)], remote: to }));
        }
        yield* context.cpu.sleep(20_000_000);
        assert.equal((yield* resizeCq(cq, 4))?.errno, "EINVAL");
        assert.equal(yield* resizeCq(cq, [100, 6, 30][round]!), undefined);
        assert.deepEqual((yield* pollCq(cq, 9)).map(({ wrId }) => wrId), [0, 1, 2, 3, 4]);
      }
      must(yield* postSend(qp, { opcode: "read", wrId: 9, sges: [sge(mr, 0, 8)], remote: to }));
      const [read] = yield* waitCompletion(cq);
      assert.deepEqual([read!.wrId, read!.byteLen], [9, 8]);
      table.put("done");
    }, function* (context, { mr }, table) {
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* table.get(context, "done");
    });
  });

  it("§7 #20 #23: a channel of two queues: one event per arm, each to be acknowledged", () => {
    run(function* (context, table) {
      const { device } = context;
      const { allocPd, createCq, createQp, createCompChannel, must } = device.verbs;
      const { reqNotifyCq, getChannelEvent, ackCqEvents, destroyCq, destroyQp } = device.verbs;
      const { destroyCompChannel, pollCq, postRecv, waitCompletion } = device.verbs;
      const channel = createCompChannel(device);
      const pd = allocPd(device);
      const cqs = [
        must(yield* createCq(device, { entries: 8, channel })),
        must(yield* createCq(device, { entries: 8, channel })),
      ] as const;
      const [send, recv] = cqs;
      const plan = {
        type: "rc",
        sendCq: send,
        recvCq: recv,
        maxSendWr: 8,
        maxRecvWr: 8,
        sqSigAll: true,
      } as const;
      const qp = must(yield* createQp(pd, plan));
      yield* bringUp(context, table, { qp, side: "left", name: "qp" });
      must(yield* postRecv(qp, [0, 1, 2, 3].map((wrId) => ({ wrId, sges: [] }))));
      for (const cq of cqs) must(yield* reqNotifyCq(cq));
      table.put("armed");
      assert.equal(yield* getChannelEvent(channel), recv);
      yield* table.get(context, "sent");
      assert.equal((yield* pollCq(recv, 9)).length, 3);
      // Three completions, one event: it was not armed again.
      const deadline = context.cpu.now + 50_000_000;
      assert.equal(yield* getChannelEvent(channel, { deadline }), "timeout");
      must(yield* reqNotifyCq(recv));
      table.put("again");
      assert.equal(yield* getChannelEvent(channel), recv);
      assert.equal((yield* pollCq(recv, 9)).length, 1);
      // ibv_get_cq_event(3): armed, then polled until it is empty. What was polled has made its event, and the
      // queue is armed no more: a wait that took no notice would never end.
      must(yield* postRecv(qp, { wrId: 4, sges: [] }));
      must(yield* reqNotifyCq(recv));
      table.put("drained");
      assert.equal((yield* waitCompletion(recv, { mode: "poll" })).length, 1);
      const soon = () => ({ deadline: context.cpu.now + 50_000_000 });
      assert.equal(yield* getChannelEvent(channel, soon()), recv);
      // Events wait in the channel: another arm does not take back that of an arm before it.
      must(yield* postRecv(qp, [5, 6].map((wrId) => ({ wrId, sges: [] }))));
      for (const when of ["first of two", "second of two"]) {
        must(yield* reqNotifyCq(recv));
        table.put(when);
        assert.equal((yield* waitCompletion(recv, { mode: "poll" })).length, 1);
      }
      let events = 0;
      while ((yield* getChannelEvent(channel, soon())) === recv) events++;
      assert.equal(events, 2);
      must(yield* destroyQp(qp));
      assert.equal((yield* destroyCq(recv))?.errno, "EBUSY");
      assert.equal(ackCqEvents(recv, 6)?.errno, "EINVAL");
      must(ackCqEvents(recv, 5));
      assert.equal(destroyCompChannel(channel)?.errno, "EBUSY");
      for (const cq of cqs) must(yield* destroyCq(cq));
      assert.equal(destroyCompChannel(channel), undefined);
    }, function* (context, table) {
      const { allocPd, createCq, createQp, postSend, must } = context.device.verbs;
      const pd = allocPd(context.device);
      const cq = must(yield* createCq(context.device, { entries: 8 }));
      const qp = must(yield* createQp(pd, rcOptions(cq)));
      yield* bringUp(context, table, { qp, side: "right", name: "qp" });
      yield* table.get(context, "armed");
      for (let i = 0; i < 3; i++) {
        must(yield* postSend(qp, { opcode: "send", sges: [] }));
        yield* statuses(context, qp);
      }
      table.put("sent");
      for (const when of ["again", "drained", "first of two", "second of two"]) {
        yield* table.get(context, when);
        must(yield* postSend(qp, { opcode: "send", sges: [] }));
        yield* statuses(context, qp);
      }
    });
  });
});

describe("queue pairs by verbs", () => {
  it("§7 #8 #9 #12: query, RESET with completions that nobody took, and up again", () => {
    connected(function* (context, { qp, mr }, table) {
      const { queryQp, modifyQp, postSend, pollCq, sge, must } = context.device.verbs;
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      const { attributes, state } = must(yield* queryQp(qp));
      assert.equal(state, "rts");
      assert.deepEqual([attributes.maxRdAtomic, attributes.maxDestRdAtomic], [12, 12]);
      const post = { opcode: "write", sges: [sge(mr, 0, 8)], remote: to } as const;
      must(yield* postSend(qp, [post, post, { ...post, remote: { va: 1, rkey: 1 } }]));
      yield* context.cpu.sleep(30_000_000);
      must(yield* modifyQp(qp, { state: "reset" }));
      assert.deepEqual(must(yield* queryQp(qp)).attributes, {});
      table.put("reset");
      yield* bringUp(context, table, { qp, side: "left", name: "again" });
      must(yield* postSend(qp, { ...post, wrId: 77 }));
      const completions = yield* context.device.verbs.waitCompletion(qp.sendCq);
      assert.deepEqual(completions.map(({ wrId, status }) => [wrId, status]), [[77, "SUCCESS"]]);
      assert.deepEqual(yield* pollCq(qp.sendCq, 9), []);
    }, function* (context, { qp, mr }, table) {
      const { modifyQp, createQp, queryQp, destroyQp, must } = context.device.verbs;
      const { sendCq, recvCq } = qp;
      const plan = {
        type: "uc",
        sendCq,
        recvCq,
        maxSendWr: 3,
        maxRecvWr: 4,
        sqSigAll: true,
      } as const;
      const fresh = must(yield* createQp(qp.pd, plan));
      const { state, caps } = must(yield* queryQp(fresh));
      assert.equal(state, "reset");
      assert.ok(caps.maxSendWr >= 3 && caps.maxRecvWr >= 4);
      must(yield* destroyQp(fresh));
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* table.get(context, "reset");
      must(yield* modifyQp(qp, { state: "reset" }));
      yield* bringUp(context, table, { qp, side: "right", name: "again" });
      yield* context.cpu.sleep(30_000_000);
    });
  });
});
