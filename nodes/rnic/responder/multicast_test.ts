import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PORTS } from "../../../fabric/node.ts";
import { MULTICAST_QPN } from "../../../fabric/wire/roce/bth.ts";
import { decodeReport } from "../../../fabric/wire/roce/igmp.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import {
  createUd,
  packetsFrom,
  Q_KEY,
  sayTo,
  statuses,
  udAddress,
} from "../testing/unreliable_testing.ts";

const GROUP = 0xef01_0203;
type Side = Rig["a"];

class Bench {
  readonly rig = new Rig();
  readonly from = this.rig.register(this.rig.a, { length: 4096 });
  readonly at = new Map<Side, RigMr>([
    [this.rig.a, this.rig.register(this.rig.a, { length: 4096, va: 0x2_0000_0000 })],
    [this.rig.b, this.rig.register(this.rig.b, { length: 4096 })],
  ]);
  readonly sender = createUd(this.rig, this.rig.a);

  constructor() {
    this.rig.fill(this.rig.a, this.from, (i) => i + 7);
  }

  change(
    op: "attach-mcast" | "detach-mcast",
    member: { side: Side; qp: RigQp; group?: number },
  ): RnicReply {
    const { side, qp, group = GROUP } = member;
    return this.rig.command(side, { op, qpn: qp.qpn, group });
  }

  /** A queue pair in the group with `receives` posted. */
  member(side: Side, options: { qKey?: number; receives?: number } = {}): RigQp {
    const { qKey = Q_KEY, receives = 2 } = options;
    const qp = createUd(this.rig, side, { qKey });
    const { va, key } = this.at.get(side)!;
    for (let i = 0; i < receives; i++) {
      this.rig.recv(side, qp, [{ address: va, length: 1024, lkey: key }]);
    }
    assert.equal(this.change("attach-mcast", { side, qp }).status, "ok");
    return qp;
  }

  say(length = 100, more: { qp?: RigQp; address?: number; qpn?: number } = {}): void {
    const { qp = this.sender, address = GROUP, qpn = MULTICAST_QPN } = more;
    const ud = udAddress(address, qpn);
    sayTo(this.rig, { side: this.rig.a, qp, mr: this.from }, { ud, length });
    this.rig.run();
  }

  received(side: Side, qp: RigQp): number[] {
    return this.rig.poll(side, qp.recvCq).filter(({ opcode }) => opcode === "recv")
      .map(({ byteCount }) => byteCount);
  }

  drops(side: Side, reason: string): number {
    return side.rnic.statistics()[`drop-${reason}`] ?? 0;
  }

  /** What `side` has told the network of its memberships. */
  reports(side: "a" | "b"): string[] {
    const told: string[] = [];
    for (const { from, bytes } of this.rig.frames) {
      const changes = from === side ? decodeReport(bytes) : undefined;
      for (const { group, member } of changes ?? []) {
        told.push(`${member ? "+" : "-"}${group.toString(16)}`);
      }
    }
    return told;
  }
}

describe("multicast", () => {
  it("§7 #82: two queue pairs, one attached twice: two copies, byte_len with the 40 bytes", () => {
    const bench = new Bench();
    const { rig } = bench;
    const one = bench.member(rig.b), two = bench.member(rig.b);
    assert.equal(bench.change("attach-mcast", { side: rig.b, qp: two }).status, "ok");
    bench.say(100);
    assert.deepEqual(bench.received(rig.b, one), [140]);
    assert.deepEqual(bench.received(rig.b, two), [140]);
    const placed = rig.bytes(rig.b, bench.at.get(rig.b)!, 40, 100);
    assert.deepEqual(placed, rig.bytes(rig.a, bench.from, 0, 100));
    assert.deepEqual(statuses(rig.poll(rig.a, bench.sender.sendCq)), ["SUCCESS"]);
  });

  it("§7 #83: an attached queue pair cannot be destroyed: EBUSY; detached, it can", () => {
    const bench = new Bench();
    const { rig } = bench;
    const qp = bench.member(rig.b);
    const busy = rig.command(rig.b, { op: "destroy-qp", qpn: qp.qpn });
    assert.ok(busy.status === "error" && busy.errno === "EBUSY");
    bench.say();
    assert.deepEqual(bench.received(rig.b, qp), [140], "it works on");
    assert.equal(bench.change("detach-mcast", { side: rig.b, qp }).status, "ok");
    assert.equal(rig.command(rig.b, { op: "destroy-qp", qpn: qp.qpn }).status, "ok");
  });

  it("§7 #84: who has left a group gets nothing any more, whoever stays does", () => {
    const bench = new Bench();
    const { rig } = bench;
    const leaves = bench.member(rig.b), stays = bench.member(rig.b);
    // Attached twice counts once: one detach is enough.
    bench.change("attach-mcast", { side: rig.b, qp: leaves });
    bench.change("detach-mcast", { side: rig.b, qp: leaves });
    bench.say();
    assert.deepEqual(bench.received(rig.b, leaves), []);
    assert.deepEqual(bench.received(rig.b, stays), [140]);
    bench.change("detach-mcast", { side: rig.b, qp: stays });
    bench.say();
    assert.deepEqual(bench.received(rig.b, stays), []);
    assert.equal(bench.drops(rig.b, "foreign-group"), 1);
  });

  it("attach and detach refuse what they cannot do, and change nothing", () => {
    const bench = new Bench();
    const { rig } = bench;
    const rc = rig.createQp(rig.b), ud = createUd(rig, rig.b);
    const wrong = [
      bench.change("attach-mcast", { side: rig.b, qp: rc }),
      bench.change("attach-mcast", { side: rig.b, qp: ud, group: 0x0a00_0001 }),
      bench.change("detach-mcast", { side: rig.b, qp: ud }),
    ];
    for (const reply of wrong) assert.ok(reply.status === "error" && reply.errno === "EINVAL");
    const unknown = rig.command(rig.b, { op: "attach-mcast", qpn: 0x999, group: GROUP });
    assert.ok(unknown.status === "error" && unknown.errno === "ENOENT");
    assert.deepEqual(bench.reports("b"), []);
  });

  it("frames have the group's MAC 01:00:5e + 23 bits and the queue pair number 0xFFFFFF", () => {
    const bench = new Bench();
    bench.say(8, { address: 0xefff_0203 });
    const [packet] = packetsFrom(bench.rig, "a");
    assert.equal(packet?.destinationMac, 0x0100_5e7f_0203);
    assert.equal(packet?.destinationAddress, 0xefff_0203);
    assert.equal(packet?.bth.destQpn, 0xff_ffff);
  });

  it("each copy passes its own queue pair's checks", () => {
    const bench = new Bench();
    const { rig } = bench;
    const good = bench.member(rig.b);
    const wrongKey = bench.member(rig.b, { qKey: 0x9999 });
    const empty = bench.member(rig.b, { receives: 0 });
    bench.say();
    assert.deepEqual([good, wrongKey, empty].map((qp) => bench.received(rig.b, qp)), [
      [140],
      [],
      [],
    ]);
    assert.equal(bench.drops(rig.b, "q-key"), 1);
    assert.equal(bench.drops(rig.b, "no-recv"), 1);
  });

  it("a group's packet for another queue pair number, or by another MAC, is dropped", () => {
    const bench = new Bench();
    const { rig } = bench;
    const qp = bench.member(rig.b);
    bench.say(100, { qpn: qp.qpn });
    assert.equal(bench.drops(rig.b, "group-qpn"), 1);
    const [packet] = packetsFrom(rig, "a");
    const { bth } = packet!;
    const rightQpn = { ...bth, destQpn: MULTICAST_QPN };
    rig.inject(rig.b, encodePacket({ ...packet!, bth: rightQpn, destinationMac: rig.b.plan.mac }));
    rig.run();
    assert.equal(bench.drops(rig.b, "foreign-mac"), 1);
    assert.deepEqual(bench.received(rig.b, qp), []);
  });

  it("what a queue pair sends comes to all of its port that are attached, itself included", () => {
    const bench = new Bench();
    const { rig } = bench;
    const speaker = bench.member(rig.a), neighbour = bench.member(rig.a);
    const far = bench.member(rig.b);
    bench.say(100, { qp: speaker });
    assert.deepEqual(bench.received(rig.a, speaker), [140]);
    assert.deepEqual(bench.received(rig.a, neighbour), [140]);
    assert.deepEqual(bench.received(rig.b, far), [140]);
    const copy = rig.bytes(rig.a, bench.at.get(rig.a)!, 40, 100);
    assert.deepEqual(copy, rig.bytes(rig.a, bench.from, 0, 100));
    bench.say(100, { qp: speaker, qpn: neighbour.qpn });
    assert.deepEqual(bench.received(rig.a, neighbour), [], "for another queue pair number");
    assert.equal(bench.drops(rig.a, "group-qpn"), 1);
  });

  it("the network is told of a port's first member and of its last, twice each (IGMPv3)", () => {
    const bench = new Bench();
    const { rig } = bench;
    const one = bench.member(rig.b), two = bench.member(rig.b);
    assert.deepEqual(bench.reports("b"), ["+ef010203", "+ef010203"]);
    rig.frames.length = 0;
    bench.change("detach-mcast", { side: rig.b, qp: one });
    assert.deepEqual(bench.reports("b"), []);
    bench.change("detach-mcast", { side: rig.b, qp: two });
    assert.deepEqual(bench.reports("b"), ["-ef010203", "-ef010203"]);
  });

  it("a cable that comes up again hears of all groups anew", () => {
    const bench = new Bench();
    const { rig } = bench;
    bench.member(rig.b);
    rig.run();
    rig.frames.length = 0;
    rig.link(rig.b, PORTS.rnicNetwork, false);
    rig.link(rig.b, PORTS.rnicNetwork, true);
    rig.run();
    assert.deepEqual(bench.reports("b"), ["+ef010203", "+ef010203"]);
  });
});
