import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import {
  decodeDoorbell,
  DOORBELL_OFFSET,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { must } from "./device.ts";
import { watchDoorbells } from "./doorbell_watch.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "./flags.ts";
import { allocPd, regMr } from "./memory_region.ts";
import { postSend, sge } from "./post.ts";
import { createQp } from "./queue_pair.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Device, Mr, Qp } from "./objects.ts";

const RETRY_PS = 5_000_000;
let rig: VerbsRig, device: Device, cq: Cq, mr: Mr, qps: Qp[];

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  const pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 32 })));
  mr = must(rig.run(regMr(pd, rig.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE })));
  const sizes = { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 1 } as const;
  qps = [0, 1].map(() => must(rig.run(createQp(pd, sizes))));
  for (const qp of qps) qp.life.state = "rts";
});

function post(qp: Qp, count: number): void {
  const one = { opcode: "send", sendFlags: IBV_SEND_SIGNALED, sges: [sge(mr, 0, 8)] } as const;
  equal(rig.run(postSend(qp, Array(count).fill(one))), undefined);
}

function complete(qp: Qp): void {
  rig.complete(cq, { qpn: qp.qpn, wqeIndex: qp.sq.tail });
  equal(rig.run(pollCq(cq, 1)).length, 1);
}

/** The watch, one look after the other: the queues that it rings for, and what it waits for then. */
function watching(): () => string {
  const steps = watchDoorbells(device, RETRY_PS);
  return () => {
    rig.registers.length = 0;
    for (;;) {
      const { value, done } = steps.next({ kind: "done" });
      if (done) return "ends";
      const isSleep = value.kind === "time" && value.at >= rig.now + RETRY_PS;
      if (value.kind !== "any" && !isSleep) continue;
      const rung = rig.registers.map(({ offset, bytes }) => {
        equal(offset, DOORBELL_OFFSET);
        return qps.findIndex(({ sq }) => sq.queue === decodeDoorbell(bytes)?.queue);
      });
      return `rings for [${rung}], ${isSleep ? "sleeps" : "waits"}`;
    }
  };
}

describe("watchDoorbells", () => {
  it("Q-06: rings again for a queue that stands still, not for one that goes on", () => {
    post(qps[0]!, 3), post(qps[1]!, 3);
    const look = watching();
    equal(look(), "rings for [], sleeps");
    complete(qps[0]!);
    equal(look(), "rings for [1], sleeps");
    equal(look(), "rings for [0,1], sleeps");
    complete(qps[0]!), complete(qps[1]!);
    equal(look(), "rings for [], sleeps");
  });

  it("Q-06: rings with the pointer and the stamp that were stored: one too many changes nothing", () => {
    post(qps[0]!, 2);
    const { queue, write: pointer, stamp } = qps[0]!.sq;
    const look = watching();
    look();
    rig.now += RETRY_PS;
    equal(look(), "rings for [0], sleeps");
    same(decodeDoorbell(rig.registers[0]!.bytes), { queue, write: { pointer, stamp } });
    equal(qps[0]!.sq.stamp, stamp);
  });

  it("Q-06: waits for a doorbell where nothing is outstanding, in a queue pair that sends, or there is no card", () => {
    equal(watching()(), "rings for [], waits");
    post(qps[0]!, 1);
    const look = watching();
    equal(look(), "rings for [], sleeps");
    qps[0]!.life.state = "err";
    equal(look(), "rings for [], waits");
    qps[0]!.life.state = "rts";
    rig.card = undefined;
    equal(look(), "rings for [], waits");
  });
});
