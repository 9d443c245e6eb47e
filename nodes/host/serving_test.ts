import { match, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { waitsUnarmed } from "./serving.ts";
import { VerbsRig } from "./testing/verbs_testing.ts";
import { bootDevice } from "./open_device.ts";
import { createCompChannel } from "./verbs/comp_channel.ts";
import { reqNotifyCq } from "./verbs/completion_queue.ts";
import { createCq } from "./verbs/create_cq.ts";
import { must } from "./verbs/device.ts";

describe("waitsUnarmed", () => {
  it("names the queues of a channel of which none is armed, and says nothing of another wait", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    const channel = createCompChannel(device);
    const sources = [{ kind: "interrupt", vector: channel.vector }] as const;
    equal(waitsUnarmed(device, sources), undefined, "a channel without queues");
    const cq = must(rig.run(createCq(device, { entries: 8, channel })));
    const text = waitsUnarmed(device, sources)!;
    match(text, new RegExp(`^completion queue ${cq.cqn} is not armed \\(expected reqNotifyCq`));
    equal(waitsUnarmed(device, [{ kind: "signal", name: "cm" }]), undefined);
    must(rig.run(reqNotifyCq(cq)));
    equal(waitsUnarmed(device, sources), undefined);
  });
});
