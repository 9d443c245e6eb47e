/** What was made before the RNIC failed: refused everywhere, as its numbers may be another's by now. */
import { IBV_ACCESS_LOCAL_WRITE, IBV_ACCESS_MW_BIND, IBV_ACCESS_REMOTE_READ } from "./flags.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { SPACE3_BYTES } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { waitCompletion } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { failed, must } from "./device.ts";
import { allocPd, regMr } from "./memory_region.ts";
import { allocMw, incRkey } from "./memory_window.ts";
import { postSend, sge } from "./post.ts";
import { createQp } from "./queue_pair.ts";
import { resizeCq } from "./resize_cq.ts";
import { createSrq, postSrqRecv } from "./shared_receive_queue.ts";
import { bootDevice, type OpenDevice, reopenDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import { wrAdd, wrComplete, wrStart } from "./work_batch.ts";
import type { Cq, Mr, Mw, Pd, Qp, SendRequest, Srq } from "./objects.ts";

let rig: VerbsRig, device: OpenDevice, pd: Pd, cq: Cq, mr: Mr;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 8 })));
  mr = must(
    rig.run(regMr(pd, rig.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND })),
  );
});

function makeQp(pd: Pd, cq: Cq, srq?: Srq) {
  const plan = {
    type: "rc",
    sendCq: cq,
    recvCq: cq,
    maxSendWr: 6,
    maxRecvWr: 6,
    sqSigAll: true,
  } as const;
  return rig.run(createQp(pd, { ...plan, ...(srq && { srq }) }));
}

function readyQp(pd: Pd, cq: Cq): Qp {
  const qp = must(makeQp(pd, cq));
  qp.life.state = "rts";
  return qp;
}

function bindOf(mw: Mw): SendRequest {
  const access = IBV_ACCESS_REMOTE_READ;
  return { opcode: "bind-mw", bind: { mw, mr, rkey: incRkey(mw.rkey), access } };
}

describe("an object of before the RNIC failed", () => {
  it("a shared receive queue takes no receives, and no pointer of another queue is touched", () => {
    const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    rig.run(reopenDevice(device, rig.plan));
    const place = device.state.space3 + srq.ring.queue * SPACE3_BYTES;
    const before = rig.load(place, SPACE3_BYTES);
    rig.registers.length = 0;
    const answer = rig.run(postSrqRecv(srq, { sges: [] }));
    equal(answer?.errno, "ENOENT");
    same(rig.load(place, SPACE3_BYTES), before);
    same(rig.registers, []);
  });

  it("completion and shared receive queues are for no new queue pair", () => {
    const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    rig.run(reopenDevice(device, rig.plan));
    const fresh = allocPd(device);
    const freshCq = must(rig.run(createCq(device, { entries: 8 })));
    const withOldCq = makeQp(fresh, cq);
    ok(failed(withOldCq) && withOldCq.errno === "ENOENT");
    const withOldSrq = makeQp(fresh, freshCq, srq);
    ok(failed(withOldSrq) && withOldSrq.errno === "ENOENT");
    equal(cq.place.users, 0);
  });

  it("a memory window is not bound", () => {
    const mw = must(rig.run(allocMw(pd, 2)));
    rig.run(reopenDevice(device, rig.plan));
    const qp = readyQp(allocPd(device), must(rig.run(createCq(device, { entries: 8 }))));
    equal(rig.run(postSend(qp, bindOf(mw)))?.errno, "EINVAL");
  });
});

describe("wrComplete", () => {
  it("leaves a window's key what it was where a later request of the batch is at fault", () => {
    const qp = readyQp(pd, cq);
    const mw = must(rig.run(allocMw(pd, 2)));
    const { rkey } = mw;
    const batch = wrStart(qp);
    wrAdd(batch, bindOf(mw));
    wrAdd(batch, { opcode: "read", sges: [sge(mr)] });
    ok(failed(rig.run(wrComplete(batch))));
    equal(mw.rkey, rkey);
  });
});

describe("a completion queue that is being resized", () => {
  it("gives up on an RNIC that dies before it has closed the old ring", () => {
    // The rig's firmware says yes, and never writes the entry that closes the ring.
    equal(rig.run(resizeCq(cq, 16))?.errno, "ENOENT");
    equal(cq.place.resizing, false);
    equal(cq.entries, 16);
    same(rig.run(waitCompletion(cq, { deadline: rig.now + 10 })), []);
  });

  it("ends a wait for completions at its deadline", () => {
    cq.place.resizing = true;
    const deadline = rig.now + 5_000;
    same(rig.run(waitCompletion(cq, { deadline })), []);
    equal(rig.now, deadline);
  });
});

describe("createSrq", () => {
  it("refuses half an element", () => {
    const answer = rig.run(createSrq(pd, { maxWr: 3, maxSge: 1.5 }));
    ok(failed(answer) && answer.errno === "EINVAL");
  });
});
