/** How full a ring is by what the RNIC has written of it: never with more room than there is. */
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUE_PLAN, type QueuePlan } from "../../../fabric/rack/plan/queue_plan.ts";
import { encodeField, fieldAddress } from "../../../fabric/wire/host_bus/queue_placement.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { must } from "./device.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "./flags.ts";
import { allocPd, regMr } from "./memory_region.ts";
import { postSend, sge } from "./post.ts";
import { createQp } from "./queue_pair.ts";
import { queueFill, queueInformation } from "./queue_fill.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";

/** A send queue of 16 units from unit `tail` on, `used` of them filled; the RNIC's copy of its pointer is at `copy`. */
function seen(
  readPointer: QueuePlan["readPointer"],
  { tail, used, copy }: { readonly tail: number; readonly used: number; readonly copy: number },
): { read: number; told: number; free: number } {
  const rig = new VerbsRig({ queuePlan: { ...QUEUE_PLAN, readPointer } });
  const device = rig.run(bootDevice(rig, rig.plan));
  const pd = allocPd(device);
  const cq = must(rig.run(createCq(device, { entries: 64 })));
  const mr = must(rig.run(regMr(pd, rig.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE })));
  const sizes = { sendCq: cq, recvCq: cq, maxSendWr: 15, maxRecvWr: 1 };
  const qp = must(rig.run(createQp(pd, { type: "rc", ...sizes })));
  qp.life.state = "rts";
  equal(qp.sq.depth, 16);
  const send = (sendFlags = 0) => ({ opcode: "send", sendFlags, sges: [sge(mr, 0, 64)] }) as const;
  for (let i = 0; i < tail; i++) {
    rig.run(postSend(qp, send(IBV_SEND_SIGNALED)));
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: qp.sq.tail });
    rig.run(pollCq(cq, 1));
  }
  for (let i = 0; i < used; i++) equal(rig.run(postSend(qp, send())), undefined);
  const { state } = device, { queue } = qp.sq;
  const at = fieldAddress(state.store, state, { queue, field: "rnicPointer" });
  rig.store(at, encodeField("rnicPointer", copy));
  const depth = fieldAddress(state.store, state, { queue, field: "depth" });
  rig.store(depth, encodeField("depth", 16));
  const { read, free } = must(rig.run(queueFill(qp, "send")));
  return { read, told: must(rig.run(queueInformation(device, queue))).rnicPointer, free };
}

describe("queueFill", () => {
  it("Q-03: believes the RNIC's copy where it is of this pass, up to three quarters of the ring", () => {
    for (const tail of [0, 9]) {
      for (
        const [used, taken, isBelieved] of [
          [12, 5, true],
          [12, 12, true],
          [13, 5, false],
          [15, 1, false],
          [4, 5, false],
          [0, 1, false],
          [3, 3, true],
        ] as const
      ) {
        const copy = (tail + taken) % 16, read = isBelieved ? copy : tail;
        const free = 15 - used + (isBelieved ? taken : 0);
        same(seen("batched", { tail, used, copy }), { read, told: read, free }, `${used} ${taken}`);
      }
    }
  });

  it("Q-03: goes by completions alone where the RNIC tells at evictions", () => {
    same(seen("at-eviction", { tail: 2, used: 5, copy: 4 }), { read: 2, told: 2, free: 10 });
  });
});
