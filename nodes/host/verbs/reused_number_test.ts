/** Numbers of destroyed queues: another program may get one before its destroyer hears the answer. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { destroyCq } from "./create_cq.ts";
import { newContext } from "./device.ts";
import type { Cq, Srq } from "./objects.ts";
import { destroySrq } from "./shared_receive_queue.ts";

const NUMBER = 4;

/** A driver whose card gives the number to another queue as it answers. */
function deviceWith(another: object) {
  const completionQueues = new Map<number, object>();
  const sharedReceiveQueues = new Map<number, object>();
  const state = { epoch: 0, held: new Map(), completionQueues, sharedReceiveQueues };
  const cpu = {
    // deno-lint-ignore require-yield
    *command() {
      completionQueues.set(NUMBER, another);
      sharedReceiveQueues.set(NUMBER, another);
      return { status: "ok", op: "done" };
    },
    free: () => {},
    signal: () => {},
  };
  return { cpu, state, context: newContext() };
}

describe("A queue that gets the number of one that is being destroyed", () => {
  it("stays known to the driver, which takes it back when its program ends", () => {
    const newer = { place: {}, ring: {} };
    const device = deviceWith(newer);
    const place = { users: 0, unacknowledged: 0, leaving: false };
    const cq = { device, cqn: NUMBER, epoch: 0, place };
    device.state.held.set(place, 0);
    assert.equal(destroyCq(cq as unknown as Cq).next().value, undefined);
    assert.equal(device.state.completionQueues.get(NUMBER), newer);
    const uses = { count: 0, alive: true }, pd = { epoch: 0, uses: { count: 1 } };
    const srq = { device, srqn: NUMBER, pd, uses, ring: {} };
    assert.equal(destroySrq(srq as unknown as Srq).next().value, undefined);
    assert.equal(device.state.sharedReceiveQueues.get(NUMBER), newer);
  });
});
