/** The driver's record of queues that get another size: the test plays the RNIC. */
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { failed, must } from "./device.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "./flags.ts";
import { allocPd, regMr } from "./memory_region.ts";
import { postSend, sge } from "./post.ts";
import { createQp, resizeQp } from "./queue_pair.ts";
import { refuseDepth } from "./resize_queue.ts";
import { createSrq, modifySrq, postSrqRecv } from "./shared_receive_queue.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Device, Mr, Pd, Qp, SendRequest, Srq } from "./objects.ts";

let rig: VerbsRig, device: Device, pd: Pd, cq: Cq, mr: Mr, qp: Qp;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 32 })));
  mr = must(rig.run(regMr(pd, rig.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE })));
  const sizes = { sendCq: cq, recvCq: cq, maxSendWr: 3, maxRecvWr: 3 };
  qp = must(rig.run(createQp(pd, { type: "rc", ...sizes })));
  qp.life.state = "rts";
});

function send(wrId: number, isSignaled: boolean): SendRequest {
  const sendFlags = isSignaled ? IBV_SEND_SIGNALED : 0;
  return { opcode: "send", wrId, sendFlags, sges: [sge(mr, 0, 64)] };
}

/** The RNIC resumes a queue so. */
function resumes(at: { readonly read: number; readonly written: number }): void {
  rig.refuse = ({ op }): RnicReply | undefined =>
    op === "expand-queue" ? { status: "ok", op: "queue-resumed", stamp: 0, ...at } : undefined;
}

function completeSend(wqeIndex: number): unknown[] {
  rig.complete(cq, { qpn: qp.qpn, wqeIndex });
  return rig.run(pollCq(cq, 8)).map(({ wrId, status }) => [wrId, status]);
}

describe("resizeQp", () => {
  it("Q-09: the first completion of the new ring names a unit of that, and the last of the old one of this", () => {
    for (const wrId of [0, 1]) rig.run(postSend(qp, send(wrId, true)));
    same(completeSend(0), [[0, "SUCCESS"]]);
    // Of a ring of four, in which unit 2 is next, to one of 16: two completions were written by then.
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: 1 });
    resumes({ read: 2, written: 2 });
    equal(rig.run(resizeQp(qp, { maxSendWr: 15 })), undefined);
    equal(qp.sq.depth, 16);
    const [old] = rig.run(pollCq(cq, 8));
    equal(old!.wrId, 1);
    const first = qp.sq.tail;
    rig.run(postSend(qp, Array.from({ length: 10 }, (_, i) => send(10 + i, i === 9))));
    same(completeSend((first + 9) % 16), [[19, "SUCCESS"]]);
    equal(qp.sq.requests, 0);
  });

  it("Q-09: so it does where no completion of the old ring was unread", () => {
    for (const wrId of [0, 1, 2]) {
      rig.run(postSend(qp, send(wrId, true)));
      completeSend(wrId);
    }
    resumes({ read: 3, written: 3 });
    equal(rig.run(resizeQp(qp, { maxSendWr: 15 })), undefined);
    rig.run(postSend(qp, Array.from({ length: 10 }, (_, i) => send(10 + i, i === 9))));
    same(completeSend((3 + 9) % 16), [[19, "SUCCESS"]]);
    equal(qp.sq.requests, 0);
  });
});

describe("refuseDepth", () => {
  it("Q-09: a queue can have a depth whose units hold what is outstanding where it lies, and one stays free", () => {
    const errnoOf = (tail: number, used: number, depth = 8) => {
      const ring = { ...qp.sq, depth: 16, tail, used };
      const wrong = refuseDepth({ queue: "send", ring, qp }, depth);
      return wrong?.errno ?? "may";
    };
    same([errnoOf(0, 7), errnoOf(1, 7), errnoOf(0, 8), errnoOf(2, 7)], [
      "may",
      "may",
      "EBUSY",
      "EBUSY",
    ]);
    same([errnoOf(15, 0), errnoOf(8, 1), errnoOf(7, 1)], ["may", "EBUSY", "may"]);
    equal(errnoOf(9, 15, 16), "may");
  });
});

describe("modifySrq", () => {
  const REFUSED: RnicReply = { status: "error", errno: "ENOMEM", reason: "because" };

  /** How many receives fit in beside those that are outstanding. */
  function roomOf(srq: Srq): number {
    let posted = 0;
    const recv = { sges: [sge(mr, 0, 64)] };
    while (!failed(rig.run(postSrqRecv(srq, recv)) ?? {})) posted++;
    return posted;
  }

  for (const maxWr of [4, 20]) {
    for (const isRefused of [false, true]) {
      const what = isRefused ? "is as it was where the RNIC refuses" : "has its new size after";
      it(`Q-09: the queue ${what} a change of its size from 10 to ${maxWr}`, () => {
        const srq = must(rig.run(createSrq(pd, { maxWr: 10 })));
        for (let i = 0; i < 3; i++) rig.run(postSrqRecv(srq, { sges: [sge(mr, 0, 64)] }));
        rig.refuse = ({ op }) => isRefused && op === "expand-queue" ? REFUSED : undefined;
        const given = rig.given.size;
        const wrong = rig.run(modifySrq(srq, { maxWr }));
        equal(wrong?.errno, isRefused ? "ENOMEM" : undefined);
        equal(srq.caps.maxWr, isRefused ? 10 : maxWr);
        equal(rig.given.size, given, "memory is neither lost nor left");
        equal(roomOf(srq), srq.caps.maxWr - 3);
      });
    }
  }
});
