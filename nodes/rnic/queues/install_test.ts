import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { QUEUES_MOST } from "../../../fabric/rack/plan/queue_plan.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { createDevice } from "../device.ts";
import { takeCommand } from "../firmware/command.ts";
import type { Device } from "../state/device.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";

/** Counts what is looked at of an array. */
function watched<T>(items: T[], looks: { count: number }): T[] {
  return new Proxy(items, {
    get(target, key) {
      looks.count++;
      return Reflect.get(target, key);
    },
  });
}

/** A card that has been opened, with room for so many queues. */
function card(queues: number, looks: { count: number }): Device {
  const bare = createDevice("a.rnic", rnicPlan("a"), { seed: 1 });
  const device: Device = {
    ...bare,
    owners: watched([...bare.owners], looks),
    slots: watched([...bare.slots], looks),
  };
  const spaces = { queues, space1: 0, space2: 2 ** 30, space3: 2 ** 31 };
  const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
  assert.equal(carryOut(device, { op: "init", spaces, persistence }).status, "ok");
  return device;
}

function carryOut(device: Device, command: RnicCommand): RnicReply {
  let answer: RnicReply | undefined;
  device.out = {
    tracing: false,
    trace() {},
    report() {},
    send: (_port, message, departAt) => {
      if (message.kind === "reply") answer = message.reply;
      return departAt;
    },
  };
  takeCommand(device, { kind: "command", id: 1, command });
  return answer!;
}

const RING = { address: 2 ** 32, units: 4 };
const CREATE_QP = {
  op: "create-qp",
  type: "rc",
  sq: RING,
  rq: RING,
  rqStride: 16,
  sendCq: 0,
  recvCq: 0,
  pd: 1,
  persistCompletion: "persistence",
} as const;

function createQp(device: Device): Extract<RnicReply, { op: "create-qp" }> {
  const reply = carryOut(device, CREATE_QP);
  assert(reply.status === "ok" && reply.op === "create-qp", JSON.stringify(reply));
  return reply;
}

describe("firmware, making queues", () => {
  it("Q-11: 65 536 queue pairs fit, and each costs as many looks for its numbers as the first", () => {
    const looks = { count: 0 };
    const device = card(QUEUES_MOST, looks);
    assert.equal(carryOut(device, { op: "create-cq", ring: RING, vector: null }).status, "ok");
    createQp(device);
    let before = looks.count;
    createQp(device);
    const each = looks.count - before;
    for (let made = 2; made < 65_536; made++) {
      before = looks.count;
      createQp(device);
      assert(looks.count - before === each, `Queue pair ${made}: ${looks.count - before} looks`);
    }
    assert.deepEqual([device.queuePairs.size, device.lowestFree], [65_536, {
      queue: 131_071,
      slot: 65_535,
    }]);
  });

  it("a new queue has the lowest number that is free, and a new queue pair the lowest place", () => {
    const device = card(16, { count: 0 });
    carryOut(device, { op: "create-cq", ring: RING, vector: null });
    const [, second, third] = Array.from({ length: 4 }, () => createQp(device));
    for (const { qpn } of [third!, second!]) {
      assert.equal(carryOut(device, { op: "destroy-qp", qpn }).status, "ok");
    }
    const places = [createQp(device), createQp(device), createQp(device)].map((made) => [
      made.sqQueue,
      made.rqQueue,
      device.queuePairs.get(made.qpn)!.slot,
    ]);
    assert.deepEqual(places, [[3, 4, 1], [5, 6, 2], [9, 10, 4]]);
    createQp(device);
    createQp(device);
    const refused = carryOut(device, CREATE_QP);
    assert.equal(refused.status === "error" && refused.errno, "ENOMEM", JSON.stringify(refused));
  });
});
