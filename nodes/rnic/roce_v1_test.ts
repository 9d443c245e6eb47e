/** Cards of RoCEv1 (C-01): the same transport over Ethernet and a global route header alone. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RnicPlan } from "../../fabric/rack/plan/plan.ts";
import { MULTICAST_QPN } from "../../fabric/wire/roce/bth.ts";
import { GRH_BYTES } from "../../fabric/wire/roce/grh.ts";
import { decodeReport } from "../../fabric/wire/roce/igmp.ts";
import { opcodeRow } from "../../fabric/wire/roce/opcode.ts";
import { bthBehind, encodePacket, frameBytes } from "../../fabric/wire/roce/packet.ts";
import { flowLabel } from "../../fabric/wire/roce/udp.ts";
import { go, packets, pair, post, recvs } from "./testing/pair_testing.ts";
import { CONGESTION } from "./testing/program_rig_testing.ts";
import { Rig } from "./testing/rnic_testing.ts";
import {
  connectUc,
  createUd,
  packetsFrom,
  sayTo,
  statuses,
  udAddress,
} from "./testing/unreliable_testing.ts";

const V1: Partial<RnicPlan> = { roce: "v1" };
const BOTH = { plans: { a: V1, b: V1 } };
const GROUP = 0xef01_0203;

describe("RC in RoCEv1", () => {
  it("C-01: does all that RoCEv2 does, packet for packet, in frames that are 12 B longer", () => {
    const ran = [{}, BOTH].map((options) => {
      const p = pair(options);
      recvs(p, 2);
      post(p, "write", { length: 5000 });
      post(p, "send", { length: 300 });
      post(p, "read", { at: 8192, length: 700 });
      post(p, "fetch-add", { length: 8, atomic: { swapAdd: 5n, compare: 0n } });
      post(p, "write-immediate", { at: 4096, length: 10, immediate: 3 });
      go(p);
      const cqes = statuses(p.rig.poll(p.rig.a, p.a.sendCq));
      return { p, cqes, memory: [p.rig.bytes(p.rig.a, p.from), p.rig.bytes(p.rig.b, p.to)] };
    });
    const [v2, v1] = ran as [typeof ran[number], typeof ran[number]];
    assert.deepEqual(v1.cqes, Array(5).fill("SUCCESS"));
    assert.deepEqual(v1.cqes, v2.cqes);
    assert.deepEqual(v1.memory, v2.memory);
    for (const from of ["a", "b"] as const) {
      const news = packets(v1.p, from), olds = packets(v2.p, from);
      assert.deepEqual(
        news.map(({ bth, reth, aeth, payload }) => ({ bth, reth, aeth, payload })),
        olds.map(({ bth, reth, aeth, payload }) => ({ bth, reth, aeth, payload })),
      );
      for (const packet of news) {
        const label = flowLabel(v1.p.a.qpn, v1.p.b.qpn);
        assert.deepEqual(packet.grh, { flowLabel: label, priority: undefined });
        const row = opcodeRow(packet.bth.opcode)!, { length } = packet.payload;
        const size = frameBytes(row, length, bthBehind(packet.grh!));
        assert.equal(encodePacket(packet).length, size);
      }
    }
  });

  it("C-01: a card drops the other version's frames, and counts them; the sender gives up", () => {
    for (const plans of [{ a: V1 }, { b: V1 }]) {
      const p = pair({ plans }, { attributes: { timeout: 1, retryCnt: 1 } });
      post(p, "write", { length: 64 });
      go(p);
      assert.deepEqual(statuses(p.rig.poll(p.rig.a, p.a.sendCq)), ["RETRY_EXC_ERR"]);
      assert.ok(p.rig.bytes(p.rig.b, p.to).every((byte) => byte === 0xee));
      const { framesIn, requestsIn, ...counters } = p.rig.b.rnic.statistics();
      assert.deepEqual([requestsIn, counters["drop-roce-version"]], [0, framesIn]);
      assert.ok(framesIn! > 0);
    }
  });

  it("C-01: has the priority of its DSCP in a tag where the fabric has priorities", () => {
    const congestion = { ...CONGESTION, dcqcn: null };
    const plan = { ...V1, congestion };
    const p = pair({ plans: { a: plan, b: plan } });
    post(p, "write", { length: 64 });
    go(p);
    assert.deepEqual(statuses(p.rig.poll(p.rig.a, p.a.sendCq)), ["SUCCESS"]);
    const all = [...packets(p, "a"), ...packets(p, "b")];
    assert.equal(all.length, 2);
    for (const { dscp, grh } of all) assert.deepEqual([dscp, grh?.priority], [26, 3]);
  });

  it("C-01: takes no mark of congestion, whatever its traffic class says", () => {
    const plan = { ...V1, congestion: CONGESTION };
    const p = pair({ plans: { a: plan, b: plan } });
    p.rig.fate = (from, frame) => {
      if (from === "b" || frame.packet === undefined) return "pass";
      return { replaceBy: encodePacket({ ...frame.packet, ecn: 3 }) };
    };
    post(p, "write", { length: 64 });
    go(p);
    assert.deepEqual(statuses(p.rig.poll(p.rig.a, p.a.sendCq)), ["SUCCESS"]);
    const { ecnMarkedIn, cnpsOut } = p.rig.b.rnic.statistics();
    assert.deepEqual([ecnMarkedIn, cnpsOut], [0, 0]);
  });
});

describe("UC and UD in RoCEv1", () => {
  it("C-01: have the address vector's traffic class, hop limit and flow label in the GRH", () => {
    const rig = new Rig(BOTH);
    const from = rig.register(rig.a, { length: 4096 }), to = rig.register(rig.b, { length: 4096 });
    const { a } = connectUc(rig, { trafficClass: 0x68, hopLimit: 9, flowLabel: 0x1face });
    const sges = [{ address: from.va, length: 64, lkey: from.key }];
    rig.send(rig.a, a, { opcode: "write", remote: { va: BigInt(to.va), rkey: to.key }, sges });
    rig.run();
    const ud = createUd(rig, rig.a);
    const address = udAddress(rig.b.plan.address, 99, { udpSourcePort: 0xfac9, hopLimit: 3 });
    sayTo(rig, { side: rig.a, qp: ud, mr: from }, { ud: address, length: 8 });
    rig.run();
    const seen = packetsFrom(rig, "a").map(({ dscp, ttl, grh }) => [dscp, ttl, grh?.flowLabel]);
    assert.deepEqual(seen, [[26, 9, 0x1face], [0, 3, 0xfac9]]);
  });

  it("C-01: a datagram's receive buffer begins with its GRH", () => {
    for (const congestion of [undefined, CONGESTION]) {
      const plan = { ...V1, ...(congestion && { congestion }) };
      const rig = new Rig({ plans: { a: plan, b: plan } });
      const from = rig.register(rig.a, { length: 64 }), to = rig.register(rig.b, { length: 256 });
      rig.fill(rig.a, from, (i) => i + 1);
      const a = createUd(rig, rig.a), b = createUd(rig, rig.b);
      rig.recv(rig.b, b, [{ address: to.va, length: 256, lkey: to.key }]);
      const ud = udAddress(rig.b.plan.address, b.qpn);
      sayTo(rig, { side: rig.a, qp: a, mr: from }, { ud, length: 64 });
      rig.run();
      assert.equal(rig.poll(rig.b, b.recvCq)[0]?.byteCount, GRH_BYTES + 64);
      const { bytes } = rig.frames[0]!, at = congestion === undefined ? 14 : 18;
      assert.deepEqual(rig.bytes(rig.b, to, 0, GRH_BYTES), bytes.slice(at, at + GRH_BYTES));
      assert.deepEqual(rig.bytes(rig.b, to, GRH_BYTES, 64), rig.bytes(rig.a, from));
    }
  });

  it("C-01: a group's datagrams go to 33:33, to who is attached, and no report is sent", () => {
    const rig = new Rig(BOTH);
    const from = rig.register(rig.a, { length: 64 }), to = rig.register(rig.b, { length: 256 });
    const sender = createUd(rig, rig.a);
    const say = (qp = sender) => {
      const ud = udAddress(GROUP, MULTICAST_QPN);
      sayTo(rig, { side: rig.a, qp, mr: from }, { ud, length: 64 });
      rig.run();
    };
    const member = createUd(rig, rig.b);
    rig.recv(rig.b, member, [{ address: to.va, length: 256, lkey: to.key }]);
    say();
    assert.equal(rig.b.rnic.statistics()["drop-foreign-group"], 1);
    const attach = { op: "attach-mcast", qpn: member.qpn, group: GROUP } as const;
    assert.equal(rig.command(rig.b, attach).status, "ok");
    say();
    assert.equal(rig.poll(rig.b, member.recvCq)[0]?.byteCount, GRH_BYTES + 64);
    const [packet] = packetsFrom(rig, "a");
    assert.equal(packet?.destinationMac, 0x3333_ef01_0203);
    assert.ok(rig.frames.every(({ bytes }) => decodeReport(bytes) === undefined));
    // The MAC address of RoCEv2's group is none of this one's.
    rig.inject(rig.b, encodePacket({ ...packet!, destinationMac: 0x0100_5e01_0203 }));
    rig.run();
    assert.equal(rig.b.rnic.statistics()["drop-foreign-mac"], 1);
  });
});
