import {
  deepStrictEqual as same,
  equal as loose,
  ok,
  strictEqual as equal,
} from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { decodeSendWqe, type SendWqe, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { createAh, createAhFromWc, destroyAh } from "./address_handle.ts";
import { createCq } from "./create_cq.ts";
import { must } from "./device.ts";
import { allocPd, deallocPd, regMr } from "./memory_region.ts";
import { attachMcast, detachMcast } from "./address_handle.ts";
import { postSend } from "./post.ts";
import {
  createQp,
  destroyQp,
  modifyQp,
  modifyQpUdpSport,
  type QpOptions,
  queryQp,
} from "./queue_pair.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Ah, Device, Pd, Qp, UdDestination } from "./objects.ts";

const B = 0x0a00_0002, GROUP = 0xef01_0203;

let rig: VerbsRig, device: Device, pd: Pd;

function queuePair(type: QpOptions["type"], inPd = pd): Qp {
  const cq = must(rig.run(createCq(device, { entries: 8 })));
  return must(
    rig.run(
      createQp(inPd, { type, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true }),
    ),
  );
}

function ud(): Qp {
  const qp = queuePair("ud");
  rig.run(modifyQp(qp, { state: "init", qKey: 1 }));
  rig.run(modifyQp(qp, { state: "rtr" }));
  rig.run(modifyQp(qp, { state: "rts", sqPsn: 0 }));
  return qp;
}

function send(qp: Qp, to: UdDestination): string | undefined {
  const buffer = rig.allocate(64);
  const mr = must(rig.run(regMr(pd, buffer, { access: 0 })));
  const sges = [{ address: mr.address, length: 8, lkey: mr.lkey }];
  return rig.run(postSend(qp, { opcode: "send", sges, ud: to }))?.errno;
}

function lastWqe({ sq }: Qp): SendWqe {
  const bytes = rig.load(sq.address + sq.write * WQE_UNIT_BYTES, WQE_UNIT_BYTES);
  return decodeSendWqe(bytes)!;
}

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
});

describe("createAh", () => {
  it("puts address, traffic class, hop limit and the flow label's source port into the WQE", () => {
    const qp = ud();
    const route = { trafficClass: 0xb8, hopLimit: 3, flowLabel: 0x1face };
    const ah = must(createAh(pd, { address: B, ...route }));
    equal(send(qp, { ah, qpn: 18, qKey: 5 }), undefined);
    same(lastWqe(qp).ud, {
      qKey: 5,
      qpn: 18,
      address: B,
      trafficClass: 0xb8,
      hopLimit: 3,
      udpSourcePort: 0xfac9,
    });
  });

  it("says nothing of a source port where no flow label is given: the two QPNs choose it", () => {
    const { trafficClass, hopLimit, udpSourcePort } = must(createAh(pd, { address: B }));
    same([trafficClass, hopLimit, udpSourcePort], [0, 64, 0]);
  });

  it("EINVAL for what no header has room for", () => {
    const wrong = [
      { address: -1 },
      { address: 2 ** 32 },
      { address: B, trafficClass: 256 },
      { address: B, hopLimit: -1 },
      { address: B, flowLabel: 1 << 20 },
    ];
    for (const options of wrong) {
      const answer = createAh(pd, options);
      ok("errno" in answer && answer.errno === "EINVAL", JSON.stringify(options));
    }
  });

  it("keeps its protection domain alive, until it is destroyed, which it can be once", () => {
    const own = allocPd(device);
    const ah = must(createAh(own, { address: B }));
    equal(deallocPd(own)?.errno, "EBUSY");
    equal(destroyAh(ah), undefined);
    equal(destroyAh(ah)?.errno, "EINVAL");
    equal(deallocPd(own), undefined);
    const late = createAh(own, { address: B });
    ok("errno" in late && late.errno === "EINVAL");
  });
});

describe("a UD send", () => {
  it("EINVAL by a handle of another protection domain, or one that is gone", () => {
    const qp = ud();
    const foreign = must(createAh(allocPd(device), { address: B }));
    equal(send(qp, { ah: foreign, qpn: 18, qKey: 5 }), "EINVAL");
    const gone: Ah = must(createAh(pd, { address: B }));
    destroyAh(gone);
    equal(send(qp, { ah: gone, qpn: 18, qKey: 5 }), "EINVAL");
  });
});

describe("createAhFromWc", () => {
  it("answers whom the datagram came from, with its DSCP", () => {
    const grh = new Uint8Array(40);
    grh.set([0x45, 0xbb], 20);
    grh.set([10, 0, 0, 2], 32);
    const ah = must(createAhFromWc(pd, grh));
    same([ah.address, ah.trafficClass], [B, 0xb8]);
    // C-01: RoCEv1 leaves the GRH: version, traffic class, flow label, …, source GID.
    const v1 = new Uint8Array(40);
    v1.set([0x6b, 0xba, 0xbc, 0xde]);
    v1.set([0xff, 0xff, 10, 0, 0, 2], 18);
    const back = must(createAhFromWc(pd, v1));
    same([back.address, back.trafficClass], [B, 0xb8]);
    const wrong = createAhFromWc(pd, new Uint8Array(40));
    ok("errno" in wrong && wrong.errno === "EINVAL");
  });
});

describe("a controlled Q_Key", () => {
  it("§7 #15: reads back where the driver has given it, is EPERM for a program", () => {
    const qKey = 0x8000_0000;
    const qp = queuePair("ud");
    equal(rig.run(modifyQp(qp, { state: "init", qKey }))?.errno, "EPERM");
    equal(qp.life.state, "reset");
    const driver = queuePair("ud", allocPd({ ...device, privileged: true }));
    equal(rig.run(modifyQp(driver, { state: "init", qKey })), undefined);
    equal(rig.sent("modify-qp").at(-1)!.attributes.qKey, qKey);
    equal(must(rig.run(queryQp(driver))).attributes.qKey, qKey);
  });
});

describe("modifyQpUdpSport", () => {
  it("asks the firmware in RTS, and is EINVAL before", () => {
    const qp = queuePair("rc");
    equal(rig.run(modifyQpUdpSport(qp, 55_555))?.errno, "EINVAL");
    qp.life.state = "rts";
    equal(rig.run(modifyQpUdpSport(qp, 55_555)), undefined);
    loose(rig.sent("modify-qp").at(-1)!.attributes.udpSourcePort, 55_555);
  });
});

describe("attachMcast", () => {
  it("names queue pair and group to the firmware, and so does detachMcast", () => {
    const qp = ud();
    equal(rig.run(attachMcast(qp, GROUP)), undefined);
    same(rig.sent("attach-mcast"), [{ op: "attach-mcast", qpn: qp.qpn, group: GROUP }]);
    equal(rig.run(detachMcast(qp, GROUP)), undefined);
    same(rig.sent("detach-mcast"), [{ op: "detach-mcast", qpn: qp.qpn, group: GROUP }]);
  });

  it("EINVAL for another type of queue pair, or an address outside 224/4", () => {
    equal(rig.run(attachMcast(queuePair("rc"), GROUP))?.errno, "EINVAL");
    equal(rig.run(attachMcast(queuePair("uc"), GROUP))?.errno, "EINVAL");
    equal(rig.run(attachMcast(ud(), B))?.errno, "EINVAL");
    equal(rig.sent("attach-mcast").length, 0);
  });

  it("§7 #83: what the firmware says of a destroy while attached is passed on", () => {
    const qp = ud();
    rig.refuse = (command) =>
      command.op === "destroy-qp" ? { status: "error", errno: "EBUSY", reason: "" } : undefined;
    equal(rig.run(destroyQp(qp))?.errno, "EBUSY");
    rig.refuse = () => undefined;
    equal(rig.run(destroyQp(qp)), undefined);
  });
});
