import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "./flags.ts";
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { CQ_ARM_OFFSET, decodeCqArm } from "../../../fabric/wire/host_bus/queue_information.ts";
import { decodeSpace3, encodeSpace1 } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import { pollCq, reqNotifyCq, waitCompletion } from "./completion_queue.ts";
import { createCq, destroyCq } from "./create_cq.ts";
import { getCqEvent } from "./comp_channel.ts";
import { failed, must } from "./device.ts";
import { allocPd, regMr } from "./memory_region.ts";
import { postRecv, postSend, sge } from "./post.ts";
import { createQp, destroyQp, modifyQp, queryQp } from "./queue_pair.ts";
import { bootDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Device, Mr, Qp, SendRequest, VerbError } from "./objects.ts";

let rig: VerbsRig, device: Device, cq: Cq, mr: Mr, qp: Qp;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  const pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 8 })));
  mr = must(rig.run(regMr(pd, rig.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE })));
  qp = must(
    rig.run(createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, maxSendWr: 9, maxRecvWr: 9 })),
  );
  qp.life.state = "rts";
  rig.registers.length = 0;
});

function send(wrId: number, isSignaled = true): SendRequest {
  return {
    opcode: "send",
    wrId,
    sendFlags: isSignaled ? IBV_SEND_SIGNALED : 0,
    sges: [sge(mr, 0, 1000)],
  };
}

describe("pollCq", () => {
  it("finds nothing in a new ring, and each completion once, over many passes", () => {
    same(rig.run(pollCq(cq, 8)), []);
    for (let i = 0; i < 5 * cq.entries; i++) {
      rig.run(postSend(qp, send(i)));
      rig.complete(cq, { qpn: qp.qpn, wqeIndex: qp.sq.tail });
      same(rig.run(pollCq(cq, 8)).map(({ wrId }) => wrId), [i]);
    }
    same(rig.run(pollCq(cq, 8)), []);
  });

  it("§7 #24: one signalled completion frees the unsignalled ones before it", () => {
    rig.run(postSend(qp, Array.from({ length: 9 }, (_, i) => send(i, i === 8))));
    equal(rig.run(postSend(qp, send(9)))?.errno, "ENOMEM");
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: 8 });
    same(rig.run(pollCq(cq, 8)).map(({ wrId, opcode }) => [wrId, opcode]), [[8, "send"]]);
    equal(qp.sq.requests, 0);
    equal(rig.run(postSend(qp, send(9))), undefined);
  });

  it("§7 #25: an unsignalled send that fails completes with its error", () => {
    rig.run(postSend(qp, send(5, false)));
    rig.complete(cq, { opcode: "requester-error", status: "RETRY_EXC_ERR", qpn: qp.qpn });
    same(rig.run(pollCq(cq, 8)).map(({ wrId, status }) => [wrId, status]), [[5, "RETRY_EXC_ERR"]]);
    equal(qp.life.state, "err");
  });

  it("P-26: a RECV that persistence consumed brings VA, length and PSN", () => {
    rig.run(postRecv(qp, { wrId: 3, sges: [sge(mr, 0, 64)] }));
    const cqe = {
      opcode: "recv-persistence",
      psn: 77,
      va: 0x6000_0001_0000n,
      byteCount: 512,
    } as const;
    rig.complete(cq, { ...cqe, qpn: qp.qpn });
    const [completion] = rig.run(pollCq(cq, 8));
    same(
      [completion!.opcode, completion!.wrId, completion!.psn, completion!.va, completion!.byteLen],
      ["recv-persistence", 3, 77, 0x6000_0001_0000, 512],
    );
  });

  it("Q-12: tells how far it is every quarter of the ring, in space 3", () => {
    const told: number[] = [];
    for (let i = 0; i < cq.entries; i++) {
      rig.run(postSend(qp, send(i)));
      rig.complete(cq, { qpn: qp.qpn, wqeIndex: qp.sq.tail });
      rig.run(pollCq(cq, 8));
      told.push(decodeSpace3(rig.load(device.state.space3 + cq.cqn * 16, 16)).pointer);
    }
    equal(cq.entries, 16);
    same([...new Set(told)], [0, 4, 8, 12]);
    equal(told.at(-1), 0);
  });

  it("passes over completions of a queue pair that is gone", () => {
    rig.run(postSend(qp, send(1)));
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: 0 });
    equal(rig.run(destroyQp(qp)), undefined);
    same(rig.run(pollCq(cq, 8)), []);
  });
});

describe("waitCompletion", () => {
  it("gives up at its deadline", () => {
    same(rig.run(waitCompletion(cq, { mode: "poll", deadline: 1e9 })), []);
    equal(rig.now, 1e9);
  });

  it("arms before it sleeps, with what it has taken", () => {
    rig.run(postSend(qp, send(1)));
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: 0 });
    rig.run(pollCq(cq, 8));
    rig.registers.length = 0;
    same(rig.run(waitCompletion(cq, { mode: "interrupt", deadline: 1e9 })), []);
    equal(rig.registers[0]!.offset, CQ_ARM_OFFSET);
    same(decodeCqArm(rig.registers[0]!.bytes), { cqn: cq.cqn, position: 1, solicitedOnly: false });
  });

  it("§7 #23: finds what came between its last look and the arm", () => {
    rig.run(postSend(qp, send(4)));
    const steps = waitCompletion(cq, { mode: "interrupt", deadline: 1e9 });
    const first = steps.next({ kind: "done" });
    ok(!first.done && first.value.kind === "time");
    rig.complete(cq, { qpn: qp.qpn, wqeIndex: 0 });
    same(rig.run(steps).map(({ wrId }) => wrId), [4]);
  });

  it("comes back for a signal whose cause is there already, though it was not counted", () => {
    const also = { signal: "news", ready: () => true };
    same(rig.run(waitCompletion(cq, { also })), []);
  });
});

describe("createCq and destroyCq", () => {
  it("§7 #17: EINVAL for no entries or too many", () => {
    for (const entries of [0, -1, 2.5, 2 ** 21]) {
      const answer = rig.run(createCq(device, { entries }));
      equal((answer as VerbError).errno, "EINVAL", `${entries}`);
    }
  });

  it("§4.4: EBUSY while a queue pair completes there", () => {
    equal(rig.run(destroyCq(cq))?.errno, "EBUSY");
    rig.run(destroyQp(qp));
    equal(rig.run(destroyCq(cq)), undefined);
  });

  it("has no events where none were asked for", () => {
    const quiet = must(rig.run(createCq(device, { entries: 4, interrupts: false })));
    ok(failed(rig.run(reqNotifyCq(quiet))));
    ok(failed(rig.run(getCqEvent(quiet))));
  });
});

describe("modifyQp and queryQp", () => {
  it("§7 #6: a refused change never reaches the RNIC", () => {
    qp.life.state = "init";
    const sent = rig.commands.length;
    equal(rig.run(modifyQp(qp, { state: "rts" }))?.errno, "EINVAL");
    same([rig.commands.length, qp.life.state], [sent, "init"]);
  });

  it("§4.1: RESET empties the rings", () => {
    rig.run(postSend(qp, [send(1), send(2)]));
    equal(rig.run(modifyQp(qp, { state: "reset" })), undefined);
    same([qp.sq.requests, qp.sq.used, qp.sq.write], [0, 0, qp.sq.depth - 1]);
  });

  it("Q-04 (in part): reads the state from space 1, which is the RNIC's to write", () => {
    const information = {
      wqeAddress: 0,
      indexAddress: 0,
      kind: "sq",
      state: "err",
      valid: true,
      owner: qp.qpn,
      pointer: 0,
    } as const;
    rig.store(device.state.space1 + qp.sq.queue * 32, encodeSpace1(information));
    const answer = rig.run(queryQp(qp));
    ok(!failed(answer));
    equal(answer.state, "err");
    equal(answer.caps.maxSendWr, 9);
  });
});
