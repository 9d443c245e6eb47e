import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import {
  ackCqEvents,
  createCompChannel,
  destroyCompChannel,
  getChannelEvent,
  getCqEvent,
} from "./comp_channel.ts";
import { pollCq, reqNotifyCq } from "./completion_queue.ts";
import { createCq, destroyCq } from "./create_cq.ts";
import { failed, must } from "./device.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { CompChannel, Cq, Device, VerbError } from "./objects.ts";
import type { Steps, Wait } from "../cpu/program.ts";

let rig: VerbsRig, device: Device, channel: CompChannel, first: Cq, second: Cq;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  channel = createCompChannel(device);
  [first, second] = [0, 1].map(() => must(rig.run(createCq(device, { entries: 8, channel })))) as [
    Cq,
    Cq,
  ];
});

/** Up to the first wait for something to happen, or the end. */
function run<T>(steps: Steps<T>): { readonly waits?: Wait; readonly value?: T } {
  for (;;) {
    const { value, done } = steps.next({ kind: "done" });
    if (done) return { value };
    if (value.kind === "any") return { waits: value };
  }
}

function signalsOf({ waits }: ReturnType<typeof run>): string[] {
  return waits?.kind === "any"
    ? waits.sources.flatMap((source) => source.kind === "signal" ? [source.name] : [])
    : [];
}

function errnoOf(answer: unknown): string | undefined {
  return failed(answer as VerbError) ? (answer as VerbError).errno : undefined;
}

describe("a completion channel", () => {
  it("§4.4: has each event of its queues once, of the queue that was armed, and of no other", () => {
    rig.complete(first, {});
    const steps = getChannelEvent(channel);
    equal(run(steps).value, undefined, "none is armed");
    rig.run(reqNotifyCq(second));
    equal(run(steps).value, undefined, "it has no completion");
    rig.complete(second, {});
    equal(run(steps).value, second);
    rig.run(pollCq(second, 8));
    equal(run(getChannelEvent(channel)).value, undefined, "the event is taken");
    same([first.place.unacknowledged, second.place.unacknowledged], [0, 1]);
  });

  it("§4.4: a queue cannot go before its events are acknowledged, nor a channel before its queues", () => {
    rig.run(reqNotifyCq(first));
    rig.complete(first, {});
    equal(run(getChannelEvent(channel)).value, first);
    equal(errnoOf(rig.run(destroyCq(first))), "EBUSY");
    equal(errnoOf(ackCqEvents(first, 2)), "EINVAL");
    equal(ackCqEvents(first, 1), undefined);
    equal(rig.run(destroyCq(first)), undefined);
    equal(errnoOf(destroyCompChannel(channel)), "EBUSY");
    equal(rig.run(destroyCq(second)), undefined);
    equal(destroyCompChannel(channel), undefined);
    equal(errnoOf(destroyCompChannel(channel)), "EINVAL");
  });

  it("a thread that waits for its events is woken, and told, where another one destroys it", () => {
    for (const cq of [first, second]) rig.run(destroyCq(cq));
    const steps = getChannelEvent(channel), waiting = run(steps);
    rig.signals.length = 0;
    equal(destroyCompChannel(channel), undefined);
    same(signalsOf(waiting).filter((name) => rig.signals.includes(name)).length, 1);
    equal(errnoOf(run(steps).value), "EINVAL");
  });

  it("so is one that waits for a queue's own events", () => {
    const own = must(rig.run(createCq(device, { entries: 8 })));
    rig.run(reqNotifyCq(own));
    const steps = getCqEvent(own), waiting = run(steps);
    rig.signals.length = 0;
    equal(rig.run(destroyCq(own)), undefined);
    same(signalsOf(waiting).filter((name) => rig.signals.includes(name)).length, 1);
    equal(errnoOf(run(steps).value), "EINVAL");
  });
});
