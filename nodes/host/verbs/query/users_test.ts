import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { VerbsRig } from "../../testing/verbs_testing.ts";
import { bootDevice } from "../../open_device.ts";
import { createAh, destroyAh } from "../address_handle.ts";
import { createCompChannel, destroyCompChannel } from "../comp_channel.ts";
import { createCq, destroyCq } from "../create_cq.ts";
import { must } from "../device.ts";
import { IBV_ACCESS_LOCAL_WRITE } from "../flags.ts";
import { allocPd, deallocPd, deregMr, regMr } from "../memory_region.ts";
import { allocMw, deallocMw } from "../memory_window.ts";
import type { VerbError } from "../objects.ts";
import { createQp, destroyQp } from "../queue_pair.ts";
import { createSrq, destroySrq } from "../shared_receive_queue.ts";

function reasonOf(answer: VerbError | undefined): string | undefined {
  equal(answer?.errno, "EBUSY");
  return answer?.reason;
}

describe("a refusal to destroy what is used", () => {
  it("names each user, once, and the call that has to come before", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    const pd = allocPd(device), channel = createCompChannel(device);
    const cq = must(rig.run(createCq(device, { entries: 8, channel })));
    const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    const sizes = { maxSendWr: 1, maxRecvWr: 1 };
    const qps = [1, 2, 3, 4, 5, 6].map(() =>
      must(rig.run(createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, srq, ...sizes })))
    );
    const mr = must(rig.run(regMr(pd, rig.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE })));
    const mw = must(rig.run(allocMw(pd, 1))), ah = must(createAh(pd, { address: 0x0a000002 }));
    const numbers = qps.map(({ qpn }) => qpn);
    const all = `queue pairs ${numbers.slice(0, 4).join(", ")} and 2 more`;
    const [region, window] = [mr.lkey, mw.rkey].map((key) => `0x${key.toString(16)}`);
    same([
      reasonOf(rig.run(destroyCq(cq))),
      reasonOf(rig.run(destroySrq(srq))),
      reasonOf(destroyCompChannel(channel)),
      reasonOf(deallocPd(pd)),
    ], [
      `Completion queue ${cq.cqn} is used by ${all}: expected destroyQp before`,
      `SRQ ${srq.srqn} is used by ${all}: expected destroyQp before`,
      `The channel is used by completion queue ${cq.cqn}: expected destroyCq before`,
      `The protection domain is used by ${all}, SRQ ${srq.srqn}, region ${region}, window ${window}, ` +
      "1 address handle: expected destroyQp, destroySrq, deregMr, deallocMw, destroyAh before",
    ]);
    for (const qp of qps.slice(1)) must(rig.run(destroyQp(qp)));
    const last = `queue pair ${numbers[0]}: expected destroyQp before`;
    equal(reasonOf(rig.run(destroyCq(cq))), `Completion queue ${cq.cqn} is used by ${last}`);
    must(rig.run(destroyQp(qps[0]!)));
    must(destroyAh(ah));
    must(rig.run(deallocMw(mw)));
    must(rig.run(deregMr(mr)));
    must(rig.run(destroySrq(srq)));
    must(deallocPd(pd));
    must(rig.run(destroyCq(cq)));
    must(destroyCompChannel(channel));
  });
});
