/** What is under way when a region is left, or its home has failed or restarts (decisions 13, 14, 21): `a` is home, `b` far. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { PORTS } from "../../../fabric/node.ts";
import { opcodeRow } from "../../../fabric/wire/roce/opcode.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import { packetOf } from "../testing/pair_testing.ts";
import { REGION_AT, REGION_LINES, regionPlan, RegionRig } from "../testing/region_testing.ts";
import type { Side } from "../testing/rig_parts_testing.ts";
import { CARD_QPN } from "./link.ts";

/** Sends a command about a region. @returns its reply, as soon as that is there. */
function asking(
  { rig }: RegionRig,
  side: Side,
  op: "register-region" | "deregister-region",
): () => RnicReply | undefined {
  const { host } = side, id = host.nextCommand++;
  rig.toRnic(side, { kind: "command", id, command: { op, region: 0 } });
  return () => host.replies.get(id);
}

describe("a far card that leaves a region", () => {
  it("decision 21: refuses accesses from then on, while what it has dirty is written back", () => {
    const r = new RegionRig();
    r.register();
    r.store("far", 0, 7);
    r.holds = (message) => message.kind === "line" && message.op === "WbMtoI";
    const reply = asking(r, r.rig.b, "deregister-region");
    r.rig.runFor(5 * PS_PER_US);
    assert.equal(reply(), undefined, "its line is not home");
    assert.equal(r.load("far", 1), "refused");
    assert.equal(r.store("far", 0, 8), "refused");
    r.release();
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual(reply(), { status: "ok", op: "done" });
    assert.equal(r.memory(0), 7);
    assert.equal(r.counter("b", "coherenceSentGetS"), 0);
  });
});

describe("a far card that cannot tell home that it leaves", () => {
  it("decision 21: says so each time that it is asked to, and leaves when home answers again", () => {
    const r = new RegionRig();
    r.register();
    r.rig.fate = () => "drop";
    for (let time = 1; time <= 3; time++) {
      const from = r.rig.now, reply = r.command(r.rig.b, "deregister-region");
      assert.ok(reply.status === "error" && reply.errno === "ENOENT", `${time}`);
      assert.match(reply.reason, /home's card at 10.0.0.1 does not answer/);
      assert.ok(r.rig.now - from < 1000 * PS_PER_US);
    }
    r.rig.fate = () => "pass";
    assert.equal(r.command(r.rig.b, "deregister-region").status, "ok");
    assert.equal(r.load("far", 0), "refused");
  });

  it("decisions 14, 21: a recall of an earlier life is none of what it registers in this one", () => {
    const r = new RegionRig();
    const { a, b } = r.rig;
    r.command(a, "register-region");
    assert.equal(r.command(a, "deregister-region").status, "ok");
    // It greets home, which tells it that the region is withdrawn; nothing arrives any more from then on.
    const reply = asking(r, b, "register-region");
    r.rig.run(() => r.counter("b", "coherenceReceivedDeregister") > 0);
    assert.equal(reply(), undefined, "its registration is under way");
    r.rig.fate = () => "drop";
    assert.equal(r.command(a, "register-region").status, "ok");
    r.rig.run(() => r.counter("b", "coherenceSentHello") > 1);
    r.rig.fate = () => "pass";
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual(reply(), { status: "ok", op: "done" });
    r.rig.runFor(20 * PS_PER_US);
    assert.equal(r.load("far", 0), 0);
  });
});

describe("a far card's registrations", () => {
  it("decision 21: can be given up again and again", () => {
    const r = new RegionRig();
    r.command(r.rig.a, "register-region");
    for (let time = 0; time < 4; time++) {
      assert.equal(r.command(r.rig.b, "register-region").status, "ok", `${time}`);
      assert.equal(r.store("far", time, 7), "done");
      assert.equal(r.command(r.rig.b, "deregister-region").status, "ok", `${time}`);
      assert.deepEqual([r.memory(time), r.load("far", time)], [7, "refused"]);
    }
  });

  it("C-03: end with the last line of the region: what goes beyond it is refused", () => {
    const r = new RegionRig();
    r.register();
    const flush = (line: number, lines: number) => {
      const tag = 900 + 100 * line + lines;
      const access = { kind: "far-access", tag, region: 0, line, op: "flush", lines } as const;
      r.rig.toRnic(r.rig.b, access);
      r.rig.run(() => r.done.has(tag));
      return r.done.get(tag)!.result;
    };
    assert.deepEqual([r.load("far", REGION_LINES - 1), r.load("far", REGION_LINES)], [
      0,
      "refused",
    ]);
    assert.deepEqual([flush(0, REGION_LINES), flush(2, REGION_LINES - 2)], ["done", "done"]);
    assert.deepEqual([flush(0, REGION_LINES + 1), flush(2, REGION_LINES - 1)], [
      "refused",
      "refused",
    ]);
  });
});

describe("home's deregistration", () => {
  it("decision 21: ends behind an access that home's local cache has begun and has no directory's entry for", () => {
    const local = regionPlan({ placement: "local", entries: 1, leasePs: 5_000 * PS_PER_US });
    const other = regionPlan({
      ...{ id: 1, name: "t", entries: 1, leasePs: local.leasePs },
      address: REGION_AT + REGION_LINES * 64,
    });
    const r = new RegionRig(local, {}, [local, other]);
    // Home answers when its host has exposed all of its regions.
    for (const side of [r.rig.a, r.rig.b]) {
      for (const region of [0, 1]) {
        assert.equal(r.rig.command(side, { op: "register-region", region }).status, "ok");
      }
    }
    // Both entries are lent for lines of the other region.
    for (const line of [0, 1]) {
      r.rig.toRnic(r.rig.b, { kind: "far-access", tag: 900 + line, region: 1, line, op: "own" });
      r.rig.run(() => r.done.has(900 + line));
    }
    r.rig.runFor(5 * PS_PER_US);
    // The recall for the entry is answered late.
    let isLate = true;
    r.rig.fate = (from, { bytes }) => {
      const { name } = opcodeRow(packetOf(bytes).bth.opcode)!;
      return isLate && from === "b" && name === "VENDOR COHERENCE RESPONSE" ? "drop" : "pass";
    };
    const access = r.begin("far", "load", 0);
    r.rig.runFor(5 * PS_PER_US);
    const reply = asking(r, r.rig.a, "deregister-region");
    r.rig.runFor(8 * PS_PER_US);
    assert.equal(r.counter("a", "coherenceRecalls"), 1, "an entry is asked for");
    assert.deepEqual([reply(), r.done.has(access)], [undefined, false]);
    isLate = false;
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual(reply(), { status: "ok", op: "done" });
    r.rig.run(() => r.done.has(access));
    assert.equal(r.done.get(access)!.result, "done");
  });

  it("decision 21: waits for a far card that cannot be told until its queue pair fails, and not for its lease", () => {
    const leasePs = 100_000 * PS_PER_US;
    const r = new RegionRig(regionPlan({ leasePs }));
    r.register();
    r.rig.runFor(5 * PS_PER_US);
    r.rig.fate = () => "drop";
    const from = r.rig.now;
    const reply = asking(r, r.rig.a, "deregister-region");
    r.rig.runFor(100 * PS_PER_US);
    assert.equal(reply(), undefined, "the queue pair still tries");
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual(reply(), { status: "ok", op: "done" });
    assert.ok(r.rig.now - from < 400 * PS_PER_US, `${(r.rig.now - from) / PS_PER_US} us`);
  });

  it("decision 21: waits for far cards as long as they take to leave, and no longer", () => {
    const r = new RegionRig(regionPlan({ leasePs: 100_000 * PS_PER_US }));
    r.register();
    r.store("far", 0, 7);
    const from = r.rig.now;
    assert.equal(r.command(r.rig.a, "deregister-region").status, "ok");
    assert.ok(r.rig.now - from < 50 * PS_PER_US, `${(r.rig.now - from) / PS_PER_US} us`);
    assert.deepEqual([r.memory(0), r.load("far", 0)], [7, "refused"]);
  });

  it("decision 21: is heard by a far card that registers the region and is not told yet that it has it", () => {
    const r = new RegionRig(regionPlan({ leasePs: 100_000 * PS_PER_US }));
    const { a, b } = r.rig;
    r.register();
    assert.equal(r.command(b, "deregister-region").status, "ok");
    // The answer is lost, and comes behind home's word that the region is withdrawn.
    const isLost = losesAnswer(r);
    const registered = asking(r, b, "register-region"), from = r.rig.now;
    r.rig.run(isLost);
    const reply = asking(r, a, "deregister-region");
    r.rig.run(() => r.counter("b", "coherenceReceivedDeregister") > 0);
    assert.deepEqual([registered(), reply()], [undefined, undefined]);
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual([registered(), reply()], new Array(2).fill({ status: "ok", op: "done" }));
    assert.ok(r.rig.now - from < 100 * PS_PER_US, `${(r.rig.now - from) / PS_PER_US} us`);
    assert.equal(r.load("far", 0), "refused");
  });

  it("decision 21: is told again by a far card that has left, and does not know yet that home has heard it", () => {
    const r = new RegionRig(regionPlan({ leasePs: 100_000 * PS_PER_US }));
    const { a, b } = r.rig;
    r.register();
    r.rig.runFor(5 * PS_PER_US);
    // Home's answer is lost, and comes behind its word that the region is withdrawn.
    const isLost = losesAnswer(r);
    const left = asking(r, b, "deregister-region"), from = r.rig.now;
    r.rig.run(isLost);
    const reply = asking(r, a, "deregister-region");
    r.rig.run(() => r.counter("b", "coherenceReceivedDeregister") > 0);
    assert.deepEqual([left(), reply()], [undefined, undefined]);
    r.rig.run(() => left() !== undefined && reply() !== undefined);
    assert.deepEqual([left(), reply()], new Array(2).fill({ status: "ok", op: "done" }));
    assert.ok(r.rig.now - from < 100 * PS_PER_US, `${(r.rig.now - from) / PS_PER_US} us`);
    assert.equal(r.counter("a", "coherenceReceivedDeregister"), 2);
  });

  it("decision 21: is under way until far cards have left: the region is not exposed again before, and then to all", () => {
    const r = new RegionRig();
    const { a, b } = r.rig;
    r.register();
    r.store("far", 0, 7);
    r.holds = (message) => message.kind === "line" && message.op === "WbMtoI";
    const reply = asking(r, a, "deregister-region");
    r.rig.runFor(5 * PS_PER_US);
    assert.equal(reply(), undefined, "the far card's line is not home");
    const again = r.command(a, "register-region");
    assert.ok(again.status === "error" && again.errno === "EBUSY", JSON.stringify(again));
    r.release();
    r.rig.run(() => reply() !== undefined);
    assert.equal(r.command(a, "register-region").status, "ok");
    // The far card begins a new life, which is welcome, and is not asked to leave.
    r.rig.fate = () => "drop";
    assert.equal(r.command(b, "register-region").status, "error", "nothing arrives");
    r.rig.fate = () => "pass";
    assert.equal(r.command(b, "register-region").status, "ok");
    r.rig.runFor(20 * PS_PER_US);
    assert.equal(r.load("far", 0), 7);
  });

  it("decision 21: waits for a far card that cannot be told for one lease, where its queue pair still tries", () => {
    const r = new RegionRig();
    r.register();
    r.rig.runFor(5 * PS_PER_US);
    r.rig.fate = () => "drop";
    const from = r.rig.now;
    const reply = asking(r, r.rig.a, "deregister-region");
    r.rig.run(() => reply() !== undefined);
    assert.deepEqual(reply(), { status: "ok", op: "done" });
    const waited = r.rig.now - from, { leasePs, leaseMarginPs } = r.region;
    const expected = leasePs + leaseMarginPs;
    assert.ok(waited >= expected && waited < expected + 3 * PS_PER_US, `${waited} ps`);
  });
});

describe("a greeting that comes while leases of home's earlier life last", () => {
  it("decision 14: is answered when they are over, though the far card has given up by then", () => {
    const leasePs = 500 * PS_PER_US;
    const r = new RegionRig(regionPlan({ leasePs }));
    const { a, b } = r.rig;
    r.command(a, "register-region");
    r.rig.link(a, PORTS.rnicBus, false);
    r.rig.runFor(PS_PER_US);
    r.rig.link(a, PORTS.rnicBus, true);
    r.rig.runFor(PS_PER_US);
    const persistence = { flow: 1, flush: "read", noSnoop: false } as const;
    r.rig.command(a, { op: "init", spaces: a.host.spaces, persistence });
    const started = r.rig.now;
    r.command(a, "register-region");
    const reply = asking(r, b, "register-region");
    r.rig.run(() => reply() !== undefined);
    assert.equal(reply()!.status, "error", "home does not answer");
    const welcome = () =>
      r.rig.frames.find(({ from, time, bytes }) =>
        from === "a" && time > started && packetOf(bytes).bth.destQpn === CARD_QPN
      );
    r.rig.runFor(2 * leasePs);
    const waited = welcome()!.time - started, { leaseMarginPs } = r.region;
    const opens = leasePs + leaseMarginPs;
    assert.ok(waited >= opens - 10 * PS_PER_US && waited < opens + PS_PER_US, `${waited} ps`);
    assert.equal(r.command(b, "register-region").status, "ok");
    assert.equal(r.load("far", 0), 0);
  });
});

describe("a link", () => {
  it("decision 8: a far card speaks for itself alone: what it says for another one changes nothing, and is counted", () => {
    const [own] = regionPlan().far;
    const other = { host: "c", address: 0x0a00_0003, agent: 2 };
    const r = new RegionRig(regionPlan({ far: [own!, other] }));
    r.register();
    r.store("far", 0, 7);
    const before = r.counter("a", "coherenceReceivedGetS");
    r.rig.fate = (from, { bytes }) => {
      const packet = packetOf(bytes);
      const { coherenceEth: header } = packet;
      if (from !== "b" || header === undefined || header.agent !== 1) return "pass";
      return { replaceBy: encodePacket({ ...packet, coherenceEth: { ...header, agent: 2 } }) };
    };
    const forged = r.begin("far", "load", 3);
    r.rig.runFor(20 * PS_PER_US);
    assert.equal(r.counter("a", "coherenceReceivedGetS"), before + 1);
    assert.equal(r.counter("a", "coherenceMalformed"), 1);
    assert.equal(r.done.has(forged), false);
  });

  it("decision 8: a welcome to another far card is none to this one, and is counted", () => {
    const r = new RegionRig();
    r.rig.fate = (from, { bytes }) => {
      const packet = packetOf(bytes), { coherenceEth: header } = packet;
      if (from !== "a" || packet.bth.destQpn !== CARD_QPN) return "pass";
      return { replaceBy: encodePacket({ ...packet, coherenceEth: { ...header!, agent: 2 } }) };
    };
    r.command(r.rig.a, "register-region");
    const reply = r.command(r.rig.b, "register-region");
    assert.ok(reply.status === "error" && reply.errno === "ENOENT", JSON.stringify(reply));
    const welcomes = r.counter("b", "coherenceReceivedWelcome");
    assert.ok(welcomes > 1);
    assert.equal(r.counter("b", "coherenceMalformed"), welcomes);
  });
});

/** Loses home's next answer. @returns whether it is lost already. */
function losesAnswer({ rig }: RegionRig): () => boolean {
  let isLost = false;
  rig.fate = (from, { bytes }) => {
    const isAnswer = opcodeRow(packetOf(bytes).bth.opcode)!.name === "VENDOR COHERENCE RESPONSE";
    if (isLost || from !== "a" || !isAnswer) return "pass";
    isLost = true;
    return "drop";
  };
  return () => isLost;
}
