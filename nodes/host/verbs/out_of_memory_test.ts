/** Verbs that need memory for a ring: ENOMEM where the host has none left, with nothing changed. */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { OutOfMemory } from "../memory/address_map.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { failed, must } from "./device.ts";
import { allocPd, deallocPd } from "./memory_region.ts";
import type { Steps } from "../cpu/program.ts";
import { createQp } from "./queue_pair.ts";
import { resizeCq } from "./resize_cq.ts";
import { createSrq } from "./shared_receive_queue.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Device, Pd } from "./objects.ts";

let rig: VerbsRig, device: Device, pd: Pd, cq: Cq;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 8 })));
  rig.commands.length = 0;
  rig.allocateContiguous = () => {
    throw new OutOfMemory("Cannot allocate 1 B: 0 B of DRAM are left");
  };
});

function isRefused(steps: Steps<unknown>): void {
  const answer = rig.run(steps);
  ok(failed(answer) && answer.errno === "ENOMEM", JSON.stringify(answer));
  same(rig.commands, []);
  equal(deallocPd(pd), undefined);
}

describe("a host without memory", () => {
  it("makes no completion queue", () => isRefused(createCq(device, { entries: 8 })));

  it("makes no shared receive queue", () => isRefused(createSrq(pd, { maxWr: 8 })));

  it("makes no queue pair", () => {
    const plan = { sendCq: cq, recvCq: cq, maxSendWr: 6, maxRecvWr: 6 } as const;
    isRefused(createQp(pd, { type: "rc", ...plan }));
    equal(cq.place.users, 0);
  });

  it("leaves a completion queue as large as it is, and in use", () => {
    const { entries } = cq;
    isRefused(resizeCq(cq, 100));
    same([cq.entries, cq.place.resizing], [entries, false]);
    same(rig.run(pollCq(cq, 1)), []);
  });
});
