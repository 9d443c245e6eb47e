import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/time/time.ts";
import { OPCODE, OPCODE_ROWS, opcodeRow } from "../../fabric/wire/opcode.ts";
import { decodePacket, isRefusal, type RocePacket } from "../../fabric/wire/packet.ts";
import { ACCESS, type PersistencePlan } from "../../fabric/wire/rnic_command.ts";
import type { Region } from "./memory_region.ts";
import { wantsPersistence } from "./pm_module.ts";
import type { Pair } from "./pair_testing.ts";
import type { FrameFate } from "./rig_parts_testing.ts";
import { Rig } from "./rnic_testing.ts";

const PERSIST_ACK = OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"];
const ACK = OPCODE["RC ACKNOWLEDGE"];
const REGION = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteRead;
const FLOW_1: PersistencePlan = { flow: 1, flush: "read", noSnoop: false };
const FLOW_2: PersistencePlan = { flow: 2, flush: "cpu", noSnoop: false };

function pair(
  flow: PersistencePlan,
  options: {
    policy?: "persistence" | "reception";
    access?: number;
    retryCnt?: number;
    dmaReadsMax?: number;
  } = {},
): Pair {
  const { policy = "persistence", access = REGION } = options;
  const rig = new Rig({ persistence: { a: flow, b: flow } });
  const from = rig.register(rig.a, { length: 65536 });
  const to = rig.register(rig.b, { length: 65536, access });
  rig.fill(rig.a, from, (i) => i * 11 + 1);
  const attributes = { retryCnt: options.retryCnt ?? 7 };
  return { rig, ...rig.connect({ persistCompletion: policy, attributes }), from, to };
}

type PersistOpcode = "write-persistence" | "write-persist-address" | "write";

function post(p: Pair, message: { length: number; at?: number; opcode?: PersistOpcode }): number {
  const { length, at = 0, opcode = "write-persistence" } = message;
  return p.rig.enqueueSend(p.rig.a, p.a, {
    opcode,
    remote: { va: BigInt(p.to.va + at), rkey: p.to.key },
    sges: [{ address: p.from.va + at, length, lkey: p.from.key }],
  });
}

function go(p: Pair): void {
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.run();
}

function packet(bytes: Uint8Array<ArrayBuffer>): RocePacket {
  const decoded = decodePacket(bytes);
  assert.ok(!isRefusal(decoded));
  return decoded;
}

function sent(p: Pair, from: "a" | "b"): string[] {
  return p.rig.frames.filter((frame) => frame.from === from)
    .map(({ bytes }) => opcodeRow(packet(bytes).bth.opcode)!.name);
}

function statuses(p: Pair): string[] {
  return p.rig.poll(p.rig.a, p.a.sendCq).map(({ status }) => status);
}

/** Loses the first `count` frames of this opcode. */
function losing(
  opcode: number,
  count = 1,
): (from: "a" | "b", frame: { bytes: Uint8Array<ArrayBuffer> }) => FrameFate {
  let lost = 0;
  return (_from, frame) =>
    packet(frame.bytes).bth.opcode === opcode && lost++ < count ? "drop" : "pass";
}

/** The host's CPU: flushes what completed RECVs name and posts the persistence ACK. */
function flushByCpu(p: Pair): number {
  const cqes = p.rig.poll(p.rig.b, p.b.recvCq).filter(({ opcode }) =>
    opcode === "recv-persistence"
  );
  for (const { psn } of cqes) {
    p.rig.enqueueSend(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn });
  }
  if (cqes.length > 0) p.rig.ring(p.rig.b, p.b.sq);
  return cqes.length;
}

/** A page that a peer may write, but for its access flags. */
const ANY_REGION: Omit<Region, "access"> = {
  pd: 1,
  va: 0,
  length: 4096,
  pageBytes: 4096,
  pages: [0],
  persistent: true,
  pageBase: 0,
  alive: true,
  windows: 0,
  window: undefined,
  key: 256,
};

describe("wantsPersistence", () => {
  it("P-23: by opcode or by address: every WRITE opcode, with every set of access flags", () => {
    const writes = OPCODE_ROWS.filter(({ operation }) => operation === "write");
    const flags = Object.values(ACCESS);
    let persisted = 0;
    for (const row of writes) {
      const isVendor = row.name.startsWith("VENDOR");
      assert.equal(wantsPersistence(row, undefined), isVendor, `${row.name}, no region`);
      for (let set = 0; set < 1 << flags.length; set++) {
        const access = flags.filter((_, i) => (set >> i) & 1).reduce((sum, bit) => sum | bit, 0);
        const region: Region = { ...ANY_REGION, access };
        const expected = isVendor || (access & ACCESS.remoteWritePersistence) !== 0;
        assert.equal(wantsPersistence(row, region), expected, `${row.name}, access ${access}`);
        if (expected) persisted++;
      }
    }
    assert.ok(writes.some(({ name }) => name.startsWith("VENDOR")));
    assert.ok(persisted > 0 && persisted < writes.length << flags.length);
  });
});

describe("PM module, flow 1", () => {
  it("P-20, P-21: ONE request with the vendor's opcode carries data, address, PSN and flag", () => {
    const p = pair(FLOW_1);
    post(p, { length: 100 });
    go(p);
    assert.deepEqual(sent(p, "a"), ["VENDOR WRITE PERSISTENCE ONLY"]);
    const request = packet(p.rig.frames[0]!.bytes);
    assert.equal(request.reth!.va, BigInt(p.to.va));
    assert.equal(request.reth!.length, 100);
    assert.equal(request.persistEth!.version, 1);
    assert.equal(request.bth.destQpn, p.b.qpn);
  });

  it("P-24, P-25: data, LSB read, persistence ACK with the data's PSN, one CQE", () => {
    const p = pair(FLOW_1);
    const before = p.rig.b.host.log.length;
    post(p, { length: 3000 });
    go(p);
    assert.deepEqual(sent(p, "b"), ["RC ACKNOWLEDGE", "VENDOR PERSISTENCE ACKNOWLEDGE"]);
    const answers = p.rig.frames.filter(({ from }) => from === "b").map(({ bytes }) =>
      packet(bytes)
    );
    assert.deepEqual(answers.map(({ bth }) => bth.psn), [0, 0], "P-28: two ACKs, one PSN");
    const log = p.rig.b.host.log.slice(before);
    assert.deepEqual(log.map(({ kind }) => kind).slice(-2), ["memory-write", "memory-read"]);
    const read = log.at(-1)!;
    assert.ok(read.kind === "memory-read" && read.length === 1 && read.address === p.to.address);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(cqes.map(({ status, psn, va }) => [status, psn, va]), [
      ["SUCCESS", 0, BigInt(p.to.va)],
    ]);
    assert.deepEqual(p.rig.bytes(p.rig.b, p.to, 0, 3000), p.rig.bytes(p.rig.a, p.from, 0, 3000));
  });

  it("P-22: a plain WRITE into a write-persistence region is persisted, whoever asks", () => {
    const access = REGION | ACCESS.remoteWritePersistence;
    const p = pair(FLOW_1, { access });
    post(p, { length: 2000, opcode: "write-persist-address" });
    post(p, { length: 100, at: 4000, opcode: "write" });
    go(p);
    assert.ok(sent(p, "a").every((name) => name.startsWith("RC RDMA WRITE")));
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(p.rig.b.rnic.statistics()["lsbPersisted"], 2);
  });

  it("P-22: in a region without the flag a plain WRITE is not persisted", () => {
    const p = pair(FLOW_1);
    post(p, { length: 100, opcode: "write" });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.b.rnic.statistics()["lsbReads"], 0);
  });

  it("P-24: LSB read and data carry NS = 1 where the processor looks at it, else 0", () => {
    for (const noSnoop of [true, false]) {
      const p = pair({ flow: 1, flush: "read", noSnoop });
      post(p, { length: 100, opcode: "write" });
      post(p, { length: 100, at: 200 });
      const before = p.rig.b.host.log.length;
      go(p);
      const bits = p.rig.b.host.log.slice(before).flatMap((message) =>
        message.kind === "memory-write" || message.kind === "memory-read" ? [message.noSnoop] : []
      );
      assert.deepEqual(bits, [noSnoop, noSnoop, noSnoop], "P-31: earlier plain data as well");
    }
  });

  it("P-24: the persistence ACK is never sent before the LSB read is complete", () => {
    const p = pair(FLOW_1);
    for (let i = 0; i < 20; i++) post(p, { length: 500, at: 500 * i });
    p.rig.fate = (from, frame) => {
      const { bth } = packet(frame.bytes);
      if (from === "b" && bth.opcode === PERSIST_ACK) {
        const index = bth.psn - 0xff_fffe + (bth.psn < 0x80_0000 ? 0x100_0000 : 0);
        const at = p.to.address + 500 * index;
        const stillBuffered = p.rig.b.host.buffered.some(({ address }) =>
          address >= at && address < at + 500
        );
        assert.ok(!stillBuffered, `message ${index} is reported and still in the IIO`);
      }
      return "pass";
    };
    go(p);
    assert.equal(statuses(p).length, 20);
  });

  it("P-24: messages share an LSB read that is still on the chip", () => {
    const rig = new Rig({
      plans: { b: { timing: { ...new Rig().b.plan.timing, dmaReadsMax: 1 } } },
    });
    const from = rig.register(rig.a, { length: 65536 });
    const to = rig.register(rig.b, { length: 65536 });
    const p: Pair = { rig, ...rig.connect(), from, to };
    for (let i = 0; i < 30; i++) post(p, { length: 64, at: 64 * i });
    go(p);
    assert.deepEqual(statuses(p), new Array(30).fill("SUCCESS"));
    const { lsbReads, lsbPersisted, persistAcksOut } = rig.b.rnic.statistics();
    assert.equal(lsbPersisted, 30);
    assert.equal(persistAcksOut, 30);
    assert.ok(lsbReads! < 30, `${lsbReads} LSB reads for 30 messages`);
  });

  it("P-24: an LSB read that the host refuses proves nothing", () => {
    const p = pair(FLOW_1, { retryCnt: 1 });
    p.rig.b.host.refuseReads = true;
    post(p, { length: 100 });
    go(p);
    assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 0);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
  });

  it("P-28: after the reception ACK the next write goes out: persisting and writing overlap", () => {
    const p = pair(FLOW_1);
    post(p, { length: 100 });
    post(p, { length: 100, at: 200 });
    go(p);
    const firstPersistAck = p.rig.frames.findIndex(({ bytes }) =>
      packet(bytes).bth.opcode === PERSIST_ACK
    );
    const secondWrite = p.rig.frames.findLastIndex(({ from }) => from === "a");
    assert.ok(secondWrite < firstPersistAck);
  });

  it("P-29: with policy persistence a later plain WRITE does not complete before it", () => {
    const p = pair(FLOW_1);
    const order = [post(p, { length: 100 }), post(p, { length: 100, at: 200, opcode: "write" })];
    p.rig.fate = losing(PERSIST_ACK);
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20 * PS_PER_US);
    assert.deepEqual(p.rig.poll(p.rig.a, p.a.sendCq), []);
    p.rig.run();
    assert.deepEqual(p.rig.poll(p.rig.a, p.a.sendCq).map(({ wqeIndex }) => wqeIndex), order);
  });

  it("P-28: a repeated reception ACK is never taken for the persistence ACK", () => {
    const p = pair(FLOW_1, { retryCnt: 2 });
    p.rig.fate = (_from, frame) => {
      const { opcode } = packet(frame.bytes).bth;
      return opcode === PERSIST_ACK ? "drop" : opcode === ACK ? "twice" : "pass";
    };
    post(p, { length: 100 });
    go(p);
    assert.ok(p.rig.a.rnic.statistics()["acksIn"]! >= 4);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"], "never reported, though received");
  });

  it("P-30: a lost persistence ACK is answered again, reported once, executed once", () => {
    for (const length of [100, 5000]) {
      const p = pair(FLOW_1);
      p.rig.fate = losing(PERSIST_ACK);
      post(p, { length });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS"]);
      assert.equal(p.rig.b.rnic.statistics()["lsbPersisted"], 1);
      assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 2);
      const again = sent(p, "a").at(-1);
      const expected = length === 100 ? "ONLY" : "LAST";
      assert.equal(again, `VENDOR WRITE PERSISTENCE ${expected}`, "the last packet is enough");
    }
  });

  it("P-30: a lost reception ACK is made good by the persistence ACK", () => {
    const p = pair(FLOW_1);
    p.rig.fate = losing(ACK, 100);
    post(p, { length: 3000 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.a.rnic.statistics()["retransmissions"], 0);
  });

  it("P-30: doubled and late persistence ACKs change nothing", () => {
    const p = pair(FLOW_1);
    p.rig.fate = (_from, frame) =>
      packet(frame.bytes).bth.opcode === PERSIST_ACK ? "twice" : "pass";
    for (let i = 0; i < 5; i++) post(p, { length: 100, at: 100 * i });
    go(p);
    assert.deepEqual(statuses(p), new Array(5).fill("SUCCESS"));
    assert.equal(p.rig.a.rnic.statistics()["ignoredResponsesIn"], 5);
  });

  it("a zero-length persistent WRITE succeeds: it flushes what came before (P-31)", () => {
    const p = pair(FLOW_1);
    post(p, { length: 100, opcode: "write" });
    p.rig.enqueueSend(p.rig.a, p.a, { opcode: "write-persistence", remote: { va: 0n, rkey: 0 } });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(p.rig.b.rnic.statistics()["lsbReads"], 1);
  });

  it("the ladder has the document's steps S902 to S908 in order", () => {
    const p = pair(FLOW_1);
    p.rig.tracing = true;
    post(p, { length: 100 });
    go(p);
    const steps = p.rig.traces.map(({ node, step }) => `${node} ${step.step}`);
    assert.deepEqual(steps, [
      "a S902",
      "a S903",
      "b S904",
      "b reception-ack",
      "b S905",
      "b S906",
      "b S907",
      "a S908",
    ]);
    assert.ok(p.rig.traces.every(({ step }) => step.connection === "10.0.0.1:17-10.0.0.2:17"));
    assert.ok(p.rig.traces.every(({ step }) => step.psn === 0xff_fffe));
  });
});

describe("PM module, flow 2", () => {
  it("P-26: consumes a RECV with VA, length and PSN; the CPU's SEND becomes the persistence ACK", () => {
    const p = pair(FLOW_2);
    p.rig.recv(p.rig.b, p.b, []);
    p.rig.ring(p.rig.a, p.a.sq);
    post(p, { length: 2500, at: 100 });
    go2(p, () => p.rig.b.rnic.statistics()["recvPersisted"] === 1);
    p.rig.runFor(5 * PS_PER_US);
    assert.deepEqual(sent(p, "b"), ["RC ACKNOWLEDGE"]);
    const [cqe] = p.rig.poll(p.rig.b, p.b.recvCq);
    assert.deepEqual([cqe?.opcode, cqe?.psn, cqe?.va, cqe?.byteCount, cqe?.wqeIndex], [
      "recv-persistence",
      0,
      BigInt(p.to.va + 100),
      2500,
      0,
    ]);
    assert.deepEqual(statuses(p), [], "P-29: received is not persisted");
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: cqe!.psn });
    p.rig.run();
    assert.deepEqual(sent(p, "b"), ["RC ACKNOWLEDGE", "VENDOR PERSISTENCE ACKNOWLEDGE"]);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq)[0]?.status, "SUCCESS", "S1017");
    assert.equal(p.rig.b.rnic.statistics()["lsbReads"], 0);
  });

  it("P-27, P-29: policy reception completes the WRITE when received and a RECV when persisted", () => {
    const p = pair(FLOW_2, { policy: "reception" });
    p.rig.recv(p.rig.b, p.b, []);
    p.rig.recv(p.rig.a, p.a, []);
    p.rig.tracing = true;
    post(p, { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => flushByCpu(p) === 1);
    const early = p.rig.poll(p.rig.a, p.a.sendCq);
    assert.deepEqual(early.map(({ opcode, status }) => [opcode, status]), [[
      "requester",
      "SUCCESS",
    ]]);
    p.rig.run();
    const late = p.rig.poll(p.rig.a, p.a.recvCq);
    assert.deepEqual(late.map(({ opcode, psn, va }) => [opcode, psn, va]), [
      ["recv-persistence", 0xff_fffe, BigInt(p.to.va)],
    ]);
    assert.deepEqual(sent(p, "a").length, 1, "P-27: no SEND of the requester crosses the wire");
    const steps = new Set(p.rig.traces.map(({ step }) => step.step));
    for (
      const step of [
        "S1002",
        "S1003",
        "S1004",
        "S1006",
        "S1007",
        "S1009",
        "S1010",
        "S1013",
        "S1015",
        "S1016",
        "S1017",
        "S1018",
      ]
    ) {
      assert.ok(steps.has(step), `${step} is in the ladder`);
    }
  });

  it("P-26: without a RECV the message is kept, never lost, and found when one is posted", () => {
    for (const bell of ["none", "number", "pointer"] as const) {
      const p = pair(FLOW_2);
      post(p, { length: 100 });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.runFor(30 * PS_PER_US);
      assert.equal(p.rig.b.rnic.statistics()["recvPersisted"], 0);
      assert.equal(p.rig.b.rnic.statistics()["rnrNaksOut"], 0);
      p.rig.recv(p.rig.b, p.b, [], bell);
      p.rig.run(() => flushByCpu(p) === 1);
      p.rig.run();
      assert.deepEqual(statuses(p), ["SUCCESS"]);
    }
  });

  it("P-30: if the CPU never answers, the requester gives up and reports nothing persisted", () => {
    const p = pair(FLOW_2, { retryCnt: 2 });
    p.rig.recv(p.rig.b, p.b, []);
    post(p, { length: 100 });
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    assert.equal(p.rig.b.rnic.statistics()["recvPersisted"], 1, "asked again, delivered once");
  });

  it("P-30: with policy reception that fails the queue pair and flushes the RECV", () => {
    const p = pair(FLOW_2, { retryCnt: 2, policy: "reception" });
    p.rig.recv(p.rig.a, p.a, []);
    post(p, { length: 100 });
    go(p);
    const cqes = p.rig.poll(p.rig.a, p.a.sendCq).map(({ opcode, status }) => [opcode, status]);
    assert.deepEqual(cqes, [["requester", "SUCCESS"], ["responder-error", "WR_FLUSH_ERR"]]);
  });

  it("P-30: a lost persistence ACK of the CPU is answered again by the RNIC alone", () => {
    for (const policy of ["persistence", "reception"] as const) {
      const p = pair(FLOW_2, { policy });
      p.rig.fate = losing(PERSIST_ACK, 2);
      p.rig.recv(p.rig.b, p.b, []);
      p.rig.recv(p.rig.a, p.a, []);
      post(p, { length: 100 });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run(() => flushByCpu(p) === 1);
      p.rig.run();
      const cqes = p.rig.poll(p.rig.a, p.a.sendCq);
      assert.deepEqual(
        cqes.map(({ status }) => status),
        new Array(policy === "reception" ? 2 : 1).fill("SUCCESS"),
      );
      assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 3);
      assert.equal(p.rig.b.rnic.statistics()["recvPersisted"], 1);
    }
  });

  it("P-30: a persistence ACK for what was never delivered is refused (LOC_QP_OP_ERR)", () => {
    const p = pair(FLOW_2);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: 5 });
    p.rig.run();
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq)[0]?.status, "LOC_QP_OP_ERR");
    assert.deepEqual(sent(p, "b"), []);
  });

  it("P-27: the RECVs complete in order although a SEND of several packets holds one", () => {
    const p = pair(FLOW_2, { policy: "reception" });
    for (let i = 0; i < 4; i++) p.rig.recv(p.rig.b, p.b, []);
    for (let i = 0; i < 4; i++) {
      p.rig.recv(p.rig.a, p.a, [{ address: p.from.va + 32768, length: 8192, lkey: p.from.key }]);
    }
    for (let i = 0; i < 3; i++) post(p, { length: 100, at: 100 * i });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.b.rnic.statistics()["recvPersisted"] === 3);
    p.rig.enqueueSend(p.rig.b, p.b, {
      opcode: "send",
      sges: [{ address: p.to.va, length: 8192, lkey: p.to.key }],
    });
    p.rig.ring(p.rig.b, p.b.sq);
    p.rig.runFor(PS_PER_US);
    flushByCpu(p);
    p.rig.run();
    flushByCpu(p);
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.recvCq).filter(({ opcode }) => opcode.startsWith("recv"));
    assert.deepEqual(cqes.map(({ wqeIndex }) => wqeIndex), [0, 1, 2, 3]);
  });

  it("P-30: nor one for a message that waits for a RECV: the CPU cannot have flushed it", () => {
    const p = pair(FLOW_2);
    post(p, { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(10 * PS_PER_US);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: 0xff_fffe });
    p.rig.runFor(10 * PS_PER_US);
    assert.equal(p.rig.poll(p.rig.b, p.b.sendCq)[0]?.status, "LOC_QP_OP_ERR");
    assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 0);
  });

  it("P-27: a RECV for a persistence ACK does not overtake that of a SEND that is still coming", () => {
    const p = pair(FLOW_2, { policy: "reception" });
    p.rig.recv(p.rig.b, p.b, []);
    for (let i = 0; i < 2; i++) {
      p.rig.recv(p.rig.a, p.a, [{ address: p.from.va + 32768, length: 8192, lkey: p.from.key }]);
    }
    post(p, { length: 100 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => p.rig.b.rnic.statistics()["recvPersisted"] === 1);
    p.rig.runFor(5 * PS_PER_US);
    p.rig.fate = (_from, frame) => {
      const isEnd = packet(frame.bytes).bth.opcode === OPCODE["RC SEND LAST"];
      return isEnd ? { delayPs: 20 * PS_PER_US } : "pass";
    };
    const { psn } = p.rig.poll(p.rig.b, p.b.recvCq)[0]!;
    p.rig.enqueueSend(p.rig.b, p.b, {
      opcode: "send",
      sges: [{ address: p.to.va, length: 2000, lkey: p.to.key }],
    });
    p.rig.ring(p.rig.b, p.b.sq);
    // The SEND's first packet is there and has its RECV, the last one is on its way.
    p.rig.runFor(5 * PS_PER_US);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn });
    p.rig.run();
    const cqes = p.rig.poll(p.rig.a, p.a.recvCq).filter(({ opcode }) => opcode !== "requester");
    assert.deepEqual(cqes.map(({ opcode, wqeIndex }) => [opcode, wqeIndex]), [
      ["recv", 0],
      ["recv-persistence", 1],
    ]);
  });

  function go2(p: Pair, until: () => boolean): void {
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(until);
  }
});

describe("ladders of the baselines", () => {
  function steps(p: Pair): string[] {
    return p.rig.traces.map(({ node, step }) => `${node} ${step.step}`);
  }

  it("P-10: WRITE, then READ: S202 to S206, S209 to S213", () => {
    const p = pair(FLOW_1);
    p.rig.tracing = true;
    post(p, { length: 64, opcode: "write" });
    go(p);
    p.rig.send(p.rig.a, p.a, {
      opcode: "read",
      remote: { va: BigInt(p.to.va), rkey: p.to.key },
      sges: [{ address: p.from.va, length: 64, lkey: p.from.key }],
    });
    p.rig.run();
    assert.deepEqual(steps(p), [
      ...["a S202", "a S203", "b S204", "b S205", "a S206"],
      ...["a S209", "a S210", "b S211", "b dma-read", "b S212", "a S213"],
    ]);
  });

  it("P-11: WRITE, SEND, answer: S302 to S306, S309 to S315, S318 to S324", () => {
    const p = pair(FLOW_2);
    p.rig.tracing = true;
    p.rig.recv(p.rig.b, p.b, [{ address: p.to.va + 4096, length: 64, lkey: p.to.key }]);
    p.rig.recv(p.rig.a, p.a, [{ address: p.from.va + 4096, length: 64, lkey: p.from.key }]);
    post(p, { length: 64, opcode: "write" });
    go(p);
    p.rig.send(p.rig.a, p.a, { opcode: "send", inline: new Uint8Array(16) });
    p.rig.run();
    p.rig.send(p.rig.b, p.b, { opcode: "send", inline: new Uint8Array(16) });
    p.rig.run();
    assert.deepEqual(steps(p), [
      ...["a S302", "a S303", "b S304", "b S305", "a S306"],
      ...["a S309", "a S310", "b S312", "b S313", "b S314", "a S315"],
      ...["b S322", "b S323", "a S318", "a S324", "a send-ack", "b send-complete"],
    ]);
  });
});
