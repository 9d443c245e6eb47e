import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import { mechanismOf } from "../../../fabric/trace/mechanism_steps.ts";
import { OPCODE, OPCODE_ROWS } from "../../../fabric/wire/roce/opcode.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../../fabric/wire/roce/feth.ts";
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  changed,
  counter,
  EVERY_ACCESS,
  FIRST_PSN,
  go,
  inject,
  losing,
  names,
  packetOf,
  packets,
  type Pair,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import { LIMITS } from "../state/limits.ts";
import { wantsPersistence } from "./pm_module.ts";
import { FLOW_1, persistingPair, PLAIN_REGION } from "../testing/pm_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";
import type { Region } from "../state/memory.ts";
import { createTable } from "../state/translation_table.ts";

const PERSIST_ACK = OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"];
const ACK = OPCODE["RC ACKNOWLEDGE"];

/** A page that a peer may write, but for its access flags. */
const ANY_REGION: Omit<Region, "access"> = {
  pd: 1,
  va: 0,
  length: 4096,
  pageBytes: 4096,
  pages: [0],
  table: createTable(256, { given: [0] }),
  persistent: true,
  pageBase: 0,
  alive: true,
  windows: 0,
  window: undefined,
  isNull: false,
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
    const p = persistingPair(FLOW_1);
    post(p, "write-persistence", { length: 100 });
    go(p);
    assert.deepEqual(names(p, "a"), ["VENDOR WRITE PERSISTENCE ONLY"]);
    const request = packetOf(p.rig.frames[0]!.bytes);
    assert.equal(request.reth!.va, BigInt(p.to.va));
    assert.equal(request.reth!.length, 100);
    assert.deepEqual(request.payload, p.rig.bytes(p.rig.a, p.from, 0, 100));
    assert.equal(request.persistEth!.version, 1);
    assert.deepEqual([request.bth.psn, request.bth.destQpn], [0xff_fffe, p.b.qpn]);
  });

  it("P-24, P-25: data, LSB read, persistence ACK with the data's PSN, one CQE", () => {
    const p = persistingPair(FLOW_1);
    const before = p.rig.b.host.log.length;
    post(p, "write-persistence", { length: 3000 });
    go(p);
    assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE", "VENDOR PERSISTENCE ACKNOWLEDGE"]);
    const answers = p.rig.frames.filter(({ from }) => from === "b").map(({ bytes }) =>
      packetOf(bytes)
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
    const access = PLAIN_REGION | ACCESS.remoteWritePersistence;
    const p = persistingPair(FLOW_1, { access });
    post(p, "write-persist-address", { length: 2000 });
    post(p, "write", { length: 100, at: 4000 });
    go(p);
    assert.ok(names(p, "a").every((name) => name.startsWith("RC RDMA WRITE")));
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(p.rig.b.rnic.statistics()["lsbPersisted"], 2);
  });

  it("P-22: in a region without the flag a plain WRITE is not persisted", () => {
    const p = persistingPair(FLOW_1);
    post(p, "write", { length: 100 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.b.rnic.statistics()["lsbReads"], 0);
  });

  it("P-24: LSB read and data carry NS = 1 where the processor looks at it, else 0", () => {
    for (const noSnoop of [true, false]) {
      const p = persistingPair({ flow: 1, flush: "read", noSnoop });
      post(p, "write", { length: 100 });
      post(p, "write-persistence", { length: 100, at: 200 });
      const before = p.rig.b.host.log.length;
      go(p);
      const bits = p.rig.b.host.log.slice(before).flatMap((message) =>
        message.kind === "memory-write" || message.kind === "memory-read" ? [message.noSnoop] : []
      );
      assert.deepEqual(bits, [noSnoop, noSnoop, noSnoop], "P-31: earlier plain data as well");
    }
  });

  it("P-24: the persistence ACK is never sent before the LSB read is complete", () => {
    const p = persistingPair(FLOW_1);
    for (let i = 0; i < 20; i++) post(p, "write-persistence", { length: 500, at: 500 * i });
    p.rig.fate = (from, frame) => {
      const { bth } = packetOf(frame.bytes);
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
    for (let i = 0; i < 30; i++) post(p, "write-persistence", { length: 64, at: 64 * i });
    go(p);
    assert.deepEqual(statuses(p), new Array(30).fill("SUCCESS"));
    const { lsbReads, lsbPersisted, persistAcksOut } = rig.b.rnic.statistics();
    assert.equal(lsbPersisted, 30);
    assert.equal(persistAcksOut, 30);
    assert.ok(lsbReads! < 30, `${lsbReads} LSB reads for 30 messages`);
  });

  it("P-24: an LSB read that the host refuses proves nothing", () => {
    const p = persistingPair(FLOW_1, { retryCnt: 1 });
    p.rig.b.host.refuseReads = true;
    post(p, "write-persistence", { length: 100 });
    go(p);
    assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 0);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
  });

  it("P-28: after the reception ACK the next write goes out: persisting and writing overlap", () => {
    const p = persistingPair(FLOW_1);
    post(p, "write-persistence", { length: 100 });
    post(p, "write-persistence", { length: 100, at: 200 });
    go(p);
    const firstPersistAck = p.rig.frames.findIndex(({ bytes }) =>
      packetOf(bytes).bth.opcode === PERSIST_ACK
    );
    const secondWrite = p.rig.frames.findLastIndex(({ from }) => from === "a");
    assert.ok(secondWrite < firstPersistAck);
  });

  it("P-29: with policy persistence a later plain WRITE does not complete before it", () => {
    const p = persistingPair(FLOW_1);
    const order = [
      post(p, "write-persistence", { length: 100 }),
      post(p, "write", { length: 100, at: 200 }),
    ];
    p.rig.fate = losing("VENDOR PERSISTENCE ACKNOWLEDGE");
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20 * PS_PER_US);
    assert.deepEqual(p.rig.poll(p.rig.a, p.a.sendCq), []);
    p.rig.run();
    assert.deepEqual(p.rig.poll(p.rig.a, p.a.sendCq).map(({ wqeIndex }) => wqeIndex), order);
  });

  it("P-28: a repeated reception ACK is never taken for the persistence ACK", () => {
    const p = persistingPair(FLOW_1, { retryCnt: 2 });
    p.rig.fate = (_from, frame) => {
      const { opcode } = packetOf(frame.bytes).bth;
      return opcode === PERSIST_ACK ? "drop" : opcode === ACK ? "twice" : "pass";
    };
    post(p, "write-persistence", { length: 100 });
    go(p);
    assert.ok(p.rig.a.rnic.statistics()["acksIn"]! >= 4);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"], "never reported, though received");
  });

  it("P-30: a lost persistence ACK is answered again, reported once, executed once", () => {
    for (const length of [100, 5000]) {
      const p = persistingPair(FLOW_1);
      p.rig.fate = losing("VENDOR PERSISTENCE ACKNOWLEDGE");
      post(p, "write-persistence", { length });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS"]);
      assert.equal(p.rig.b.rnic.statistics()["lsbPersisted"], 1);
      assert.equal(p.rig.b.rnic.statistics()["persistAcksOut"], 2);
      const again = names(p, "a").at(-1);
      const expected = length === 100 ? "ONLY" : "LAST";
      assert.equal(again, `VENDOR WRITE PERSISTENCE ${expected}`, "the last packet is enough");
    }
  });

  it("P-30: a lost reception ACK is made good by the persistence ACK", () => {
    const p = persistingPair(FLOW_1);
    p.rig.fate = losing("RC ACKNOWLEDGE", 100);
    post(p, "write-persistence", { length: 3000 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.equal(p.rig.a.rnic.statistics()["retransmissions"], 0);
  });

  it("P-30: doubled and late persistence ACKs change nothing", () => {
    const p = persistingPair(FLOW_1);
    p.rig.fate = (_from, frame) =>
      packetOf(frame.bytes).bth.opcode === PERSIST_ACK ? "twice" : "pass";
    for (let i = 0; i < 5; i++) post(p, "write-persistence", { length: 100, at: 100 * i });
    go(p);
    assert.deepEqual(statuses(p), new Array(5).fill("SUCCESS"));
    assert.equal(p.rig.a.rnic.statistics()["ignoredResponsesIn"], 5);
  });

  it("a zero-length persistent WRITE succeeds: it flushes what came before (P-31)", () => {
    const p = persistingPair(FLOW_1);
    post(p, "write", { length: 100 });
    p.rig.enqueueSend(p.rig.a, p.a, { opcode: "write-persistence", remote: { va: 0n, rkey: 0 } });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.equal(p.rig.b.rnic.statistics()["lsbReads"], 1);
  });

  it("the ladder has the document's steps S902 to S908 in order", () => {
    const p = persistingPair(FLOW_1);
    p.rig.tracing = true;
    post(p, "write-persistence", { length: 100 });
    go(p);
    const traces = p.rig.traces.filter(({ step: { step } }) => mechanismOf(step) === undefined);
    const steps = traces.map(({ node, step }) => `${node} ${step.step}`);
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
    assert.ok(traces.every(({ step }) => step.connection === "10.0.0.1:17-10.0.0.2:17"));
    assert.ok(traces.every(({ step }) => step.psn === 0xff_fffe));
  });
});

/** Whole-system persistence (P-01): what the bus has taken survives, and nothing needs to be flushed. */
const ALL_KEPT: PersistencePlan = { flow: 1, flush: "none", noSnoop: false };

describe("PM module, whole-system persistence", () => {
  const { globalVisibility, persistence } = FLUSH_PLACEMENT;

  /** A pair whose responder's bus is taken up for a while by something else. */
  function behindBusyBus(): Pair {
    const p = persistingPair(ALL_KEPT, { access: EVERY_ACCESS });
    p.rig.b.toHost.freeAt = p.rig.now + 10 * PS_PER_US;
    return p;
  }

  /** When the last frame of `b` with this opcode left. */
  function leftAt(p: Pair, opcode: number): number {
    return p.rig.frames.findLast(({ bytes }) => packetOf(bytes).bth.opcode === opcode)!.time;
  }

  it("P-01, P-25: the persistence ACK leaves when the bus has taken the data, without a read", () => {
    const p = behindBusyBus();
    post(p, "write-persistence", { length: 3000 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    // Nothing but the data has gone to the host.
    assert.ok(leftAt(p, PERSIST_ACK) >= p.rig.b.toHost.freeAt);
    assert.equal(counter(p, "b", "lsbReads"), 0);
  });

  it("P-31: so it does when the data is an earlier plain WRITE's", () => {
    const p = behindBusyBus();
    post(p, "write", { length: 3000 });
    post(p, "write-persistence", { remote: { va: 0n, rkey: 0 } });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.ok(leftAt(p, PERSIST_ACK) >= p.rig.b.toHost.freeAt);
  });

  it("P-50: a FLUSH to persistence is answered when the bus has taken the data, without a read", () => {
    const p = behindBusyBus();
    post(p, "write", { length: 3000 });
    const flush = { select: FLUSH_SELECT.range, placement: persistence, length: 3000 };
    post(p, "flush", { flush });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
    assert.ok(leftAt(p, OPCODE["RC RDMA READ RESPONSE ONLY"]) >= p.rig.b.toHost.freeAt);
    assert.equal(counter(p, "b", "lsbReads"), 0);
  });

  for (const placement of [globalVisibility, globalVisibility | persistence]) {
    it(`P-50: a FLUSH to visibility (placement ${placement}) has its read: who looks finds the data`, () => {
      const p = persistingPair(ALL_KEPT, { access: EVERY_ACCESS });
      let answers = 0;
      p.rig.fate = (from) => {
        if (from === "b" && names(p, "b").at(-1) === "RC RDMA READ RESPONSE ONLY") {
          answers++;
          const { address, length } = p.to;
          const waits = p.rig.b.host.buffered.some((write) =>
            write.address >= address && write.address < address + length
          );
          assert.ok(!waits, "the data is still on its way");
        }
        return "pass";
      };
      post(p, "write", { length: 3000 });
      post(p, "flush", { flush: { select: FLUSH_SELECT.range, placement, length: 3000 } });
      go(p);
      assert.equal(answers, 1);
      assert.equal(counter(p, "b", "lsbReads"), 1);
    });
  }
});

describe("an answer to what was not sent yet", () => {
  /** More than the card fetches ahead. */
  const PACKETS = 2 * LIMITS.transmitBufferBytes / 1024;

  /** A message is confirmed, and the first packets of another have left. @returns its last PSN. */
  function underWay(p: Pair, opcode: "write" | "write-persistence"): number {
    post(p, "write-persistence", { length: 8 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    const { rig } = p;
    const length = PACKETS * 1024, at = { length, va: 0x5_0000_0000 };
    const from = rig.register(rig.a, at), to = rig.register(rig.b, at);
    const sent = rig.frames.length;
    post(p, opcode, {
      sges: [{ address: from.va, length, lkey: from.key }],
      remote: { va: BigInt(to.va), rkey: to.key },
    });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => rig.frames.length > sent);
    return (FIRST_PSN + PACKETS) & 0xff_ffff;
  }

  /** Puts an answer of this kind on the wire to `a`, as though `b` had sent it. */
  function answerWith(p: Pair, opcode: number, psn: number): void {
    const known = packets(p, "b").find(({ bth }) => bth.opcode === opcode)!;
    inject(p, "a", changed(known, { bth: { psn } }));
  }

  it("P-28, P-30: a persistence ACK confirms nothing: when the data is received it is not persistent", () => {
    const p = persistingPair(FLOW_1, { retryCnt: 1 });
    const psn = underWay(p, "write-persistence");
    answerWith(p, PERSIST_ACK, psn);
    p.rig.fate = losing("VENDOR PERSISTENCE ACKNOWLEDGE", 100);
    p.rig.run();
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
  });

  it("§3.3: an ACK acknowledges nothing: all packets are sent, again and again where they are lost", () => {
    const p = persistingPair(FLOW_1, { retryCnt: 1 });
    const psn = underWay(p, "write");
    answerWith(p, ACK, psn);
    p.rig.fate = (from, frame) =>
      from === "a" && packetOf(frame.bytes).bth.psn === psn ? "drop" : "pass";
    p.rig.run();
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
  });
});
