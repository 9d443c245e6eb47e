/** Memory of rings: given back when the queue is gone, or was never made. */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { type Cq, createCq, destroyCq } from "./completion_queue.ts";
import { type Device, failed, must } from "./device.ts";
import { allocPd, type Pd } from "./memory_region.ts";
import { postRecv, postSend } from "./post.ts";
import { createQp, destroyQp, type Qp } from "./queue_pair.ts";
import { resizeCq } from "./resize_cq.ts";
import { createSrq, destroySrq } from "./shared_receive_queue.ts";
import { openDevice, reopenDevice } from "./verbs.ts";
import { VerbsRig } from "./verbs_testing.ts";

let rig: VerbsRig, device: Device, pd: Pd, cq: Cq, given: Set<number>;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(openDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 8 })));
  given = new Set(rig.given);
});

function makeQp() {
  const plan = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 6, maxRecvWr: 6 } as const;
  return rig.run(createQp(pd, plan));
}

function readyQp(): Qp {
  const qp = must(makeQp());
  qp.life.state = "rts";
  return qp;
}

describe("memory of rings", () => {
  it("is given back with the queue pair, which takes no requests any more", () => {
    const qp = readyQp();
    equal(rig.given.size, given.size + 2);
    equal(rig.run(destroyQp(qp)), undefined);
    same(rig.given, given);
    for (const posted of [postSend(qp, { opcode: "send", sges: [] }), postRecv(qp, { sges: [] })]) {
      equal(rig.run(posted)?.errno, "EINVAL");
    }
  });

  it("is given back with the completion queue and the shared receive queue", () => {
    const other = must(rig.run(createCq(device, { entries: 8 })));
    const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    equal(rig.given.size, given.size + 2);
    equal(rig.run(destroyCq(other)), undefined);
    equal(rig.run(destroySrq(srq)), undefined);
    same(rig.given, given);
  });

  it("is not kept where the firmware makes none", () => {
    rig.refuse = ({ op }) => {
      const refused = op.startsWith("create-") || op === "resize-cq";
      return refused ? { status: "error", errno: "ENOMEM", reason: "no more" } : undefined;
    };
    ok(failed(makeQp()));
    ok(failed(rig.run(createCq(device, { entries: 8 }))));
    ok(failed(rig.run(createSrq(pd, { maxWr: 3 }))));
    ok(failed(rig.run(resizeCq(cq, 100))));
    same(rig.given, given);
  });

  it("of before the RNIC failed is given back once", () => {
    const qp = readyQp();
    const others = rig.given.size - 2;
    rig.run(reopenDevice(device, rig.plan));
    const opened = rig.given.size;
    ok(!rig.given.has(qp.sq.address) && !rig.given.has(qp.rq.address));
    equal(rig.run(destroyQp(qp))?.errno, "ENOENT");
    equal(rig.given.size, opened);
    ok(opened > others, "the queues of the driver itself are new");
    equal(rig.run(destroyCq(cq))?.errno, "ENOENT");
    equal(rig.run(destroyCq(cq))?.errno, "ENOENT");
    equal(rig.given.size, opened - 1);
  });
});
