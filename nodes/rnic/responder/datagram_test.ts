import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { readFields } from "../../../fabric/base/fields.ts";
import { viewOf } from "../../../fabric/base/slab.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import { IPV4_BYTES, IPV4_FIELDS } from "../../../fabric/wire/roce/ipv4.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import {
  createUd,
  namesFrom,
  packetsFrom,
  Q_KEY,
  sayTo,
  statuses,
  udAddress,
} from "../testing/unreliable_testing.ts";

const GRH_BYTES = 40;

interface Bench {
  readonly rig: Rig;
  readonly a: RigQp;
  readonly b: RigQp;
  readonly from: RigMr;
  readonly to: RigMr;
  say(length: number, more?: Partial<Parameters<typeof sayTo>[2]>): void;
  recv(length: number): void;
  drops(reason: string): number;
  /** What the notes of the run say, without what was dropped. */
  notes(): readonly string[];
}

function bench(keys: { a?: number; b?: number } = {}): Bench {
  const rig = new Rig();
  const from = rig.register(rig.a, { length: 8192 }), to = rig.register(rig.b, { length: 8192 });
  rig.fill(rig.a, from, (i) => i * 5 + 1);
  const a = createUd(rig, rig.a, { qKey: keys.a ?? Q_KEY });
  const b = createUd(rig, rig.b, { qKey: keys.b ?? Q_KEY });
  return {
    rig,
    a,
    b,
    from,
    to,
    say(length, more = {}) {
      const ud = udAddress(rig.b.plan.address, b.qpn);
      sayTo(rig, { side: rig.a, qp: a, mr: from }, { ud, length, ...more });
      rig.run();
    },
    recv(length) {
      rig.recv(rig.b, b, [{ address: to.va, length, lkey: to.key }]);
    },
    notes: () => rig.warnings().map((message) => message.replace(/^.*?: /, "")),
    drops: (reason) => rig.b.rnic.statistics()[`drop-${reason}`] ?? 0,
  };
}

describe("UD receive", () => {
  it("§7 #79: a receive buffer of payload + 39 is too small: dropped, no CQE, the next one fits", () => {
    const { rig, a, b, to, from, say, recv, drops, notes } = bench();
    recv(100 + GRH_BYTES - 1);
    say(100);
    assert.equal(drops("recv-too-small"), 1);
    const needs = "40 B in front of the payload and 100 B of payload need 140 B";
    assert.deepEqual(notes(), [`the receive has 139 B, ${needs}`]);
    assert.deepEqual(rig.poll(rig.b, b.recvCq), []);
    assert.deepEqual(rig.bytes(rig.b, to), new Uint8Array(8192), "nothing is written");
    // The receive WQE is still there, and holds what is one byte shorter.
    say(99);
    const [cqe] = rig.poll(rig.b, b.recvCq);
    assert.deepEqual([cqe?.opcode, cqe?.byteCount], ["recv", 99 + GRH_BYTES]);
    assert.deepEqual(rig.bytes(rig.b, to, GRH_BYTES, 99), rig.bytes(rig.a, from, 0, 99));
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["SUCCESS", "SUCCESS"]);
  });

  it("§7 #80: a wrong Q_Key is dropped and counted, the sender does not learn of it; the first is a note", () => {
    const { rig, a, b, say, recv, drops, notes } = bench();
    recv(200);
    const ud = udAddress(rig.b.plan.address, b.qpn, { qKey: Q_KEY + 1 });
    say(8, { ud });
    assert.equal(drops("q-key"), 1);
    const [found, expected] = [Q_KEY + 1, Q_KEY].map((key) => `0x${key.toString(16)}`);
    assert.deepEqual(notes(), [`its Q_Key is ${found}, that of the queue pair ${expected}`]);
    assert.deepEqual(rig.poll(rig.b, b.recvCq), []);
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["SUCCESS"]);
    say(8);
    assert.equal(drops("q-key"), 1);
    assert.deepEqual(statuses(rig.poll(rig.b, b.recvCq)), ["SUCCESS"]);
  });

  it("§7 #80: a Q_Key that differs in any one bit is wrong", () => {
    for (const key of [Q_KEY, 0x8000_1234]) {
      const { rig, b, say, recv, drops } = bench({ a: key, b: key });
      recv(200);
      say(8, { ud: udAddress(rig.b.plan.address, b.qpn, { qKey: 0x8000_0000 }) });
      const [sent] = packetsFrom(rig, "a");
      assert.equal(sent?.deth?.qKey, key);
      assert.deepEqual(statuses(rig.poll(rig.b, b.recvCq)), ["SUCCESS"]);
      recv(200);
      for (let bit = 0; bit < 32; bit++) {
        const deth = { ...sent!.deth!, qKey: (key ^ (1 << bit)) >>> 0 };
        rig.inject(rig.b, encodePacket({ ...sent!, deth }));
        rig.run();
        assert.equal(drops("q-key"), bit + 1, `bit ${bit}`);
      }
      assert.deepEqual(rig.poll(rig.b, b.recvCq), []);
    }
  });

  it("§1.3: a Q_Key with bit 31 set stands for the sending queue pair's own", () => {
    const { rig, b, say, recv } = bench({ a: 0x777, b: 0x777 });
    recv(200);
    say(8, { ud: udAddress(rig.b.plan.address, b.qpn, { qKey: 0x8000_0000 }) });
    assert.equal(packetsFrom(rig, "a")[0]?.deth?.qKey, 0x777);
    assert.deepEqual(statuses(rig.poll(rig.b, b.recvCq)), ["SUCCESS"]);
  });

  it("§2.2: longer than the port's MTU: dropped and counted, the receive stays for the next one", () => {
    const { rig, b, to, say, recv, drops } = bench();
    recv(8192);
    say(8);
    const [sent] = packetsFrom(rig, "a");
    rig.poll(rig.b, b.recvCq);
    recv(8192);
    const before = rig.bytes(rig.b, to);
    rig.inject(rig.b, encodePacket({ ...sent!, payload: new Uint8Array(4097) }));
    rig.run();
    assert.equal(drops("bad-length"), 1);
    assert.deepEqual(rig.bytes(rig.b, to), before, "nothing is written");
    rig.inject(rig.b, encodePacket({ ...sent!, payload: new Uint8Array(4096) }));
    rig.run();
    assert.deepEqual(
      rig.poll(rig.b, b.recvCq).map(({ byteCount }) => byteCount),
      [4096 + GRH_BYTES],
    );
  });

  it("the GRH area ends with the IPv4 header, an immediate and the source come in the CQE", () => {
    const { rig, a, b, to, say, recv } = bench();
    recv(200);
    say(64, { opcode: "send-immediate", immediate: 0xcafe, solicited: true });
    const [cqe] = rig.poll(rig.b, b.recvCq);
    assert.deepEqual(
      [cqe?.opcode, cqe?.immediate, cqe?.sourceQpn, cqe?.solicited],
      ["recv-immediate", 0xcafe, a.qpn, true],
    );
    const area = rig.bytes(rig.b, to, 0, GRH_BYTES);
    assert.deepEqual(area.subarray(0, GRH_BYTES - IPV4_BYTES), new Uint8Array(20));
    const header = readFields(IPV4_FIELDS, { view: viewOf(area), at: 20 });
    assert.deepEqual(
      [header.version, header.source, header.destination],
      [4, rig.a.plan.address, rig.b.plan.address],
    );
    assert.deepEqual(namesFrom(rig, "a"), ["UD SEND ONLY IMM"]);
  });

  it("a loss is a loss: PSNs are ignored, nothing is answered", () => {
    const { rig, b, say, recv } = bench();
    rig.fate = (_from, _frame, index) => index === 1 ? "drop" : "pass";
    for (let i = 0; i < 3; i++) recv(200);
    for (let i = 0; i < 3; i++) say(8);
    assert.equal(rig.poll(rig.b, b.recvCq).length, 2);
    assert.deepEqual(namesFrom(rig, "b"), []);
  });

  it("receive memory that is not its own takes the queue pair to ERR", () => {
    const { rig, b, to, say, drops } = bench();
    rig.recv(rig.b, b, [{ address: to.va, length: 100, lkey: to.key ^ 1 }]);
    say(8);
    assert.deepEqual(statuses(rig.poll(rig.b, b.recvCq)), ["LOC_PROT_ERR"]);
    say(8);
    assert.equal(drops("wrong-state"), 1);
  });
});

describe("UD send", () => {
  it("§7 #81: longer than the port's MTU: succeeds, no packet; the MTU itself is sent", () => {
    const { rig, a, say } = bench();
    say(4097);
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["SUCCESS"]);
    assert.deepEqual(rig.frames, []);
    say(4096);
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["SUCCESS"]);
    assert.equal(rig.frames.length, 1);
  });

  it("§4.1: a send that fails takes it to SQE: sends are flushed, it receives on, RTS is one step", () => {
    const { rig, a, b, from, to, say, recv } = bench();
    const ud = udAddress(rig.b.plan.address, b.qpn);
    for (const lkey of [from.key ^ 1, from.key]) {
      rig.enqueueSend(rig.a, a, {
        opcode: "send",
        ud,
        sges: [{ address: from.va, length: 8, lkey }],
      });
    }
    rig.ring(rig.a, a.sq);
    rig.run();
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["LOC_PROT_ERR", "WR_FLUSH_ERR"]);
    say(8);
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["WR_FLUSH_ERR"]);
    assert.deepEqual(rig.frames, []);
    // What comes in is taken all the same.
    rig.recv(rig.a, a, [{ address: from.va, length: 200, lkey: from.key }]);
    const back = udAddress(rig.a.plan.address, a.qpn);
    sayTo(rig, { side: rig.b, qp: b, mr: to }, { ud: back, length: 8 });
    rig.run();
    assert.deepEqual(statuses(rig.poll(rig.a, a.recvCq)), ["SUCCESS"]);
    assert.equal(rig.modify(rig.a, a, { state: "rts" }).status, "ok");
    recv(200);
    say(8);
    assert.deepEqual(statuses(rig.poll(rig.a, a.sendCq)), ["SUCCESS"]);
    assert.deepEqual(statuses(rig.poll(rig.b, b.recvCq).slice(-1)), ["SUCCESS"]);
  });

  it("§1.1: the address vector's DSCP, hop limit and source port are in the outer headers", () => {
    const { rig, b, say, recv } = bench();
    recv(200);
    const route = { trafficClass: 0xb8, hopLimit: 3, udpSourcePort: 0xfac9 };
    say(8, { ud: udAddress(rig.b.plan.address, b.qpn, route) });
    const [packet] = packetsFrom(rig, "a");
    assert.deepEqual([packet?.dscp, packet?.ttl, packet?.udpSourcePort], [46, 3, 0xfac9]);
    assert.equal(rig.poll(rig.b, b.recvCq).length, 1);
  });
});
