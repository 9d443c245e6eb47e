import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_RELAXED_ORDERING,
  IBV_ACCESS_REMOTE_READ,
  IBV_SEND_SIGNALED,
  IBV_WC_GRH,
  IBV_WC_WITH_IMM,
} from "./flags.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { WindowType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { decodeSrqWqe } from "../../../fabric/wire/host_bus/srq_wqe.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { COMP_VECTORS } from "./limits.ts";
import { failed, getAsyncEvent, handleEvent, must } from "./device.ts";
import { endPoll, nextPoll, startPoll, wcFlags, wcRead } from "./extended_cq.ts";
import {
  adviseMr,
  allocPd,
  deallocPd,
  deregMr,
  importMr,
  importPd,
  regMr,
  reregMr,
} from "./memory_region.ts";
import { allocMw, deallocMw, incRkey } from "./memory_window.ts";
import { bindMw, postRecv, postSend, sge } from "./post.ts";
import { createQp, destroyQp } from "./queue_pair.ts";
import { createSrq, destroySrq, postSrqRecv } from "./shared_receive_queue.ts";
import { bootDevice, openContext, type OpenDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import { wrAbort, wrAdd, wrComplete, wrStart } from "./work_batch.ts";
import type { Cq, Mr, Pd, Qp, SendRequest, Srq, VerbError } from "./objects.ts";

let rig: VerbsRig, device: OpenDevice, pd: Pd, cq: Cq, mr: Mr, qp: Qp;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 32 })));
  mr = must(
    rig.run(
      regMr(pd, rig.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ }),
    ),
  );
  const plan = { sendCq: cq, recvCq: cq, maxSendWr: 6, maxRecvWr: 6, sqSigAll: true } as const;
  qp = must(rig.run(createQp(pd, { type: "rc", ...plan })));
  qp.life.state = "rts";
  rig.registers.length = 0;
});

function errnoOf(answer: unknown): string | undefined {
  return failed(answer as VerbError) ? (answer as VerbError).errno : undefined;
}

function send(wrId: number): SendRequest {
  return { opcode: "send", wrId, sges: [sge(mr, 0, 1000)] };
}

describe("shared receive queue", () => {
  let srq: Srq, shared: Qp;

  beforeEach(() => {
    srq = must(rig.run(createSrq(pd, { maxWr: 3, maxSge: 2 })));
    const plan = {
      type: "rc",
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 6,
      maxRecvWr: 0,
      sqSigAll: true,
      srq,
    } as const;
    shared = must(rig.run(createQp(pd, plan)));
    shared.life.state = "rts";
  });

  it("§7 #29: a receive posted to its queue pair is EINVAL", () => {
    equal(errnoOf(rig.run(postRecv(shared, { sges: [] }))), "EINVAL");
  });

  it("a completed slot is used again, in any order, while the ring goes on", () => {
    must(rig.run(postSrqRecv(srq, [1, 2, 3].map((wrId) => ({ wrId, sges: [] })))));
    equal(errnoOf(rig.run(postSrqRecv(srq, { wrId: 4, sges: [] }))), "ENOMEM");
    const taken: number[] = [];
    for (let pass = 0; pass < 20; pass++) {
      // The youngest first, so that its slot is free before those of older ones.
      const slot = srq.ring.wrIds.findLastIndex((wrId) => wrId !== undefined);
      rig.complete(cq, { opcode: "recv", qpn: shared.qpn, wqeIndex: slot });
      equal(startPoll(cq), undefined);
      taken.push((wcRead(cq) as { wrId: number }).wrId);
      rig.run(endPoll(cq));
      must(rig.run(postSrqRecv(srq, { wrId: 100 + pass, sges: [sge(mr, 0, 8)] })));
      const { address, write, stride } = srq.ring;
      const wqe = decodeSrqWqe(rig.load(address + write * stride, stride));
      same([wqe.slot, wqe.sges], [slot, [sge(mr, 0, 8)]]);
    }
    equal(taken.length, 20);
    equal(new Set(taken).size, 20);
  });

  it("refuses sizes, elements, and an end while it is used", () => {
    for (const maxWr of [0, -1, 2.5, 2 ** 15]) {
      equal(errnoOf(rig.run(createSrq(pd, { maxWr }))), "EINVAL");
    }
    equal(errnoOf(rig.run(createSrq(pd, { maxWr: 1, maxSge: 31 }))), "EINVAL");
    const three = [sge(mr), sge(mr), sge(mr)];
    equal(errnoOf(rig.run(postSrqRecv(srq, { sges: three }))), "EINVAL");
    const { free, write } = srq.ring, slots = free.length;
    const long = { ...sge(mr), length: 2 ** 32 + 64 };
    const refused = rig.run(postSrqRecv(srq, { sges: [sge(mr, 0, 8), long] }));
    equal(refused?.reason, "Element 1 has 4294967360 B: 2^31 are the most");
    same([refused?.errno, free.length, srq.ring.write], ["EINVAL", slots, write]);
    equal(errnoOf(rig.run(destroySrq(srq))), "EBUSY");
    must(rig.run(destroyQp(shared)));
    equal(rig.run(destroySrq(srq)), undefined);
    equal(errnoOf(rig.run(destroySrq(srq))), "EINVAL");
    equal(errnoOf(rig.run(postSrqRecv(srq, { sges: [] }))), "EINVAL");
  });
});

describe("extended polling", () => {
  it("§7 #26: the same completions one by one, RC and UD; ENOENT when empty", () => {
    equal(errnoOf(startPoll(cq)), "ENOENT");
    equal(errnoOf(nextPoll(cq)), "EINVAL");
    must(rig.run(postSend(qp, [send(5), send(6)])));
    const plan = {
      type: "ud",
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 2,
      maxRecvWr: 2,
      sqSigAll: true,
    } as const;
    const ud = must(rig.run(createQp(pd, plan)));
    ud.life.state = "rts";
    must(rig.run(postRecv(ud, { wrId: 9, sges: [sge(mr)] })));
    for (const wqeIndex of [0, 1]) rig.complete(cq, { qpn: qp.qpn, wqeIndex });
    const datagram = { opcode: "recv-immediate", byteCount: 48, immediate: 77 } as const;
    rig.complete(cq, { ...datagram, qpn: ud.qpn, sourceQpn: 21 });
    const found: unknown[] = [];
    for (let none = startPoll(cq); none === undefined; none = nextPoll(cq)) {
      const wc = wcRead(cq);
      ok(!failed(wc));
      found.push([wc.wrId, wc.status, wc.opcode, wc.qpNum, wc.byteLen, wc.srcQp, wcFlags(wc)]);
    }
    same(found, [
      [5, "SUCCESS", "send", qp.qpn, 0, 0, 0],
      [6, "SUCCESS", "send", qp.qpn, 0, 0, 0],
      [9, "SUCCESS", "recv-immediate", ud.qpn, 48, 21, IBV_WC_GRH | IBV_WC_WITH_IMM],
    ]);
    equal(errnoOf(startPoll(cq)), "EINVAL");
    rig.run(endPoll(cq));
    equal(errnoOf(wcRead(cq)), "EINVAL");
    equal(errnoOf(startPoll(cq)), "ENOENT");
  });
});

describe("batches of work requests", () => {
  it("§7 #88: one illegal request, and nothing of the batch is posted", () => {
    const { write, used, requests } = qp.sq;
    const batch = wrStart(qp);
    wrAdd(batch, send(1));
    wrAdd(batch, { opcode: "write", wrId: 2, sges: [sge(mr)] });
    wrAdd(batch, send(3));
    equal(errnoOf(rig.run(wrComplete(batch))), "EINVAL");
    same([qp.sq.write, qp.sq.used, qp.sq.requests], [write, used, requests]);
    equal(rig.registers.length, 0);
    equal(errnoOf(rig.run(wrComplete(batch))), "EINVAL");
  });

  it("§7 #88: what the driver knows of the queue is what it was before a refused one", () => {
    const pair = must(
      rig.run(createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 6, maxRecvWr: 6 })),
    );
    pair.life.state = "rts";
    const signaled = { ...send(0), sendFlags: IBV_SEND_SIGNALED };
    const known = () => {
      const { write, tail, used, requests, unsignaled, newest, stamp } = pair.sq;
      return { write, tail, used, requests, unsignaled, newest, stamp };
    };
    const refused: SendRequest = { ...send(9), sges: Array(9).fill(sge(mr, 0, 8)) };
    for (const [before, added] of [[send(0), signaled], [signaled, send(0)]] as const) {
      equal(rig.run(postSend(pair, before)), undefined);
      const then = known(), { length } = rig.registers;
      const batch = wrStart(pair);
      for (const each of [added, added, refused]) wrAdd(batch, each);
      equal(errnoOf(rig.run(wrComplete(batch))), "EINVAL");
      same(known(), then);
      equal(rig.registers.length, length);
    }
  });

  it("a legal one is posted whole, with one doorbell; one that is given up is not", () => {
    const dropped = wrStart(qp);
    wrAdd(dropped, send(7));
    wrAbort(dropped);
    equal(errnoOf(rig.run(wrComplete(dropped))), "EINVAL");
    const batch = wrStart(qp);
    for (const wrId of [1, 2, 3]) wrAdd(batch, send(wrId));
    equal(rig.run(wrComplete(batch)), undefined);
    same([qp.sq.requests, rig.registers.length], [3, 1]);
    same(qp.sq.wrIds.slice(0, 3), [1, 2, 3]);
    const tooMany = wrStart(qp);
    for (const wrId of [4, 5, 6, 7]) wrAdd(tooMany, send(wrId));
    equal(errnoOf(rig.run(wrComplete(tooMany))), "ENOMEM");
    equal(qp.sq.requests, 3);
  });
});

describe("other contexts", () => {
  it("§7 #87: an imported domain and region have the same handle and keys; EBUSY counts for both", () => {
    const second = openContext(device);
    const imported = must(importPd(second, pd.handle));
    const region = must(importMr(imported, mr.lkey));
    same([region.lkey, region.rkey, region.address], [mr.lkey, mr.rkey, mr.address]);
    must(rig.run(postSend(qp, { opcode: "send", sges: [sge(region, 0, 1000)] })));
    equal(errnoOf(deallocPd(imported)), "EBUSY");
    equal(errnoOf(importPd(second, 999)), "ENOENT");
    equal(errnoOf(importMr(must(importPd(second, allocPd(device).handle)), mr.lkey)), "ENOENT");
  });

  it("an imported region is the region: re-registered by either name, it is so by both", () => {
    const second = openContext(device);
    const region = must(importMr(must(importPd(second, pd.handle)), mr.lkey));
    must(rig.run(reregMr(mr, { place: { buffer: rig.allocate(8192) } })));
    same([region.length, region.address, sge(region)], [8192, mr.address, sge(mr)]);
    const other = allocPd(second);
    must(rig.run(reregMr(region, { pd: other, access: IBV_ACCESS_LOCAL_WRITE })));
    same([mr.pd.handle, region.pd.handle], [other.handle, other.handle]);
    same([mr.access, region.access], [IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_LOCAL_WRITE]);
    const contexts = [mr, region].map((each) => each.pd.device.context);
    ok(contexts[0] === device.context && contexts[1] === second.context, "each keeps its own");
    equal(errnoOf(deallocPd(other)), "EBUSY");
    must(rig.run(deregMr(mr)));
    equal(errnoOf(rig.run(deregMr(region))), "EINVAL", "the region is gone under both names");
    equal(errnoOf(rig.run(reregMr(region, { pd }))), "EINVAL");
    equal(deallocPd(other), undefined);
    must(rig.run(destroyQp(qp)));
    equal(deallocPd(pd), undefined, "no domain has a user left");
  });
});

describe("advice about memory", () => {
  it("§7 #48: 0 for what is registered, EFAULT beyond it, ENOENT for no region", () => {
    const advice = { pd, advice: "prefetch" } as const;
    equal(rig.run(adviseMr({ ...advice, sges: [sge(mr, 0, 4096)] })), undefined);
    const forWrites = { ...advice, advice: "prefetchWrite" } as const;
    equal(rig.run(adviseMr({ ...forWrites, sges: [sge(mr, 8, 8)] })), undefined);
    equal(
      errnoOf(rig.run(adviseMr({ ...advice, sges: [{ ...sge(mr, 4000), length: 97 }] }))),
      "EFAULT",
    );
    const unknown = [{ ...sge(mr), lkey: mr.lkey + 1 }];
    equal(errnoOf(rig.run(adviseMr({ ...advice, sges: unknown }))), "ENOENT");
    equal(
      errnoOf(rig.run(adviseMr({ ...advice, pd: allocPd(device), sges: [sge(mr)] }))),
      "EINVAL",
    );
    const fixed = must(rig.run(regMr(pd, rig.allocate(64), { access: 0 })));
    const write = { ...advice, advice: "prefetchWrite", sges: [sge(fixed)] } as const;
    equal(errnoOf(rig.run(adviseMr(write))), "EPERM");
  });
});

describe("memory windows", () => {
  it("§4.5: a new key has another variant; wrong types, indices and windows are EINVAL", () => {
    equal(incRkey(0x1234_56ff), 0x1234_5600);
    equal(incRkey(0xffff_ff01), 0xffff_ff02);
  });

  it("of a type that is none is EINVAL, and asks the firmware nothing", () => {
    rig.commands.length = 0;
    for (const type of [0, 3, "1", undefined]) {
      equal(errnoOf(rig.run(allocMw(pd, type as unknown as WindowType))), "EINVAL");
    }
    same(rig.commands, []);
    const one = must(rig.run(allocMw(pd, 1))), two = must(rig.run(allocMw(pd, 2)));
    const access = IBV_ACCESS_REMOTE_READ;
    equal(errnoOf(rig.run(bindMw(qp, two, { mr, access }))), "EINVAL");
    const foreign = { mw: two, rkey: one.rkey, mr, access };
    equal(errnoOf(rig.run(postSend(qp, { opcode: "bind-mw", bind: foreign }))), "EINVAL");
    equal(errnoOf(rig.run(postSend(qp, { opcode: "bind-mw" }))), "EINVAL");
    equal(errnoOf(deallocPd(pd)), "EBUSY");
    must(rig.run(deallocMw(two)));
    const late = { mw: two, rkey: incRkey(two.rkey), mr, access };
    equal(errnoOf(rig.run(postSend(qp, { opcode: "bind-mw", bind: late }))), "EINVAL");
  });

  it("§7 #86: none is bound with relaxed ordering, as nothing honours it", () => {
    const one = must(rig.run(allocMw(pd, 1))), two = must(rig.run(allocMw(pd, 2)));
    const keys = [one.rkey, two.rkey];
    const access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_RELAXED_ORDERING;
    const bind = { mw: two, rkey: incRkey(two.rkey), mr, access };
    for (
      const wrong of [
        rig.run(bindMw(qp, one, { mr, access })),
        rig.run(postSend(qp, { opcode: "bind-mw", bind })),
      ]
    ) {
      equal(wrong?.errno, "EINVAL");
      ok(wrong?.reason.startsWith("IBV_ACCESS_RELAXED_ORDERING"));
    }
    same([one.rkey, two.rkey], keys);
  });
});

describe("objects that the firmware does not give up", () => {
  it("a window is as it was, and is deallocated by the next call", () => {
    const mw = must(rig.run(allocMw(pd, 1)));
    const { count } = pd.uses;
    rig.refuse = ({ op }) =>
      op === "deallocate-mw" ? { status: "error", errno: "EBUSY", reason: "because" } : undefined;
    equal(errnoOf(rig.run(deallocMw(mw))), "EBUSY");
    equal(pd.uses.count, count);
    equal(rig.run(bindMw(qp, mw, { mr, access: 0 })), undefined, "it can still be bound");
    rig.refuse = () => undefined;
    equal(rig.run(deallocMw(mw)), undefined);
    equal(errnoOf(rig.run(deallocMw(mw))), "EINVAL");
    equal(pd.uses.count, count - 1);
  });

  it("a shared receive queue takes receives as before", () => {
    const srq = must(rig.run(createSrq(pd, { maxWr: 2 })));
    rig.refuse = ({ op }) =>
      op === "destroy-srq" ? { status: "error", errno: "EBUSY", reason: "because" } : undefined;
    equal(errnoOf(rig.run(destroySrq(srq))), "EBUSY");
    equal(rig.run(postSrqRecv(srq, { sges: [sge(mr, 0, 8)] })), undefined);
    rig.refuse = () => undefined;
    equal(rig.run(destroySrq(srq)), undefined);
  });

  it("receives of a destroyed queue pair, which have completed unread, give their slots back to the shared queue", () => {
    const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    const plan = { sendCq: cq, recvCq: cq, maxSendWr: 1, maxRecvWr: 0 } as const;
    const short = must(rig.run(createQp(pd, { type: "rc", ...plan, srq })));
    for (let i = 0; i < 3; i++) rig.run(postSrqRecv(srq, { sges: [sge(mr, 0, 8)] }));
    for (const wqeIndex of [0, 2]) rig.complete(cq, { opcode: "recv", qpn: short.qpn, wqeIndex });
    rig.refuse = ({ op }) =>
      op === "destroy-qp"
        ? { status: "ok", op: "qp-emptied", written: { send: 2, recv: 2 } }
        : undefined;
    equal(rig.run(destroyQp(short)), undefined);
    equal(srq.ring.free.length, 0);
    same(rig.run(pollCq(cq, 8)), []);
    same(srq.ring.free.toSorted(), [0, 2]);
    const again = [0, 1].map(() => rig.run(postSrqRecv(srq, { sges: [sge(mr, 0, 8)] })));
    same(again, [undefined, undefined]);
  });
});

describe("addresses of a region's own", () => {
  it("§4.5: ibv_reg_mr_iova: its first byte goes by that address, alike within a page", () => {
    const buffer = rig.allocate(8192);
    const iova = 2 ** 40 + 100;
    const moved = must(rig.run(regMr(pd, buffer, { access: 0, offset: 100, iova })));
    equal(moved.address, iova);
    same(rig.sent("register-mr").at(-1)!.region.pages, buffer.pages);
    const wrong = regMr(pd, buffer, { access: 0, offset: 100, iova: iova + 1 });
    equal(errnoOf(rig.run(wrong)), "EINVAL");
  });
});

describe("vectors and events", () => {
  it("§7 #17: a completion vector that is none is EINVAL; two queues may share one", () => {
    for (const compVector of [-1, COMP_VECTORS, 0.5]) {
      equal(errnoOf(rig.run(createCq(device, { entries: 4, compVector }))), "EINVAL");
    }
    const [one, two] = [1, 1].map((compVector) =>
      must(rig.run(createCq(device, { entries: 4, compVector })))
    );
    equal(one!.vector, two!.vector);
    ok(cq.vector !== one!.vector);
  });

  it("asynchronous events are got in order, once each; SQ_DRAINED leaves the state alone", () => {
    const { qpn } = qp;
    handleEvent(device, { type: "SQ_DRAINED", qpn });
    equal(qp.life.state, "rts");
    handleEvent(device, { type: "QP_FATAL", qpn });
    equal(qp.life.state, "err");
    const next = () => rig.run(getAsyncEvent(device, { deadline: rig.now + 5 }));
    same([next(), next(), next()], [
      { type: "SQ_DRAINED", qpn },
      { type: "QP_FATAL", qpn },
      "timeout",
    ]);
  });
});
