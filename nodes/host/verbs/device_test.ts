import { deepStrictEqual as same, ok, strictEqual as equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  decodeEntry,
  decodeField,
  encodeField,
  fieldAddress,
  PLACEMENTS,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { QUEUE_PLAN } from "../../../fabric/rack/plan/queue_plan.ts";
import { failed, handleEvent, ProgramError, storePointer } from "./device.ts";
import { allocPd, deregMr, regMr } from "./memory_region.ts";
import { createCq } from "./create_cq.ts";
import { gsiOf, sendMessage } from "../cm/gsi.ts";
import { bootDevice, reopenDevice } from "../open_device.ts";
import { VerbsRig } from "../testing/verbs_testing.ts";
import { SIGNALS } from "../cpu/program.ts";

describe("bootDevice", () => {
  it("Q-04 (in part): lays the three spaces out for K queues, each in one piece", () => {
    const rig = new VerbsRig({ queues: 64 });
    rig.run(bootDevice(rig, rig.plan));
    const { spaces } = rig.sent("init")[0]!;
    equal(spaces.queues, 64);
    ok(spaces.space2 - spaces.space1 >= 64 * 32 && spaces.space3 - spaces.space2 >= 64 * 16);
  });

  it("Q-05, Q-07: as records a queue's parts lie together, and the driver stores past the RNIC's word", () => {
    const placement = PLACEMENTS["both-in-3"];
    const queuePlan = { ...QUEUE_PLAN, placement, layout: "record" } as const;
    const rig = new VerbsRig({ queues: 64, queuePlan });
    const device = rig.run(bootDevice(rig, rig.plan));
    const { space1, space2, space3 } = rig.sent("init")[0]!.spaces;
    same([space2 - space1, space3 - space1], [32, 48]);
    const { store } = device.state;
    const at = fieldAddress(store, device.state, { queue: 5, field: "rnicPointer" });
    equal(at, device.state.space3 + 5 * 64);
    rig.store(at, encodeField("rnicPointer", 77));
    const queue = { queue: 5, stamp: 0 };
    const stamp = storePointer(device, queue, 9);
    equal(decodeField("rnicPointer", rig.load(at, 4)), 77);
    same(decodeEntry(store, 3, rig.load(at, 16)), { rnicPointer: 77, hostPointer: 9, stamp });
  });

  it("P-02 (in part): plans the flush mechanism by architecture and DDIO", () => {
    const plans = [
      { architecture: "ddio", ddio: false },
      { architecture: "ddio", ddio: true },
      { architecture: "ddio+ns", ddio: false },
      { architecture: "ddio+ns", ddio: true },
      { architecture: "ddio", ddio: true, domain: "eadr" },
      { architecture: "ddio", ddio: true, domain: "wsp" },
      { architecture: "ddio", ddio: false, domain: "wsp" },
    ] as const;
    const found = plans.map((changes) => {
      const rig = new VerbsRig(changes);
      rig.run(bootDevice(rig, rig.plan));
      return rig.sent("init")[0]!.persistence;
    });
    same(found, [
      { flow: 1, flush: "read", noSnoop: false },
      { flow: 2, flush: "cpu", noSnoop: false },
      { flow: 1, flush: "read", noSnoop: true },
      { flow: 1, flush: "read", noSnoop: true },
      { flow: 2, flush: "read", noSnoop: false },
      { flow: 2, flush: "none", noSnoop: false },
      { flow: 1, flush: "none", noSnoop: false },
    ]);
  });

  it("makes QP 1 and posts its receives before it can receive", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    equal(rig.sent("create-qp")[0]!.qpn, 1);
    equal(device.cm.gsi.qp.life.state, "rts");
    ok(device.cm.gsi.qp.rq.requests > 64);
    equal(rig.registers.length, 1);
  });

  it("ends the boot with a ProgramError where the firmware refuses", () => {
    const rig = new VerbsRig();
    rig.refuse = ({ op }) => {
      return op === "init" ? { status: "error", errno: "EINVAL", reason: "too many" } : undefined;
    };
    throws(() => rig.run(bootDevice(rig, rig.plan)), ProgramError);
  });
});

describe("bootDevice without a card", () => {
  it("waits for the bus to come up, and opens then", () => {
    const rig = new VerbsRig();
    rig.card = undefined;
    rig.refuse = () => ({ status: "error", errno: "EINVAL", reason: "the bus link is down" });
    const steps = bootDevice(rig, rig.plan);
    const waits: string[] = [];
    for (let step = steps.next({ kind: "done" });; step = steps.next({ kind: "done" })) {
      if (step.done) {
        equal(step.value.cm.gsi.qp.qpn, 1);
        break;
      }
      const [source] = step.value.kind === "any" ? step.value.sources : [];
      waits.push(source?.kind ?? step.value.kind);
      if (source?.kind === "signal") {
        equal(source.name, SIGNALS.busUp);
        rig.card = 1;
        rig.refuse = () => undefined;
      }
    }
    equal(waits.filter((kind) => kind === "signal").length, 1);
  });
});

describe("reopenDevice", () => {
  it("makes everything of before stale, so that its numbers cannot hurt what is new", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    const pd = allocPd(device);
    const mr = rig.run(regMr(pd, rig.allocate(64), { access: 0 }));
    ok(!failed(mr));
    rig.run(reopenDevice(device, rig.plan));
    const sent = rig.commands.length;
    const answer = rig.run(deregMr(mr));
    ok(failed(answer) && answer.errno === "ENOENT");
    equal(rig.commands.length, sent);
    const again = rig.run(regMr(pd, rig.allocate(64), { access: 0 }));
    ok(failed(again) && again.errno === "ENOENT");
    ok(!failed(rig.run(createCq(device, { entries: 4 }))));
  });
});

describe("reopenDevice, while others run", () => {
  const UNREACHABLE = { status: "error", errno: "EINVAL", reason: "the bus link is down" } as const;
  const NOTE = {
    to: 0x0a00_0002,
    message: {
      type: "DREP",
      localCommId: 1,
      remoteCommId: 2,
      transactionId: 0n,
      privateData: new Uint8Array(),
    },
  } as const;

  it("keeps QP 1 of before, which takes nothing, until there is a new one", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    const before = gsiOf(device).qp.life;
    const looked: boolean[] = [];
    rig.refuse = () => {
      rig.registers.length = 0;
      rig.run(sendMessage(gsiOf(device), NOTE));
      looked.push(gsiOf(device).qp.life === before && rig.registers.length === 0);
      return undefined;
    };
    rig.run(reopenDevice(device, rig.plan));
    ok(looked.length > 3 && looked.every((each) => each));
    ok(gsiOf(device).qp.life !== before);
  });

  it("is done with whatever is there when the card fails again, and by the next call", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    let commands = 0;
    rig.refuse = () => void commands++;
    rig.run(reopenDevice(device, rig.plan));
    const all = commands;
    for (let last = 0; last < all; last++) {
      commands = 0;
      rig.card = 0;
      rig.refuse = () => {
        if (commands++ < last) return undefined;
        rig.card = undefined;
        return UNREACHABLE;
      };
      rig.run(reopenDevice(device, rig.plan));
      rig.run(sendMessage(gsiOf(device), NOTE));
    }
    rig.refuse = () => undefined;
    rig.run(reopenDevice(device, rig.plan));
    equal(gsiOf(device).qp.life.state, "rts");
  });
});

describe("handleEvent", () => {
  it("notes that a queue pair has failed", () => {
    const rig = new VerbsRig();
    const device = rig.run(bootDevice(rig, rig.plan));
    handleEvent(device, { type: "COMM_EST", qpn: 1 });
    equal(device.state.queuePairs.get(1)!.life.state, "rts");
    handleEvent(device, { type: "QP_FATAL", qpn: 1 });
    equal(device.state.queuePairs.get(1)!.life.state, "err");
  });
});
