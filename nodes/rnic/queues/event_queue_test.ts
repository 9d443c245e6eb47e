/** The event queue as a user of completion queues, and what every completion counts. */
import { deepEqual as same, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { Cqe } from "../../../fabric/wire/host_bus/cqe.ts";
import type { Device } from "../state/device.ts";
import { complete } from "./completion_queue.ts";
import { queueEvent, setEventQueue } from "./event_queue.ts";

/** Two completion queues that are being written, so that completions wait. */
function card() {
  const counters = { cqes: 0, cqeErrors: 0 };
  const queues = [4, 5].map((cqn) => (
    { cqn, users: 0, busy: true, overflowed: false, pending: new Fifo<Cqe>() }
  ));
  const completionQueues = new Map(queues.map((cq) => [cq.cqn, cq]));
  const device = { counters, completionQueues, eventQueue: undefined } as unknown as Device;
  return { device, counters, queues };
}

describe("the event queue", () => {
  it("Q-12: has one user more as long as it is, whichever is named, and none that is not there", () => {
    const { device, queues } = card();
    const set = (cqn: number) => {
      const reply = setEventQueue(device, { op: "set-event-queue", cqn });
      return [reply?.status, ...queues.map(({ users }) => users), device.eventQueue?.cqn];
    };
    same(set(9), [undefined, 0, 0, undefined]);
    same(set(4), ["ok", 1, 0, 4]);
    same(set(4), ["ok", 1, 0, 4]);
    same(set(5), ["ok", 0, 1, 5]);
    same(set(9), [undefined, 0, 1, 5]);
  });

  it("takes each event as an entry, in their order", () => {
    const { device, queues: [first] } = card();
    setEventQueue(device, { op: "set-event-queue", cqn: 4 });
    queueEvent(device, { type: "SQ_DRAINED", qpn: 17 });
    queueEvent(device, { type: "SQ_DRAINED", qpn: 18 });
    equal(first!.pending.length, 2);
  });
});

describe("a completion", () => {
  it("counts, as an error where it is none, but not in a queue that is gone or has overflowed", () => {
    const { device, counters, queues: [, cq] } = card();
    const of = (status: Cqe["status"], cqn = 5) => {
      complete(device, cqn, { status } as Cqe);
      return [counters.cqes, counters.cqeErrors, cq!.pending.length];
    };
    same(of("SUCCESS"), [1, 0, 1]);
    same(of("WR_FLUSH_ERR"), [2, 1, 2]);
    same(of("SUCCESS"), [3, 1, 3]);
    same(of("WR_FLUSH_ERR", 9), [3, 1, 3]);
    cq!.overflowed = true;
    same(of("WR_FLUSH_ERR"), [3, 1, 3]);
  });
});
