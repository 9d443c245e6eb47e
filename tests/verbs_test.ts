/** The driver's objects against the real RNIC: programs on the two hosts of a rack use them. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../fabric/wire/rnic_command.ts";
import type { WorkCompletion } from "../nodes/host/completion_queue.ts";
import type { Mr, Pd } from "../nodes/host/memory_region.ts";
import type { Program, ProgramContext, Steps } from "../nodes/host/program.ts";
import type { Qp } from "../nodes/host/queue_pair.ts";
import type { Srq } from "../nodes/host/shared_receive_queue.ts";
import { SimulatedRack } from "./support/simulated_rack.ts";

const SCENARIO = `
name: verbs
hosts: { a: {}, b: {} }
programs: [{ on: a, run: ./left.ts }, { on: b, run: ./right.ts }]
`;

/** What the two programs tell each other outside of the rack, by name. */
class Table {
  readonly #values = new Map<string, number>();

  put(name: string, value = 0): void {
    this.#values.set(name, value);
  }

  *get(context: ProgramContext, name: string): Steps<number> {
    for (;;) {
      const value = this.#values.get(name);
      if (value !== undefined) return value;
      yield* context.cpu.sleep(1_000_000);
    }
  }
}

type Side = (context: ProgramContext, table: Table) => Steps<void>;

/** Runs both to their end. */
function run(left: Side, right: Side): void {
  const table = new Table();
  let ended = 0;
  const programOf = (side: Side): Program =>
    function* (context) {
      yield* side(context, table);
      ended++;
    };
  const programs = { "./left.ts": programOf(left), "./right.ts": programOf(right) };
  const rack = new SimulatedRack(SCENARIO, { programs }).run(1e11);
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.equal(ended, 2, "a program has not come to its end");
}

const ADDRESS = { left: "b", right: "a" } as const;

/** Takes a queue pair to RTS with the other side's of the same name. */
function* bringUp(
  context: ProgramContext,
  table: Table,
  connection: { readonly qp: Qp; readonly side: "left" | "right"; readonly name: string },
): Steps<void> {
  const { device, cpu } = context;
  const { modifyQp, must } = device.verbs;
  const { qp, side, name } = connection;
  const other = side === "left" ? "right" : "left";
  table.put(`${name} ${side}`, qp.qpn);
  const destQpn = yield* table.get(context, `${name} ${other}`);
  const accessFlags = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead;
  must(yield* modifyQp(qp, { state: "init", accessFlags }));
  must(
    yield* modifyQp(qp, {
      state: "rtr",
      destAddress: cpu.addresses[ADDRESS[side]]!,
      pathMtu: 1024,
      destQpn,
      rqPsn: 7,
      maxDestRdAtomic: 12,
      minRnrTimer: 1,
    }),
  );
  const rts = { state: "rts", timeout: 8, retryCnt: 7, rnrRetry: 7, sqPsn: 7 } as const;
  must(yield* modifyQp(qp, { ...rts, maxRdAtomic: 12 }));
  table.put(`${name} ${side} up`);
  yield* table.get(context, `${name} ${other} up`);
}

function* region(context: ProgramContext, pd: Pd): Steps<Mr> {
  const { regMr, must } = context.device.verbs;
  const access = ["localWrite", "remoteWrite", "remoteRead", "mwBind"] as const;
  return must(yield* regMr(pd, context.cpu.allocate(8192), { access }));
}

function* statuses(context: ProgramContext, qp: Qp): Steps<string[]> {
  const completions = yield* context.device.verbs.waitCompletion(qp.sendCq);
  return completions.map(({ status }) => status);
}

describe("shared receive queues by verbs", () => {
  it("§7 #27 #28 #29 #30: one pool, the limit's event once, no receives on the queue pair itself", () => {
    const got: WorkCompletion[] = [];
    const qpns: number[] = [];
    run(function* (context, table) {
      const { allocPd, createCq, createQp, postSend, must } = context.device.verbs;
      const pd = allocPd(context.device);
      const cq = must(yield* createCq(context.device, { entries: 64 }));
      const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 } as const;
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
      const { modifyQp } = device.verbs;
      const pd = allocPd(device);
      const cq = must(yield* createCq(device, { entries: 64 }));
      const srq: Srq = must(yield* createSrq(pd, { maxWr: 10 }));
      const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 0, srq } as const;
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
            if (found === "timeout" || found.type === type) return found;
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

/** A connection with a region at each end, given to both bodies. */
interface Ends {
  readonly qp: Qp;
  readonly pd: Pd;
  readonly mr: Mr;
  readonly connect: (name: string) => Steps<Qp>;
}

type Body = (context: ProgramContext, ends: Ends, table: Table) => Steps<void>;

function connected(left: Body, right: Body): void {
  const side = (which: "left" | "right", body: Body): Side =>
    function* (context, table) {
      const { allocPd, createCq, createQp, must } = context.device.verbs;
      const pd = allocPd(context.device);
      const mr = yield* region(context, pd);
      function* connect(name: string): Steps<Qp> {
        const cq = must(yield* createCq(context.device, { entries: 16 }));
        const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 } as const;
        const qp = must(yield* createQp(pd, plan));
        yield* bringUp(context, table, { qp, side: which, name });
        return qp;
      }
      const qp = yield* connect("qp");
      yield* body(context, { qp, pd, mr, connect }, table);
    };
  run(side("left", left), side("right", right));
}

/** A WRITE of eight bytes by this key. */
function* write(
  context: ProgramContext,
  by: { readonly qp: Qp; readonly mr: Mr },
  to: { readonly va: number; readonly rkey: number },
): Steps<string[]> {
  const { postSend, sge, must } = context.device.verbs;
  must(yield* postSend(by.qp, { opcode: "write", sges: [sge(by.mr, 0, 8)], remote: to }));
  return yield* statuses(context, by.qp);
}

describe("memory windows by verbs", () => {
  it("§7 #42 #43: bindMw binds type 1 anew and to nothing, a post binds type 2, LOCAL_INV ends it", () => {
    connected(function* (context, { qp, mr, connect }, table) {
      const va = yield* table.get(context, "va");
      const rkeys = ["one", "two"].map((name) => table.get(context, name));
      for (const rkey of rkeys) {
        const to = { va, rkey: yield* rkey };
        assert.deepEqual(yield* write(context, { qp, mr }, to), ["SUCCESS"]);
      }
      table.put("written");
      yield* table.get(context, "unbound");
      for (const name of ["one", "two"]) {
        const other = yield* connect(name);
        const to = { va, rkey: yield* table.get(context, name) };
        assert.deepEqual(yield* write(context, { qp: other, mr }, to), ["REM_ACCESS_ERR"]);
      }
    }, function* (context, { qp, pd, mr, connect }, table) {
      const { allocMw, bindMw, incRkey, deallocMw, postSend, must } = context.device.verbs;
      const access = ["remoteWrite"] as const;
      const one = must(yield* allocMw(pd, 1));
      const two = must(yield* allocMw(pd, 2));
      const old = one.rkey;
      must(yield* bindMw(qp, one, { mr, offset: 4096, length: 64, access }));
      assert.notEqual(one.rkey, old);
      assert.equal((yield* bindMw(qp, two, { mr, access }))?.errno, "EINVAL");
      const bind = { mw: two, rkey: incRkey(two.rkey), mr, offset: 4096, length: 64, access };
      must(yield* postSend(qp, { opcode: "bind-mw", bind, signaled: false }));
      assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
      table.put("va", mr.address + 4096);
      table.put("one", one.rkey);
      table.put("two", two.rkey);
      yield* table.get(context, "written");
      must(yield* bindMw(qp, one, { mr, length: 0, access, signaled: false }));
      must(yield* postSend(qp, { opcode: "local-invalidate", immediate: two.rkey, wrId: 5 }));
      const [last] = yield* context.device.verbs.waitCompletion(qp.sendCq);
      assert.deepEqual([last!.status, last!.opcode, last!.wrId], [
        "SUCCESS",
        "local-invalidate",
        5,
      ]);
      table.put("unbound");
      for (const name of ["one", "two"]) yield* connect(name);
      must(yield* deallocMw(one));
      assert.equal((yield* deallocMw(one))?.errno, "EINVAL");
      must(yield* deallocMw(two));
    });
  });
});

describe("regions by verbs", () => {
  it("§7 #33 #34 #87: re-registration keeps the key; an imported region has the same keys", () => {
    connected(function* (context, { qp, mr, connect }, table) {
      const { openContext, importPd, importMr, must } = context.device.verbs;
      const second = openContext(context.device);
      const pd = must(importPd(second, mr.pd.handle));
      const imported = must(importMr(pd, mr.lkey));
      assert.deepEqual([imported.lkey, imported.rkey], [mr.lkey, mr.rkey]);
      const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
      assert.deepEqual(yield* write(context, { qp, mr: imported }, to), ["SUCCESS"]);
      table.put("written");
      yield* table.get(context, "changed");
      assert.deepEqual(yield* write(context, { qp, mr }, to), ["REM_ACCESS_ERR"]);
      yield* connect("again");
    }, function* (context, { mr, connect }, table) {
      const { reregMr, allocPd, deallocPd, deregMr, must } = context.device.verbs;
      table.put("va", mr.address);
      table.put("rkey", mr.rkey);
      yield* table.get(context, "written");
      const { rkey, pd } = mr;
      const other = allocPd(context.device);
      assert.equal((yield* reregMr(mr, { access: ["remoteWrite"] }))?.errno, "EINVAL");
      must(yield* reregMr(mr, { pd: other, access: ["localWrite"] }));
      assert.deepEqual([mr.rkey, mr.pd, mr.access], [rkey, other, ACCESS.localWrite]);
      assert.equal(deallocPd(other)?.errno, "EBUSY");
      assert.notEqual(pd.uses.count, 0);
      table.put("changed");
      yield* connect("again");
      must(yield* deregMr(mr));
      assert.equal(deallocPd(other), undefined);
    });
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
      const { destroyCompChannel, pollCq, postRecv } = device.verbs;
      const channel = createCompChannel(device);
      const pd = allocPd(device);
      const cqs = [
        must(yield* createCq(device, { entries: 8, channel })),
        must(yield* createCq(device, { entries: 8, channel })),
      ] as const;
      const [send, recv] = cqs;
      const plan = { type: "rc", sendCq: send, recvCq: recv, maxSendWr: 8, maxRecvWr: 8 } as const;
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
      must(yield* destroyQp(qp));
      assert.equal((yield* destroyCq(recv))?.errno, "EBUSY");
      assert.equal(ackCqEvents(recv, 3)?.errno, "EINVAL");
      must(ackCqEvents(recv, 2));
      assert.equal(destroyCompChannel(channel)?.errno, "EBUSY");
      for (const cq of cqs) must(yield* destroyCq(cq));
      assert.equal(destroyCompChannel(channel), undefined);
    }, function* (context, table) {
      const { allocPd, createCq, createQp, postSend, must } = context.device.verbs;
      const pd = allocPd(context.device);
      const cq = must(yield* createCq(context.device, { entries: 8 }));
      const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 8, maxRecvWr: 8 } as const;
      const qp = must(yield* createQp(pd, plan));
      yield* bringUp(context, table, { qp, side: "right", name: "qp" });
      yield* table.get(context, "armed");
      for (let i = 0; i < 3; i++) {
        must(yield* postSend(qp, { opcode: "send", sges: [] }));
        yield* statuses(context, qp);
      }
      table.put("sent");
      yield* table.get(context, "again");
      must(yield* postSend(qp, { opcode: "send", sges: [] }));
      yield* statuses(context, qp);
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
      const plan = { type: "uc", sendCq, recvCq, maxSendWr: 3, maxRecvWr: 4 } as const;
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
