/**
 * Rows of `rocev2.md` §7.4 that need a meddler on the wire: frames changed, invented, or held back.
 * The other rows stand with what they are about: `transport_test.ts`, `loss_test.ts`,
 * `atomic_test.ts`, `flush_operation_test.ts`.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Time } from "../../fabric/base/time.ts";
import { rnrDelayPs } from "../../fabric/wire/roce/aeth.ts";
import { encodePacket } from "../../fabric/wire/roce/packet.ts";
import {
  OPCODE,
  OPCODE_ROWS,
  type OpcodeName,
  type OpcodeRow,
  opcodeRow,
} from "../../fabric/wire/roce/opcode.ts";
import type { RocePacket } from "../../fabric/wire/roce/packet.ts";
import { PERSIST_ETH } from "../../fabric/wire/roce/persist_eth.ts";
import { ACCESS } from "../../fabric/wire/host_bus/rnic_command.ts";
import { makeVerifyEth } from "../../fabric/wire/roce/verify_eth.ts";
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
  pair,
  post,
  recvs,
  statuses,
} from "./testing/pair_testing.ts";

/** A request of `a` as it would be on the wire, taken from one that another pair sends. */
function request(opcode: OpcodeName, change: Parameters<typeof changed>[1] = {}): RocePacket {
  const p = pair();
  post(p, "write", { length: 16 });
  go(p);
  const [sent] = packets(p, "a");
  const { bth, ...rest } = change;
  return changed(sent!, { ...rest, bth: { opcode: OPCODE[opcode], ...bth } });
}

function next(psn: number, count = 1): number {
  return (psn + count) & 0xff_ffff;
}

/** Syndromes of what `b` has sent. */
function syndromes(p: Pair): number[] {
  return packets(p, "b").map(({ aeth }) => aeth!.syndrome);
}

function eventsOf(p: Pair): string[] {
  return p.rig.b.host.events.map(({ type }) => type).filter((type) => type !== "COMM_EST");
}

function untouched(p: Pair): void {
  const target = p.rig.bytes(p.rig.b, p.to);
  assert.ok(target.every((byte) => byte === 0xee), "no byte of the target has changed");
}

describe("duplicate READs", () => {
  function readTwice(
    change: (reth: NonNullable<RocePacket["reth"]>) => Partial<RocePacket["reth"]>,
  ) {
    const p = pair();
    post(p, "read", { length: 2000 });
    go(p);
    const before = packets(p, "b").length;
    const [sent] = packets(p, "a");
    inject(p, "b", changed(sent!, { reth: { ...sent!.reth!, ...change(sent!.reth!) } }));
    p.rig.run();
    return { p, answers: packets(p, "b").length - before };
  }

  it("§7 #56: with another range, another address or another key are dropped in silence", () => {
    for (
      const change of [
        () => ({ length: 2001 }),
        () => ({ length: 4000 }),
        () => ({ length: 1999 }),
        ({ va }: { va: bigint }) => ({ va: va + 8n }),
        ({ rkey }: { rkey: number }) => ({ rkey: rkey + 1 }),
      ]
    ) {
      const { p, answers } = readTwice(change);
      assert.equal(answers, 0);
      assert.equal(counter(p, "b", "drop-stale-duplicate"), 1);
    }
  });

  it("§3.5: the same one is executed again against the memory of now", () => {
    const { answers } = readTwice(() => ({}));
    assert.equal(answers, 2);
  });

  it("§3.5: one that is answered again takes no slot: the READ behind it is not refused", () => {
    const p = pair({}, { attributes: { maxRdAtomic: 1, maxDestRdAtomic: 1 } });
    post(p, "read", { length: 30_000 });
    go(p);
    const [sent] = packets(p, "a");
    const before = packets(p, "b").length;
    inject(p, "b", sent!);
    post(p, "read", { length: 8 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "requestsIn") === 3);
    assert.ok(packets(p, "b").length < before + 30, "the first one is still being answered");
    p.rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS"]);
  });
});

describe("receiver not ready", () => {
  it("§7 #57: the RNR NAK carries the responder's min_rnr_timer; rnr_retry 0 ends at the first", () => {
    const p = pair({}, { attributes: { rnrRetry: 0, minRnrTimer: 12 } });
    post(p, "send", { length: 10 });
    go(p);
    assert.deepEqual(syndromes(p), [0x20 | 12]);
    assert.deepEqual(statuses(p), ["RNR_RETRY_EXC_ERR"]);
  });

  for (const timer of [1, 8, 14]) {
    it(`§7 #58: timer code ${timer}: nothing before its time, then in order and once`, () => {
      const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: timer } });
      for (let i = 0; i < 3; i++) post(p, "send", { at: 64 * i, length: 20 });
      let nakAt: Time = 0;
      p.rig.fate = (from) => {
        if (from === "b" && (syndromes(p).at(-1)! >> 5) === 1) nakAt = p.rig.now;
        return "pass";
      };
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run(() => nakAt > 0);
      const sent = packets(p, "a").length;
      p.rig.runFor(rnrDelayPs(timer) - 1);
      assert.equal(packets(p, "a").length, sent, "nothing is sent before");
      recvs(p, 3, { length: 100 });
      p.rig.run();
      assert.deepEqual(statuses(p), ["SUCCESS", "SUCCESS", "SUCCESS"]);
      const indexes = p.rig.poll(p.rig.b, p.b.recvCq).map(({ wqeIndex }) => wqeIndex);
      assert.deepEqual(indexes, [0, 1, 2]);
    });
  }

  it("§7 #58: three WQEs, one RECV each: what they carry is not reordered", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 1 } });
    for (let i = 0; i < 3; i++) post(p, "send-immediate", { immediate: i, length: 20 });
    p.rig.ring(p.rig.a, p.a.sq);
    for (let i = 0; i < 3; i++) {
      p.rig.runFor(15_000_000);
      recvs(p, 1);
    }
    p.rig.run();
    const received = p.rig.poll(p.rig.b, p.b.recvCq).map(({ immediate }) => immediate);
    assert.deepEqual(received, [0, 1, 2]);
  });

  it("rnr_retry n: n more attempts, then RNR_RETRY_EXC_ERR; the rest is flushed", () => {
    const p = pair({}, { attributes: { rnrRetry: 2, minRnrTimer: 1 } });
    post(p, "send", { length: 10 });
    post(p, "write", { length: 10 });
    go(p);
    assert.deepEqual(syndromes(p), [0x21, 0x21, 0x21]);
    assert.deepEqual(statuses(p), ["RNR_RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
  });

  it("§7 #59: WRITE WITH IMM of three packets: refused on its LAST alone, which completes it", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 1 } });
    post(p, "write-immediate", { length: 3000, immediate: 9 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "b").length > 0);
    p.rig.runFor(1_000_000);
    const [nak] = packets(p, "b");
    assert.deepEqual([nak!.aeth!.syndrome, nak!.bth.psn], [0x21, next(FIRST_PSN, 2)]);
    assert.notEqual(p.rig.bytes(p.rig.b, p.to, 1, 1)[0], 0xee, "what came before is placed");
    recvs(p, 1);
    p.rig.run();
    const opcodes = names(p, "a");
    assert.deepEqual(opcodes, [
      "RC RDMA WRITE FIRST",
      "RC RDMA WRITE MIDDLE",
      "RC RDMA WRITE LAST IMM",
      "RC RDMA WRITE LAST IMM",
    ]);
    const [cqe] = p.rig.poll(p.rig.b, p.b.recvCq);
    assert.deepEqual([cqe?.byteCount, cqe?.immediate], [3000, 9]);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });

  it("the followers of what was refused are met with silence (IBA, qib; §8)", () => {
    const p = pair({}, { attributes: { rnrRetry: 7, minRnrTimer: 14 } });
    post(p, "send", { length: 4000 });
    post(p, "write", { length: 10 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.runFor(20_000_000);
    assert.deepEqual(syndromes(p), [0x2e]);
  });
});

describe("opcode sequence and lengths: NAK 0x61, and the responder fails", () => {
  function refusedWith(syndrome: number, frames: RocePacket[]): Pair {
    const p = pair();
    recvs(p, 2);
    for (const frame of frames) inject(p, "b", frame);
    p.rig.run();
    assert.deepEqual(syndromes(p).filter((each) => each >= 0x20), [syndrome]);
    assert.deepEqual(eventsOf(p), ["QP_REQ_ERR"]);
    return p;
  }
  const mtu = new Uint8Array(1024);

  it("§7 #63: SEND ONLY inside an open WRITE; the requester's work fails with it", () => {
    const p = pair({ fate: losing("RC RDMA WRITE LAST") });
    recvs(p, 1);
    post(p, "write", { length: 2000 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => packets(p, "a").length === 2 && counter(p, "b", "requestsIn") === 1);
    inject(p, "b", changed(packets(p, "a")[1]!, { bth: { opcode: OPCODE["RC SEND ONLY"] } }));
    post(p, "write", { length: 10 });
    go(p);
    assert.deepEqual(syndromes(p).filter((syndrome) => syndrome >= 0x20), [0x61]);
    assert.deepEqual(eventsOf(p), ["QP_REQ_ERR"]);
    assert.deepEqual(statuses(p), ["REM_INV_REQ_ERR", "WR_FLUSH_ERR"]);
    assert.deepEqual(p.rig.poll(p.rig.b, p.b.recvCq).map(({ status }) => status), ["WR_FLUSH_ERR"]);
  });

  it("§7 #64: WRITE MIDDLE, WRITE LAST, SEND MIDDLE or SEND LAST without a message", () => {
    for (
      const [opcode, payload] of [
        ["RC RDMA WRITE MIDDLE", mtu],
        ["RC RDMA WRITE LAST", new Uint8Array(8)],
        ["RC SEND MIDDLE", mtu],
        ["RC SEND LAST", new Uint8Array(8)],
      ] as const
    ) {
      untouched(refusedWith(0x61, [request(opcode, { payload })]));
    }
  });

  it("§7 #65: FIRST with other than the path MTU", () => {
    for (const bytes of [4, 1020, 1028]) {
      const reth = { ...request("RC RDMA WRITE FIRST").reth!, length: 4000 };
      const frame = request("RC RDMA WRITE FIRST", { reth, payload: new Uint8Array(bytes) });
      untouched(refusedWith(0x61, [frame]));
    }
  });

  it("§7 #65: LAST with 0 bytes", () => {
    const reth = { ...request("RC RDMA WRITE FIRST").reth!, length: 1024 };
    const first = request("RC RDMA WRITE FIRST", { reth, payload: mtu });
    const last = request("RC RDMA WRITE LAST", {
      payload: new Uint8Array(0),
      bth: { psn: next(FIRST_PSN) },
    });
    refusedWith(0x61, [first, last]);
  });

  it("§7 #65: a pad that makes the payload another length than announced", () => {
    // 13 bytes are announced: 16 on the wire with a pad of 3. A pad of 2 says 14.
    const reth = { ...request("RC RDMA WRITE ONLY").reth!, length: 13 };
    const frame = request("RC RDMA WRITE ONLY", { reth, payload: new Uint8Array(14) });
    untouched(refusedWith(0x61, [frame]));
  });

  it("§3.4, step 5: a FIRST or MIDDLE that brings all that was announced: LAST has nothing left", () => {
    const all = (length: number) => ({ ...request("RC RDMA WRITE FIRST").reth!, length });
    const first = (length: number) =>
      request("RC RDMA WRITE FIRST", { reth: all(length), payload: mtu });
    untouched(refusedWith(0x61, [first(1024)]));
    const middle = request("RC RDMA WRITE MIDDLE", { payload: mtu, bth: { psn: next(FIRST_PSN) } });
    const p = refusedWith(0x61, [first(2048), middle]);
    assert.equal(p.rig.bytes(p.rig.b, p.to, 1024, 1)[0], 0xee, "the MIDDLE changes nothing");
  });

  it("§7 #66: RETH says 600, ONLY brings 596", () => {
    const reth = { ...request("RC RDMA WRITE ONLY").reth!, length: 600 };
    const frame = request("RC RDMA WRITE ONLY", { reth, payload: new Uint8Array(596) });
    untouched(refusedWith(0x61, [frame]));
  });

  it("a message of more than 2^31 B is refused", () => {
    const reth = { ...request("RC RDMA WRITE FIRST").reth!, length: 2 ** 31 + 1 };
    untouched(refusedWith(0x61, [request("RC RDMA WRITE FIRST", { reth, payload: mtu })]));
  });

  it("one of 2^31 B is not too long: its region decides, which is smaller (0x62)", () => {
    const p = pair();
    const reth = { va: BigInt(p.to.va), rkey: p.to.key, length: 2 ** 31 };
    inject(p, "b", request("RC RDMA WRITE FIRST", { reth, payload: mtu }));
    p.rig.run();
    assert.deepEqual(syndromes(p), [0x62]);
    untouched(p);
  });
});

describe("inside an open message (§3.4, step 2)", () => {
  const FIRSTS = [
    "RC SEND FIRST",
    "RC RDMA WRITE FIRST",
    "VENDOR WRITE PERSISTENCE FIRST",
    "VENDOR WRITE VERIFY FIRST",
  ] as const;
  const accessFlags = EVERY_ACCESS | ACCESS.remoteWritePersistence | ACCESS.remoteWriteVerify;
  // Hints and coherence are agreed on nowhere yet, so they are dropped before.
  const requests = OPCODE_ROWS.filter(({ service, direction, operation }) =>
    service === "rc" && direction === "request" && operation !== "hint" &&
    !operation.startsWith("coherence")
  );

  /** A message of 1032 B (3072 B where `row` is a MIDDLE) is open and a packet of `row` comes. */
  function follow(open: OpcodeName, row: OpcodeRow): Pair {
    const p = pair({}, { attributes: { accessFlags } });
    const length = row.position === "middle" ? 3072 : 1032;
    recvs(p, 2, { length });
    // Every header that some row has: a packet takes those of its own row.
    const headers = {
      reth: { va: BigInt(p.to.va), rkey: p.to.key, length },
      persistEth: PERSIST_ETH,
      verifyEth: makeVerifyEth({ level: "none", persist: false }),
      digestEth: { crc: 0 },
      immdt: { immediate: 1 },
      ieth: { rkey: 1 },
      atomicEth: { va: BigInt(p.to.va), rkey: p.to.key, swapAdd: 1n, compare: 0n },
      feth: { reserved: 0, select: 0, placement: 1 },
    };
    const bytes = row.payload === "mtu" ? 1024 : row.payload === 0 ? 0 : 8;
    inject(p, "b", request(open, { ...headers, payload: new Uint8Array(1024) }));
    inject(
      p,
      "b",
      request(row.name as OpcodeName, {
        ...headers,
        payload: new Uint8Array(bytes),
        bth: { psn: next(FIRST_PSN) },
      }),
    );
    p.rig.run();
    return p;
  }

  for (const name of FIRSTS) {
    it(`${name}: MIDDLE and LAST of its kind go on with it, every other request gets NAK 0x61`, () => {
      const open = opcodeRow(OPCODE[name])!;
      for (const row of requests) {
        const continues = row.operation === open.operation && row.vendor === open.vendor &&
          (row.position === "middle" || row.position === "last");
        const p = follow(name, row);
        const naks = packets(p, "b").filter(({ aeth }) => (aeth?.syndrome ?? 0) >= 0x20);
        // SEND LAST INVALIDATE is one too: its key is refused in silence (§3.4, step 7).
        const expected = continues ? [] : [[0x61, next(FIRST_PSN)]];
        assert.deepEqual(
          naks.map(({ aeth, bth }) => [aeth!.syndrome, bth.psn]),
          expected,
          `${row.name} behind ${name}`,
        );
        const fails = continues ? row.invalidate ? ["QP_FATAL"] : [] : ["QP_REQ_ERR"];
        assert.deepEqual(eventsOf(p), fails, `${row.name} behind ${name}`);
      }
    });
  }
});

describe("what is dropped in silence", () => {
  it("§7 #71: a flipped payload bit is; CE and a smaller TTL are accepted", () => {
    const p = pair();
    const frame = encodePacket(request("RC RDMA WRITE ONLY"));
    const flipped = frame.slice();
    flipped[frame.length - 8]! ^= 1;
    p.rig.inject(p.rig.b, flipped);
    p.rig.run();
    untouched(p);
    assert.deepEqual(p.rig.frames, []);
    inject(p, "b", { ...request("RC RDMA WRITE ONLY"), ecn: 3, ttl: 63 });
    p.rig.run();
    assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE"]);
  });

  const cases: [string, Parameters<typeof changed>[1], string][] = [
    ["TVer 1", { bth: { tver: 1 } }, "drop-undecodable"],
    ["an unknown queue pair", { bth: { destQpn: 999 } }, "drop-unknown-qp"],
    ["an opcode of another class", { bth: { opcode: OPCODE["UC RDMA WRITE ONLY"] } }, ""],
    ["another source address", { sourceAddress: 0x0a00_0009 }, "drop-wrong-peer"],
    ["another partition", { bth: { pKey: 0x8001 } }, "drop-p-key"],
  ];
  for (const [name, change, reason] of cases) {
    it(`§7 #72: ${name}: counted, no NAK, no change`, () => {
      const p = pair();
      inject(p, "b", changed(request("RC RDMA WRITE ONLY"), change));
      p.rig.run();
      assert.deepEqual(p.rig.frames, []);
      untouched(p);
      if (reason !== "") assert.equal(counter(p, "b", reason), 1);
      else assert.equal(counter(p, "b", "requestsIn"), 0);
      post(p, "write", { length: 8 });
      go(p);
      assert.deepEqual(statuses(p), ["SUCCESS"], "the queue pair is none the worse");
    });
  }

  it("§7 #72: P_Keys match in their low 15 bits; a limited member reaches a full one (§1.2)", () => {
    for (let bit = 0; bit < 16; bit++) {
      const p = pair();
      inject(p, "b", request("RC RDMA WRITE ONLY", { bth: { pKey: 0xffff ^ (1 << bit) } }));
      p.rig.run();
      const isLimited = bit === 15;
      assert.deepEqual(names(p, "b"), isLimited ? ["RC ACKNOWLEDGE"] : [], `bit ${bit}`);
      assert.equal(counter(p, "b", "drop-p-key"), isLimited ? 0 : 1);
    }
  });

  it("§7 #73: in RTR a request is served, an ACK is dropped", () => {
    const p = pair();
    const qp = p.rig.createQp(p.rig.b);
    p.rig.modify(p.rig.b, qp, { state: "init", accessFlags: EVERY_ACCESS });
    p.rig.modify(p.rig.b, qp, {
      state: "rtr",
      destAddress: p.rig.a.plan.address,
      pathMtu: 1024,
      destQpn: 5,
      rqPsn: FIRST_PSN,
      maxDestRdAtomic: 1,
      minRnrTimer: 1,
    });
    inject(p, "b", request("RC RDMA WRITE ONLY", { bth: { destQpn: qp.qpn } }));
    p.rig.run();
    assert.deepEqual(names(p, "b"), ["RC ACKNOWLEDGE"]);
    const ack = changed(packets(p, "b")[0]!, {});
    inject(p, "b", {
      ...request("RC RDMA WRITE ONLY"),
      bth: { ...ack.bth, destQpn: qp.qpn },
      aeth: ack.aeth!,
      payload: new Uint8Array(0),
    });
    p.rig.run();
    assert.equal(counter(p, "b", "drop-wrong-state"), 1);
  });

  it("§7 #78: a persistent WRITE to a queue pair without the capability; R times out", () => {
    const p = pair({}, { attributes: { retryCnt: 1 } });
    post(p, "write-persistence", { length: 8 });
    go(p);
    assert.deepEqual(names(p, "b"), []);
    untouched(p);
    assert.equal(counter(p, "b", "drop-vendor-operation"), 2);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
  });

  it("§7 #78: a vendor opcode that this card or this service does not have; R times out", () => {
    const p = pair({}, { attributes: { retryCnt: 1 } });
    p.rig.fate = (from, frame) => {
      if (from !== "a") return "pass";
      // A manufacturer's opcode that is in no row of the table.
      const bytes = encodePacket(packetOf(frame.bytes));
      bytes[42] = 0xe0;
      p.rig.inject(p.rig.b, bytes);
      return "drop";
    };
    post(p, "write", { length: 8 });
    go(p);
    assert.deepEqual(names(p, "b"), []);
    assert.equal(counter(p, "b", "drop-undecodable"), 2);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    const ud = p.rig.createQp(p.rig.b, { type: "ud" });
    p.rig.modify(p.rig.b, ud, { state: "init", qKey: 1 });
    p.rig.modify(p.rig.b, ud, { state: "rtr" });
    inject(
      p,
      "b",
      request("VENDOR WRITE PERSISTENCE ONLY", {
        persistEth: { flags: 0, reserved: 0, version: 1 },
        bth: { destQpn: ud.qpn },
      }),
    );
    p.rig.run();
    assert.equal(counter(p, "b", "drop-wrong-service"), 1);
    assert.deepEqual(names(p, "b"), []);
  });
});

describe("MigReq", () => {
  it("§1.2: is 1 in all that is sent, as nothing migrates", () => {
    const p = pair();
    recvs(p, 1, { length: 4 });
    post(p, "write", { length: 3000 });
    post(p, "read", { length: 3000 });
    post(p, "fetch-add", { length: 8, atomic: { swapAdd: 1n, compare: 0n } });
    post(p, "send", { length: 5 });
    go(p);
    const sent = [...packets(p, "a"), ...packets(p, "b")];
    const kinds = new Set(sent.map(({ bth }) => bth.opcode));
    for (
      const name of [
        "RC RDMA WRITE FIRST",
        "RC RDMA READ REQUEST",
        "RC RDMA READ RESPONSE LAST",
        "RC ACKNOWLEDGE",
        "RC ATOMIC ACKNOWLEDGE",
      ] as const
    ) {
      assert.ok(kinds.has(OPCODE[name]), name);
    }
    assert.ok(sent.every(({ bth }) => bth.migReq));
  });

  it("§1.2: a peer that sends 0, as Linux's rxe does, is served all the same", () => {
    const served = pair();
    inject(served, "b", request("RC RDMA WRITE ONLY", { bth: { migReq: false } }));
    served.rig.run();
    assert.deepEqual(names(served, "b"), ["RC ACKNOWLEDGE"]);
    const p = pair();
    p.rig.fate = (from, frame) => {
      if (from === "a") return "pass";
      return {
        replaceBy: encodePacket(changed(packetOf(frame.bytes), { bth: { migReq: false } })),
      };
    };
    post(p, "read", { length: 3000 });
    go(p);
    assert.deepEqual(statuses(p), ["SUCCESS"]);
  });
});

describe("SEND WITH INVALIDATE", () => {
  it("§7 #77: of a key that is not valid: no NAK, T fails; R ends in RETRY_EXC_ERR", () => {
    const p = pair({}, { attributes: { retryCnt: 1 } });
    recvs(p, 2);
    post(p, "send-invalidate", { length: 10, immediate: 0xdead });
    post(p, "write", { length: 10 });
    go(p);
    assert.deepEqual(names(p, "a")[0], "RC SEND ONLY INVALIDATE");
    assert.equal(packets(p, "a")[0]!.ieth!.rkey, 0xdead);
    assert.deepEqual(names(p, "b"), []);
    assert.deepEqual(eventsOf(p), ["QP_FATAL"]);
    const received = p.rig.poll(p.rig.b, p.b.recvCq).map(({ status }) => status);
    assert.deepEqual(received, ["REM_INV_REQ_ERR", "WR_FLUSH_ERR"]);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR", "WR_FLUSH_ERR"]);
  });

  it("of several packets carries the key in its last", () => {
    const p = pair({}, { attributes: { retryCnt: 0 } });
    recvs(p, 1);
    post(p, "send-invalidate", { length: 2500, immediate: 7 });
    go(p);
    assert.deepEqual(names(p, "a").slice(0, 3), [
      "RC SEND FIRST",
      "RC SEND MIDDLE",
      "RC SEND LAST INVALIDATE",
    ]);
  });
});
