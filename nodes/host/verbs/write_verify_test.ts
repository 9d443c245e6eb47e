/** Verified writes as a program sees them: how one is asked for, and how its answer comes back. */
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_INLINE, RACKMESH_WC_VERIFY } from "./flags.ts";
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import {
  encodeVerdict,
  VERIFY_BYTES_MAX,
  VERIFY_CHECKS,
  VERIFY_LEVELS,
  VERIFY_STATUS,
} from "../../../fabric/wire/roce/verify_eth.ts";
import { ACCESS, type QpType } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { decodeSendWqe, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { pollCq } from "./completion_queue.ts";
import { createCq } from "./create_cq.ts";
import { prepareQp } from "../cm/connection.ts";
import { must } from "./device.ts";
import { endPoll, nextPoll, startPoll, wcFlags, wcRead } from "./extended_cq.ts";
import { allocPd, regMr } from "./memory_region.ts";
import { postSend, sge } from "./post.ts";
import { createQp } from "./queue_pair.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Device, Mr, Pd, Qp, SendRequest, VerifyRequest } from "./objects.ts";

const BYTES = 4096;
let rig: VerbsRig, device: Device, pd: Pd, cq: Cq, mr: Mr, qp: Qp;

function open(type: QpType): void {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 64 })));
  mr = must(rig.run(regMr(pd, rig.allocate(BYTES), { access: IBV_ACCESS_LOCAL_WRITE })));
  qp = must(
    rig.run(
      createQp(pd, { type, sendCq: cq, recvCq: cq, maxSendWr: 9, maxRecvWr: 3, sqSigAll: true }),
    ),
  );
  qp.life.state = "rts";
}

beforeEach(() => open("rc"));

function write(verify: VerifyRequest, changes: Partial<SendRequest> = {}): SendRequest {
  return {
    opcode: "write-verify",
    wrId: 7,
    sges: [sge(mr, 0, 1000)],
    remote: { va: 0x6000_0000_0000, rkey: 5 },
    verify,
    ...changes,
  };
}

/** Posts it. @returns what lies in the ring, or why it does not. */
function posted(request: SendRequest) {
  const first = (qp.sq.write + 1) % qp.sq.depth;
  const error = rig.run(postSend(qp, request));
  if (error !== undefined) return error.errno;
  return decodeSendWqe(rig.load(qp.sq.address + first * WQE_UNIT_BYTES, 2 * WQE_UNIT_BYTES));
}

function operandsOf(request: SendRequest): unknown {
  const wqe = posted(request);
  return typeof wqe === "object" ? wqe.verify : wqe;
}

describe("postSend", () => {
  it("V-04, V-09: carries level, persistence and the program's own CRC to the RNIC", () => {
    for (const level of VERIFY_LEVELS) {
      same(operandsOf(write({ level })), { level, persist: false });
    }
    same(operandsOf(write({ level: "verify", persist: true, crc: 0xcbf4_3926 })), {
      level: "verify",
      persist: true,
      crc: 0xcbf4_3926,
    });
  });

  it("Q-02: puts a small one into the WQE, its operands before the data", () => {
    rig.store(mr.address, Uint8Array.of(9, 8, 7));
    const wqe = posted(
      write({ level: "check" }, { sges: [sge(mr, 0, 3)], sendFlags: IBV_SEND_INLINE }),
    );
    same(typeof wqe === "object" && [wqe.verify?.level, wqe.inline], [
      "check",
      Uint8Array.of(9, 8, 7),
    ]);
  });

  it("V-04 (in part): refuses a verified write without a level, and a level of anything else", () => {
    const { verify: _, ...bare } = write({ level: "none" });
    equal(posted(bare), "EINVAL");
    equal(posted(write({ level: "none" }, { opcode: "write" })), "EINVAL");
    const { remote: __, ...nowhere } = write({ level: "none" });
    equal(posted(nowhere), "EINVAL");
  });

  it("V-02: refuses what is too long to be checked, and only that", () => {
    // Whether the region is as long is the RNIC's to find.
    const long = { sges: [{ ...sge(mr), length: VERIFY_BYTES_MAX + 1 }] };
    for (const level of VERIFY_LEVELS) {
      equal(operandsOf(write({ level }, long)) === "EINVAL", level !== "none", level);
    }
    const longest = write({ level: "verify-crc" }, {
      sges: [{ ...sge(mr), length: VERIFY_BYTES_MAX }],
    });
    same(operandsOf(longest), { level: "verify-crc", persist: false });
  });

  it("V-02 (in part): refuses a CRC that has not 32 bits", () => {
    for (const crc of [-1, 2 ** 32, 0.5]) equal(posted(write({ level: "check", crc })), "EINVAL");
    for (const crc of [0, 2 ** 32 - 1]) {
      same(operandsOf(write({ level: "check", crc })), { level: "check", persist: false, crc });
    }
  });

  it("V-06 (in part): is of reliable connections alone, as nothing else is answered", () => {
    open("uc");
    equal(posted(write({ level: "none" })), "EINVAL");
    open("ud");
    equal(posted(write({ level: "none" })), "EINVAL");
  });
});

const {
  written,
  "crc-mismatch": crcMismatch,
  "read-back-differs": readBackDiffers,
  "read-failed": readFailed,
} = VERIFY_STATUS;
const { "crc-before": crcBefore, "crc-after": crcAfter, persisted } = VERIFY_CHECKS;

/** Posts a verified write and completes it with this answer. */
function answered(status: number, checks: number) {
  rig.run(postSend(qp, write({ level: "verify-crc" })));
  rig.complete(cq, {
    status: status === written ? "SUCCESS" : "VERIFY_ERR",
    verify: encodeVerdict({ status, checks }),
    qpn: qp.qpn,
    wqeIndex: qp.sq.write,
  });
}

describe("pollCq", () => {
  it("V-01: tells what became of a write and what was checked", () => {
    answered(written, crcBefore | crcAfter | persisted);
    const [completion] = rig.run(pollCq(cq, 1));
    same([completion?.wrId, completion?.opcode, completion?.status, completion?.verify], [
      7,
      "write-verify",
      "SUCCESS",
      { status: "written", checks: ["crc-before", "crc-after", "persisted"] },
    ]);
  });

  it("V-01: a write that failed is no success, and the queue pair goes on", () => {
    const names = ["crc-mismatch", "read-back-differs", "read-failed"];
    for (const [i, status] of [crcMismatch, readBackDiffers, readFailed].entries()) {
      answered(status, crcBefore);
      const [completion] = rig.run(pollCq(cq, 1));
      same([completion?.status, completion?.verify], ["VERIFY_ERR", {
        status: names[i],
        checks: ["crc-before"],
      }]);
      equal(qp.life.state, "rts");
      equal(qp.sq.requests, 0);
    }
    equal(rig.run(postSend(qp, write({ level: "none" }))), undefined);
  });

  it("V-01: one that was never answered ends the queue pair and has no verdict", () => {
    rig.run(postSend(qp, write({ level: "none" })));
    const end = { opcode: "requester-error", status: "RETRY_EXC_ERR", qpn: qp.qpn } as const;
    rig.complete(cq, { ...end, wqeIndex: qp.sq.write });
    const [completion] = rig.run(pollCq(cq, 1));
    same([completion?.status, completion?.verify, qp.life.state], [
      "RETRY_EXC_ERR",
      undefined,
      "err",
    ]);
  });
});

describe("wcFlags", () => {
  it("V-01: names the verdict, of success and of failure", () => {
    answered(written, 0);
    answered(readFailed, 0);
    rig.run(postSend(qp, { opcode: "send", sges: [] }));
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: qp.sq.write });
    equal(startPoll(cq), undefined);
    const flags = [wcFlags(must(wcRead(cq)))];
    while (nextPoll(cq) === undefined) flags.push(wcFlags(must(wcRead(cq))));
    rig.run(endPoll(cq));
    same(flags, [RACKMESH_WC_VERIFY, RACKMESH_WC_VERIFY, 0]);
  });
});

describe("prepareQp", () => {
  it("V-06 (in part): lets a connection's peer send verified writes", () => {
    rig.commands.length = 0;
    must(
      rig.run(
        prepareQp({ pd, sendCq: cq, recvCq: cq, maxSendWr: 2, maxRecvWr: 2, sqSigAll: true }),
      ),
    );
    const flags = rig.commands.map((command) =>
      command.op === "modify-qp" ? command.attributes.accessFlags ?? 0 : 0
    );
    equal(flags.some((bits) => (bits & ACCESS.remoteWriteVerify) !== 0), true);
  });
});
