import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { entryOfEvent } from "../../../fabric/wire/host_bus/event_entry.ts";
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { CQ_ARM_OFFSET } from "../../../fabric/wire/host_bus/queue_information.ts";
import { EVENT_VECTOR, openEventQueue, serveEvents } from "./event_queue.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";

function event(qpn: number): RnicEvent {
  return { type: "QP_FATAL", qpn };
}

describe("serveEvents", () => {
  it("delivers events in their order, also what comes while the queue is being armed, before it sleeps", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    const cq = rig.run(openEventQueue(device));
    device.state.eventQueue = cq;
    const comes = (qpn: number) => rig.complete(cq, entryOfEvent(event(qpn)));
    const delivered: unknown[] = [];
    let late = [3, 4];
    const { registerWrite } = rig;
    rig.registerWrite = function* (offset, bytes) {
      // Between the driver's last look and the card's taking of the arm.
      const [qpn, ...others] = late;
      late = others;
      if (offset === CQ_ARM_OFFSET && qpn !== undefined) comes(qpn);
      yield* registerWrite.call(rig, offset, bytes);
    };
    comes(1), comes(2);
    const steps = serveEvents(device, (each) => void delivered.push("qpn" in each && each.qpn));
    const sleeps = () => {
      for (let waits = 0; waits < 50; waits++) {
        const { value } = steps.next({ kind: "done" });
        if (value?.kind === "any") return value.sources;
      }
      return undefined;
    };
    same(sleeps(), [{ kind: "interrupt", vector: EVENT_VECTOR }]);
    same(delivered, [1, 2, 3, 4]);
    comes(5);
    equal(sleeps()?.length, 1);
    same(delivered, [1, 2, 3, 4, 5]);
  });

  it("waits for a queue where the card is being opened", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    const delivered: unknown[] = [];
    const steps = serveEvents(device, (each) => void delivered.push(each));
    equal(steps.next({ kind: "done" }).value?.kind, "any");
    const cq = rig.run(openEventQueue(device));
    device.state.eventQueue = cq;
    rig.complete(cq, entryOfEvent(event(7)));
    steps.next({ kind: "done" });
    same(delivered, [event(7)]);
  });
});
