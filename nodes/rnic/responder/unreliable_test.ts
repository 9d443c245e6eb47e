import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Frame } from "../../../fabric/node.ts";
import { OPCODE, type OpcodeName } from "../../../fabric/wire/roce/opcode.ts";
import { decodePacket, encodePacket, isRefusal } from "../../../fabric/wire/roce/packet.ts";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { go, packetOf, post } from "../testing/pair_testing.ts";
import { FLOW_1, FLOW_2, persistingPair } from "../testing/pm_testing.ts";
import type { RigMr, RigQp } from "../testing/rig_parts_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import {
  connectUc,
  createUd,
  namesFrom,
  packetsFrom,
  statuses,
} from "../testing/unreliable_testing.ts";

const MTU = 256;

class Pair {
  readonly rig: Rig;
  readonly from: RigMr;
  readonly to: RigMr;
  readonly a: RigQp;
  readonly b: RigQp;

  constructor(options: ConstructorParameters<typeof Rig>[0] = {}) {
    this.rig = new Rig(options);
    this.from = this.rig.register(this.rig.a, { length: 8192 });
    this.to = this.rig.register(this.rig.b, { length: 8192 });
    this.rig.fill(this.rig.a, this.from, (i) => i * 3 + (i >> 8) + 1);
    const { a, b } = connectUc(this.rig);
    this.a = a;
    this.b = b;
  }

  /** Only the frames of `a` with these numbers are lost. */
  lose(...numbers: number[]): void {
    this.rig.fate = (from, _frame, index) =>
      from === "a" && numbers.includes(index) ? "drop" : "pass";
  }

  send(length: number, immediate?: number): void {
    this.rig.send(this.rig.a, this.a, {
      opcode: immediate === undefined ? "send" : "send-immediate",
      immediate: immediate ?? 0,
      sges: [{ address: this.from.va, length, lkey: this.from.key }],
    });
  }

  write(length: number, more: { at?: number; immediate?: number; rkey?: number } = {}): void {
    const { at = 0, immediate, rkey = this.to.key } = more;
    this.rig.send(this.rig.a, this.a, {
      opcode: immediate === undefined ? "write" : "write-immediate",
      immediate: immediate ?? 0,
      remote: { va: BigInt(this.to.va + at), rkey },
      sges: [{ address: this.from.va, length, lkey: this.from.key }],
    });
  }

  recv(at: number, length: number): void {
    this.rig.recv(this.rig.b, this.b, [{ address: this.to.va + at, length, lkey: this.to.key }]);
  }

  received(): (readonly [opcode: string, bytes: number, immediate: number])[] {
    return this.rig.poll(this.rig.b, this.b.recvCq)
      .map(({ opcode, byteCount, immediate }) => [opcode, byteCount, immediate] as const);
  }

  source(length: number): Uint8Array {
    return this.rig.bytes(this.rig.a, this.from, 0, length);
  }

  placed(at: number, length: number): Uint8Array {
    return this.rig.bytes(this.rig.b, this.to, at, length);
  }

  drops(reason: string): number {
    return this.rig.b.rnic.statistics()[`drop-${reason}`] ?? 0;
  }
}

describe("a UC send that fails", () => {
  it("§4.1: takes its queue pair to SQE, and no frame leaves any more that had not", () => {
    const p = new Pair();
    const { rig, a, from } = p;
    const { host } = rig.a, take = host.take.bind(host);
    let first: PcieMessage | undefined;
    host.take = (message) => {
      const isPayload = message.kind === "memory-read" && message.address >= from.address &&
        message.address < from.address + 8192;
      if (!isPayload) return take(message);
      if (first === undefined) return void (first = take(message));
      const { tag } = message;
      return { kind: "completion", tag, status: "unsupported-request", data: new Uint8Array() };
    };
    // Two reads of 16 frames each: the host refuses the second, and answers the first behind that.
    p.write(8192);
    rig.runFor(20_000_000);
    assert.equal(rig.a.rnic.statistics()["cqeErrors"], 0, "it waits for what is in front");
    rig.toRnic(rig.a, first!);
    rig.run();
    assert.equal(namesFrom(rig, "a").length, 0);
    assert.deepEqual(rig.poll(rig.a, a.sendCq).map(({ status }) => status), ["LOC_PROT_ERR"]);
    assert.deepEqual(rig.a.rnic.heldAtRest!(), []);
  });
});

describe("UC", () => {
  it("SEND and WRITE, with and without immediate, in as many packets as the path MTU makes", () => {
    const pair = new Pair();
    const { rig } = pair;
    pair.recv(0, 1000);
    pair.recv(4096, 0);
    pair.send(3 * MTU - 5, 0xabcd);
    pair.write(2 * MTU + 1, { at: 2048 });
    pair.write(10, { at: 3072, immediate: 7 });
    rig.run();
    assert.deepEqual(namesFrom(rig, "a"), [
      "UC SEND FIRST",
      "UC SEND MIDDLE",
      "UC SEND LAST IMM",
      "UC RDMA WRITE FIRST",
      "UC RDMA WRITE MIDDLE",
      "UC RDMA WRITE LAST",
      "UC RDMA WRITE ONLY IMM",
    ]);
    const packets = packetsFrom(rig, "a");
    assert.ok(packets.every(({ bth }) => !bth.ackReq), "nothing asks for an ACK");
    assert.deepEqual(packets.map(({ bth }) => bth.psn), [0xfffffe, 0xffffff, 0, 1, 2, 3, 4]);
    assert.deepEqual(namesFrom(rig, "b"), [], "nothing is answered");
    assert.deepEqual(pair.received(), [
      ["recv-immediate", 3 * MTU - 5, 0xabcd],
      ["recv-write-immediate", 10, 7],
    ]);
    assert.deepEqual(pair.placed(0, 3 * MTU - 5), pair.source(3 * MTU - 5));
    assert.deepEqual(pair.placed(2048, 2 * MTU + 1), pair.source(2 * MTU + 1));
    assert.deepEqual(pair.placed(3072, 10), pair.source(10));
    assert.deepEqual(statuses(rig.poll(rig.a, pair.a.sendCq)), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("completes when the last frame has left, though all of it is lost, and never sends again", () => {
    const pair = new Pair();
    pair.rig.fate = () => "drop";
    pair.write(4 * MTU);
    pair.write(1);
    pair.rig.run();
    assert.deepEqual(statuses(pair.rig.poll(pair.rig.a, pair.a.sendCq)), ["SUCCESS", "SUCCESS"]);
    assert.equal(pair.rig.frames.length, 5);
    assert.equal(pair.rig.a.rnic.statistics()["timeouts"], 0);
  });

  for (const lost of [0, 1, 2, 3]) {
    it(`packet ${lost} of 4 is lost: the message is, the next one arrives in the same RECV`, () => {
      const pair = new Pair();
      pair.lose(lost);
      pair.recv(0, 2048);
      pair.recv(2048, 2048);
      pair.send(4 * MTU);
      pair.send(2 * MTU);
      pair.rig.run();
      const received = pair.rig.poll(pair.rig.b, pair.b.recvCq);
      assert.deepEqual(received.map(({ wqeIndex, byteCount }) => [wqeIndex, byteCount]), [
        [0, 2 * MTU],
      ]);
      assert.deepEqual(pair.placed(0, 2 * MTU), pair.source(2 * MTU));
      assert.deepEqual(namesFrom(pair.rig, "b"), []);
      // Of a lost FIRST the others find nothing open, of a lost LAST nobody knows.
      assert.equal(pair.drops("broken-message"), [3, 2, 1, 0][lost]);
    });
  }

  it("what is left of a message is noted where it is the first sign of a loss, not behind a refusal", () => {
    const pair = new Pair();
    const notes = () =>
      pair.rig.warnings().map((message) => message.replace(/^.*? is dropped/, ""));
    pair.send(3 * MTU);
    pair.rig.run();
    assert.deepEqual(notes(), [" without an answer: no receive is posted"]);
    assert.equal(pair.drops("broken-message"), 2);
    pair.recv(0, 2048);
    // The refused message is over: this one's FIRST is lost on its way.
    pair.lose(3);
    pair.send(3 * MTU);
    pair.rig.run();
    assert.deepEqual(notes().slice(1), [
      " without an answer: what came before it of its message was lost or dropped",
    ]);
    assert.equal(pair.drops("broken-message"), 4);
  });

  it("a WRITE that comes instead of a SEND's LAST leaves its RECV to the next SEND", () => {
    const pair = new Pair();
    const { rig } = pair;
    pair.lose(2);
    pair.recv(0, 2048);
    pair.recv(2048, 2048);
    pair.send(3 * MTU);
    pair.write(8, { at: 4096 });
    pair.send(2 * MTU);
    rig.run();
    assert.deepEqual(pair.placed(4096, 8), pair.source(8));
    const received = rig.poll(rig.b, pair.b.recvCq);
    assert.deepEqual(received.map(({ wqeIndex, byteCount }) => [wqeIndex, byteCount]), [
      [0, 2 * MTU],
    ]);
  });

  it("a WRITE that lost a packet has placed what came before, and tells nobody", () => {
    const pair = new Pair();
    pair.lose(1);
    pair.recv(4096, 16);
    pair.write(3 * MTU, { immediate: 1 });
    pair.write(5, { at: 4096, immediate: 2 });
    pair.rig.run();
    assert.deepEqual(pair.placed(0, MTU), pair.source(MTU));
    assert.deepEqual(pair.placed(MTU, 2 * MTU), new Uint8Array(2 * MTU));
    assert.deepEqual(pair.received(), [["recv-write-immediate", 5, 2]]);
  });

  it("no receive WQE: the message is dropped, the next one finds its own", () => {
    const pair = new Pair();
    pair.send(3 * MTU);
    pair.rig.run();
    assert.equal(pair.drops("no-recv"), 1);
    pair.recv(0, 1024);
    pair.send(2 * MTU);
    pair.rig.run();
    assert.deepEqual(pair.received(), [["recv", 2 * MTU, 0]]);
    assert.equal(pair.rig.b.rnic.statistics()["rnrNaksOut"], 0);
  });

  it("too long for its RECV: dropped (§3.8), whether one packet or several show it", () => {
    const pair = new Pair();
    pair.recv(0, MTU + 10);
    pair.send(MTU + 11);
    pair.send(2 * MTU);
    pair.send(MTU + 10);
    pair.rig.run();
    assert.equal(pair.drops("bad-length"), 2);
    assert.deepEqual(pair.received(), [["recv", MTU + 10, 0]]);
    assert.deepEqual(pair.placed(0, MTU + 10), pair.source(MTU + 10));
  });

  type Part = readonly [opcode: OpcodeName, bytes: number, announced?: number];
  const misfits: readonly (readonly [name: string, reason: string, parts: readonly Part[]])[] = [
    ["a SEND FIRST below the path MTU", "bad-length", [["UC SEND FIRST", MTU - 1]]],
    ["a SEND FIRST above it", "bad-length", [["UC SEND FIRST", MTU + 1]]],
    ["a SEND ONLY above it", "bad-length", [["UC SEND ONLY", MTU + 1]]],
    ["a SEND MIDDLE below it", "bad-length", [
      ["UC SEND FIRST", MTU],
      ["UC SEND MIDDLE", MTU - 1],
    ]],
    ["a SEND LAST of no bytes", "bad-length", [["UC SEND FIRST", MTU], ["UC SEND LAST", 0]]],
    ["a WRITE FIRST below it", "bad-length", [["UC RDMA WRITE FIRST", MTU - 1, 2 * MTU]]],
    ["a WRITE FIRST that brings all", "bad-length", [["UC RDMA WRITE FIRST", MTU, MTU]]],
    ["a WRITE MIDDLE that brings all", "bad-length", [
      ["UC RDMA WRITE FIRST", MTU, 2 * MTU],
      ["UC RDMA WRITE MIDDLE", MTU],
    ]],
    ["a WRITE LAST that brings less than is left", "bad-length", [
      ["UC RDMA WRITE FIRST", MTU, MTU + 10],
      ["UC RDMA WRITE LAST", 9],
    ]],
    ["a WRITE LAST that brings more", "bad-length", [
      ["UC RDMA WRITE FIRST", MTU, MTU + 10],
      ["UC RDMA WRITE LAST", 11],
    ]],
    ["a WRITE ONLY that brings less", "bad-length", [["UC RDMA WRITE ONLY", 8, 9]]],
    ["a WRITE of more than 2^31 B", "bad-length", [["UC RDMA WRITE FIRST", MTU, 2 ** 31 + 1]]],
    ["a WRITE LAST inside a SEND", "broken-message", [
      ["UC SEND FIRST", MTU],
      ["UC RDMA WRITE LAST", 8],
    ]],
    ["a SEND LAST inside a WRITE", "broken-message", [
      ["UC RDMA WRITE FIRST", MTU, MTU + 8],
      ["UC SEND LAST", 8],
    ]],
    ["a MIDDLE behind an ONLY", "broken-message", [
      ["UC RDMA WRITE ONLY", MTU, MTU],
      ["UC RDMA WRITE MIDDLE", MTU],
    ]],
  ];
  for (const [name, reason, parts] of misfits) {
    it(`${name}: dropped with its message, the next one arrives in the same RECV (§3.8)`, () => {
      const pair = new Pair();
      const { rig } = pair;
      pair.recv(4096, 1024);
      pair.write(8, { at: 8000 });
      rig.run();
      const packet = decodePacket(rig.frames[0]!.bytes);
      assert.ok(!isRefusal(packet));
      parts.forEach(([opcode, bytes, announced = 0], i) =>
        rig.inject(
          rig.b,
          encodePacket({
            ...packet,
            bth: { ...packet.bth, opcode: OPCODE[opcode], psn: 100 + i },
            reth: { va: BigInt(pair.to.va), rkey: pair.to.key, length: announced },
            payload: new Uint8Array(bytes).fill(0xee),
          }),
        )
      );
      rig.run();
      assert.equal(pair.drops(reason), 1);
      const placed = (parts.length - 1) * MTU;
      assert.deepEqual(pair.placed(placed, MTU), new Uint8Array(MTU), "it changes no memory");
      // The rest of the message finds nothing open.
      const [opcode] = parts.at(-1)!;
      const last = opcode.startsWith("UC SEND") ? "UC SEND LAST" : "UC RDMA WRITE LAST";
      const bth = { ...packet.bth, opcode: OPCODE[last], psn: 100 + parts.length };
      const before = pair.drops("broken-message");
      rig.inject(rig.b, encodePacket({ ...packet, bth }));
      rig.run();
      assert.equal(pair.drops("broken-message"), before + 1);
      pair.send(2 * MTU);
      rig.run();
      assert.deepEqual(pair.received(), [["recv", 2 * MTU, 0]]);
      assert.deepEqual(pair.placed(4096, 2 * MTU), pair.source(2 * MTU));
      assert.deepEqual(namesFrom(rig, "b"), []);
    });
  }

  it("a wrong key, or no right to write: dropped, the queue pair lives on", () => {
    const pair = new Pair();
    const { rig } = pair;
    pair.write(2 * MTU, { rkey: pair.to.key ^ 1 });
    pair.write(8, { at: 64 });
    rig.run();
    assert.equal(pair.drops("remote-access"), 1);
    assert.deepEqual(pair.placed(64, 8), pair.source(8));
    rig.modify(rig.b, pair.b, { accessFlags: ACCESS.localWrite });
    pair.write(8, { at: 128 });
    rig.run();
    assert.equal(pair.drops("remote-access"), 2);
    assert.deepEqual(pair.placed(128, 8), new Uint8Array(8));
    assert.deepEqual(statuses(rig.poll(rig.a, pair.a.sendCq)), ["SUCCESS", "SUCCESS", "SUCCESS"]);
  });

  it("receive memory that is not its own takes the queue pair to ERR", () => {
    const pair = new Pair();
    const { rig } = pair;
    rig.recv(rig.b, pair.b, [{ address: pair.to.va, length: 64, lkey: pair.to.key ^ 1 }]);
    pair.recv(0, 64);
    pair.send(8);
    rig.run();
    const cqes = rig.poll(rig.b, pair.b.recvCq);
    assert.deepEqual(statuses(cqes), ["LOC_PROT_ERR", "WR_FLUSH_ERR"]);
  });

  it("answers nothing, even where a stranger's frame asks for an ACK", () => {
    const pair = new Pair();
    const { rig } = pair;
    pair.write(8);
    rig.run();
    const packet = decodePacket(rig.frames[0]!.bytes);
    assert.ok(!isRefusal(packet));
    rig.inject(rig.b, encodePacket({ ...packet, bth: { ...packet.bth, ackReq: true } }));
    rig.run();
    assert.deepEqual(namesFrom(rig, "b"), []);
  });

  it("takes frames of its peer only", () => {
    const pair = new Pair();
    const { rig } = pair;
    pair.write(8);
    rig.run();
    const packet = decodePacket(rig.frames[0]!.bytes);
    assert.ok(!isRefusal(packet));
    rig.inject(rig.b, encodePacket({ ...packet, sourceAddress: packet.sourceAddress + 7 }));
    rig.run();
    assert.equal(pair.drops("wrong-peer"), 1);
  });

  it("packets doubled or delayed by the network never put together a wrong message", () => {
    const pair = new Pair();
    const { rig } = pair;
    rig.fate = (from, _frame: Frame, index) =>
      from === "b"
        ? "pass"
        : index % 3 === 1
        ? "twice"
        : index % 7 === 5
        ? { delayPs: 400_000 }
        : "pass";
    for (let i = 0; i < 6; i++) pair.recv(0, 1024);
    for (let i = 0; i < 12; i++) pair.send(3 * MTU);
    rig.run();
    const received = pair.received();
    assert.ok(received.length < 12);
    for (const each of received) assert.deepEqual(each, ["recv", 3 * MTU, 0]);
  });

  it("flushes what is posted, and begins anew after RESET", () => {
    const pair = new Pair();
    const { rig } = pair;
    pair.recv(0, 64);
    rig.modify(rig.b, pair.b, { state: "err" });
    rig.run();
    assert.deepEqual(statuses(rig.poll(rig.b, pair.b.recvCq)), ["WR_FLUSH_ERR"]);
    pair.write(8);
    rig.run();
    assert.equal(pair.drops("wrong-state"), 1);
  });
});

describe("persistence over a service that answers nothing", () => {
  it("P-22, §3.8: a UC WRITE into a write-persistence region is a plain one: nothing is flushed", () => {
    for (const plan of [FLOW_1, FLOW_2]) {
      const p = new Pair({ persistence: { b: plan } });
      const access = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteWritePersistence;
      const to = p.rig.register(p.rig.b, { length: 4096, va: 0x7_0000_0000, access });
      p.recv(0, 128);
      p.rig.send(p.rig.a, p.a, {
        opcode: "write",
        remote: { va: BigInt(to.va), rkey: to.key },
        sges: [{ address: p.from.va, length: 700, lkey: p.from.key }],
      });
      p.rig.run();
      assert.deepEqual(statuses(p.rig.poll(p.rig.a, p.a.sendCq)), ["SUCCESS"]);
      assert.deepEqual(p.rig.bytes(p.rig.b, to, 0, 700), p.rig.bytes(p.rig.a, p.from, 0, 700));
      const { lsbReads, recvPersisted, framesOut } = p.rig.b.rnic.statistics();
      assert.deepEqual([lsbReads, recvPersisted, framesOut], [0, 0, 0]);
      assert.deepEqual(p.received(), [], "no RECV is taken for it");
    }
  });

  for (const opcode of ["write-persistence", "write-persist-address", "persistence-ack"] as const) {
    it(`§4.3: ${opcode} on UC and on UD is refused: LOC_QP_OP_ERR, nothing leaves`, () => {
      const p = new Pair();
      const ud = createUd(p.rig, p.rig.a);
      for (const qp of [p.a, ud]) {
        const remote = { va: BigInt(p.to.va), rkey: p.to.key };
        const sges = [{ address: p.from.va, length: 8, lkey: p.from.key }];
        const work = opcode === "persistence-ack" ? { immediate: 5 } : { remote, sges };
        p.rig.send(p.rig.a, qp, { opcode, ...work });
        p.rig.run();
        assert.deepEqual(statuses(p.rig.poll(p.rig.a, qp.sendCq)), ["LOC_QP_OP_ERR"]);
      }
      assert.equal(p.rig.frames.length, 0);
    });
  }

  it("§3.4: a persistence opcode that comes for a UC queue pair is dropped, no byte of it written", () => {
    const rc = persistingPair(FLOW_1);
    post(rc, "write-persistence", { length: 8 });
    go(rc);
    const stranger = packetOf(rc.rig.frames[0]!.bytes);
    const p = new Pair();
    const { bth } = stranger;
    const reth = { ...stranger.reth!, va: BigInt(p.to.va), rkey: p.to.key };
    const request = { ...stranger, reth, bth: { ...bth, destQpn: p.b.qpn } };
    p.rig.inject(p.rig.b, encodePacket(request));
    p.rig.run();
    assert.equal(p.rig.b.rnic.statistics()["drop-wrong-service"], 1);
    assert.ok(p.rig.bytes(p.rig.b, p.to, 0, 8).every((byte) => byte === 0));
  });
});
