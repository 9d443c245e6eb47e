/** Memory of rings: given back when the queue is gone, or was never made. */
import { deepStrictEqual as same, ok, strictEqual as equal, throws } from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { isThere, pollCq } from "./completion_queue.ts";
import { createCq, destroyCq } from "./create_cq.ts";
import { failed, must } from "./device.ts";
import { allocPd, deallocPd } from "./memory_region.ts";
import { postRecv, postSend } from "./post.ts";
import { createQp, destroyQp } from "./queue_pair.ts";
import { resizeCq } from "./resize_cq.ts";
import { createSrq, destroySrq } from "./shared_receive_queue.ts";
import { bootDevice, type OpenDevice, reopenDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import type { Cq, Pd, Qp, VerbError } from "./objects.ts";

const UNREACHABLE = { status: "error", errno: "EINVAL", reason: "the bus link is down" } as const;

let rig: VerbsRig, device: OpenDevice, pd: Pd, cq: Cq, given: Map<number, number>;

beforeEach(() => {
  rig = new VerbsRig();
  device = rig.run(bootDevice(rig, rig.plan));
  pd = allocPd(device);
  cq = must(rig.run(createCq(device, { entries: 8 })));
  given = new Map(rig.given);
});

function makeQp() {
  const plan = {
    type: "rc",
    sendCq: cq,
    recvCq: cq,
    maxSendWr: 6,
    maxRecvWr: 6,
    sqSigAll: true,
  } as const;
  return rig.run(createQp(pd, plan));
}

function readyQp(): Qp {
  const qp = must(makeQp());
  qp.life.state = "rts";
  return qp;
}

describe("memory of rings", () => {
  it("is given back with the queue pair, which takes no requests any more", () => {
    const qp = readyQp();
    equal(rig.given.size, given.size + 2);
    equal(rig.run(destroyQp(qp)), undefined);
    same(rig.given, given);
    for (const posted of [postSend(qp, { opcode: "send", sges: [] }), postRecv(qp, { sges: [] })]) {
      equal(rig.run(posted)?.errno, "EINVAL");
    }
  });

  it("is given back with the completion queue and the shared receive queue", () => {
    const other = must(rig.run(createCq(device, { entries: 8 })));
    const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    equal(rig.given.size, given.size + 2);
    equal(rig.run(destroyCq(other)), undefined);
    equal(rig.run(destroySrq(srq)), undefined);
    same(rig.given, given);
  });

  it("is not kept where the firmware makes none", () => {
    rig.refuse = ({ op }) => {
      const refused = op.startsWith("create-") || op === "resize-cq";
      return refused ? { status: "error", errno: "ENOMEM", reason: "no more" } : undefined;
    };
    ok(failed(makeQp()));
    ok(failed(rig.run(createCq(device, { entries: 8 }))));
    ok(failed(rig.run(createSrq(pd, { maxWr: 3 }))));
    ok(failed(rig.run(resizeCq(cq, 100))));
    same(rig.given, given);
  });

  it("of before the RNIC failed is given back once", () => {
    const qp = readyQp(), srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
    const before = rig.given.size;
    rig.run(reopenDevice(device, rig.plan));
    // The queues of the driver itself are new; of ours there were two rings, and one each.
    equal(rig.given.size, before - 4);
    equal(rig.run(destroyQp(qp))?.errno, "ENOENT");
    equal(rig.run(destroySrq(srq))?.errno, "ENOENT");
    equal(rig.run(destroyCq(cq))?.errno, "ENOENT");
    equal(rig.given.size, before - 4);
  });

  it("is as much as at first however often the RNIC fails, and wherever in being opened again", () => {
    let commands = 0;
    rig.refuse = () => void commands++;
    rig.run(reopenDevice(device, rig.plan));
    const all = commands, opened = rig.given.size;
    for (let last = 0; last <= all; last++) {
      pd = allocPd(device);
      cq = must(rig.run(createCq(device, { entries: 8 })));
      const made = readyQp(), other = must(rig.run(createCq(device, { entries: 8 })));
      commands = 0;
      rig.refuse = () => {
        if (commands++ < last) return undefined;
        rig.card = undefined;
        return UNREACHABLE;
      };
      // The RNIC is unreachable: the program can do no more.
      rig.run(destroyQp(made));
      rig.run(destroyCq(other));
      commands = 0;
      rig.card = 2 * last + 1;
      rig.run(reopenDevice(device, rig.plan));
      rig.refuse = () => undefined;
      rig.card = 2 * last + 2;
      rig.run(reopenDevice(device, rig.plan));
      equal(rig.given.size, opened, `it fails at command ${last}`);
    }
  });

  it("is given back once where the answer is here when the RNIC has failed already", () => {
    for (
      const op of [
        "create-qp",
        "create-cq",
        "create-srq",
        "destroy-qp",
        "destroy-cq",
        "destroy-srq",
      ]
    ) {
      rig.run(reopenDevice(device, rig.plan));
      pd = allocPd(device);
      const opened = rig.given.size;
      cq = must(rig.run(createCq(device, { entries: 8 })));
      const free = must(rig.run(createCq(device, { entries: 8 })));
      const srq = must(rig.run(createSrq(pd, { maxWr: 3 })));
      const qp = readyQp();
      let failing = true;
      // The core is busy meanwhile: the program finds its answer later.
      rig.refuse = (command) => {
        if (command.op === op && failing) {
          failing = false;
          rig.run(reopenDevice(device, rig.plan));
        }
        return undefined;
      };
      const answers = [
        makeQp(),
        rig.run(createCq(device, { entries: 8 })),
        rig.run(createSrq(pd, { maxWr: 3 })),
        rig.run(destroyQp(qp)),
        rig.run(destroyCq(free)),
        rig.run(destroySrq(srq)),
      ];
      ok(!failing, op);
      // What was destroyed is gone either way.
      equal(answers.some((answer) => failed(answer as VerbError)), op !== "destroy-srq", op);
      rig.refuse = () => undefined;
      rig.run(reopenDevice(device, rig.plan));
      equal(rig.given.size, opened, op);
    }
  });

  it("of a completion queue that is being resized is not given back under it", () => {
    const resizing = resizeCq(cq, 100);
    for (;;) {
      const step = resizing.next({ kind: "done" });
      ok(!step.done);
      if (step.value.kind === "any" && step.value.sources[0]?.kind === "memory") break;
    }
    equal(rig.run(destroyCq(cq))?.errno, "EBUSY");
    rig.complete(cq, { opcode: "resize" });
    equal(rig.run(resizing), undefined);
    equal(rig.run(destroyCq(cq)), undefined);
    equal(rig.given.size, given.size - 1);
  });
});

describe("a protection domain of before the RNIC failed", () => {
  it("is refused, and takes no other with it that has its number now", () => {
    rig.run(reopenDevice(device, rig.plan));
    const others = Array.from({ length: pd.handle }, () => allocPd(device));
    ok(others.some(({ handle }) => handle === pd.handle));
    equal(deallocPd(pd)?.errno, "ENOENT");
    for (const { handle } of others) ok(device.state.pds.has(handle));
  });
});

describe("a completion queue that is gone", () => {
  it("is none that a program sees with its own core, as each does QP 1's", () => {
    ok(isThere({ ...cq, device: { ...device } }));
    equal(rig.run(destroyCq(cq)), undefined);
    ok(!isThere({ ...cq }));
  });

  it("has no completions, whatever is in its memory by now", () => {
    const other = must(rig.run(createCq(device, { entries: 8 })));
    equal(rig.run(destroyCq(other)), undefined);
    const qp = readyQp();
    must(rig.run(postSend(qp, { opcode: "send", sges: [] })) ?? qp);
    rig.complete(other, { qpn: qp.qpn });
    throws(() => rig.run(pollCq(other, 8)), /EINVAL: Completion queue \d+ is gone already/);
  });

  it("of before the RNIC failed has none of a queue pair that has its number now", () => {
    const qp = readyQp();
    must(rig.run(postSend(qp, { opcode: "send", sges: [] })) ?? qp);
    rig.complete(cq, { qpn: qp.qpn });
    rig.run(reopenDevice(device, rig.plan));
    const stale = cq;
    pd = allocPd(device);
    cq = must(rig.run(createCq(device, { entries: 8 })));
    rig.refuse = ({ op }) =>
      op === "create-qp"
        ? { status: "ok", op: "create-qp", qpn: qp.qpn, sqQueue: 1, rqQueue: 2 }
        : undefined;
    equal(readyQp().qpn, qp.qpn);
    same(rig.run(pollCq(stale, 8)), []);
  });
});
