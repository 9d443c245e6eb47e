import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { MemoryRead } from "../../../fabric/wire/host_bus/pcie.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { VERIFY_BYTES_MAX } from "../../../fabric/wire/roce/verify_eth.ts";
import { LIMITS } from "../state/limits.ts";
import { counter, go, names, type Pair, post, statuses } from "../testing/pair_testing.ts";
import { type RigOptions, rnicPlan } from "../testing/rig_parts_testing.ts";
import {
  GOOD,
  isCopied,
  isUntouched,
  outcomes,
  postVerified,
  textOf,
  VERIFIED_ACCESS,
  verifiedPair,
  writeVerified,
} from "../testing/verify_testing.ts";

const PATH_MTU = 1024;

/** How many messages of the greatest length find room at once. */
const ROOMS = LIMITS.verifyStagingBytes / VERIFY_BYTES_MAX;

/** A pair with one long region at either end. */
function longPair(bytes: number, options: RigOptions = {}): Pair {
  const p = verifiedPair({ memoryBytes: 4 * bytes + (1 << 21), ...options });
  const { rig } = p;
  const access = VERIFIED_ACCESS & ~ACCESS.remoteWriteVerify & ~ACCESS.remoteWritePersistence;
  const from = rig.register(rig.a, { length: bytes, access, va: 0x3_0000_0000 });
  const to = rig.register(rig.b, { length: bytes, access, va: 0x3_0000_0000 });
  rig.fill(rig.a, from, (i) => i * 13 + (i >> 9));
  rig.fill(rig.b, to, () => 0xee);
  return { ...p, from, to };
}

function word(p: Pair, at: number): { address: number; length: number; lkey: number } {
  return { address: p.from.va + at, length: 8, lkey: p.from.key };
}

describe("the card's room for data that waits (V-02)", () => {
  it("where there is none it is an RNR NAK, and the write comes again", () => {
    const bytes = VERIFY_BYTES_MAX;
    const p = longPair(bytes);
    const { rig } = p;
    // Other queue pairs hold all of the room: their messages never end.
    const held: number[] = [];
    for (let i = 0; i < ROOMS; i++) held.push(holdRoom(p, bytes));
    assert.equal(counter(p, "b", "rnrNaksOut"), 0);
    postVerified(p, { level: "check", length: 3000 });
    rig.ring(rig.a, p.a.sq);
    rig.run(() => counter(p, "b", "rnrNaksOut") > 2);
    assert.equal(counter(p, "b", "naksOut"), 0, "its other packets are passed over in silence");
    assert.ok(isUntouched(p, { length: 3000 }));
    assert.equal(p.rig.modify(rig.b, { ...p.b, qpn: held[0]! }, { state: "reset" }).status, "ok");
    rig.run();
    assert.deepEqual(outcomes(p).map(textOf), [GOOD.check]);
  });

  it("is free again behind each write, whatever became of it", () => {
    const p = longPair(VERIFY_BYTES_MAX);
    const { host } = p.rig.b;
    const length = VERIFY_BYTES_MAX;
    for (let i = 0; i < 2 * ROOMS; i++) {
      host.refuseReads = i % 4 === 2;
      const [outcome] = writeVerified(p, {
        level: "verify",
        length,
        ...(i % 4 === 1 && { crc: 1 }),
      });
      const status = ["written", "crc-mismatch", "read-failed", "written"][i % 4];
      assert.equal(outcome!.verdict!.status, status);
    }
    assert.equal(counter(p, "b", "rnrNaksOut"), 0);
  });

  it("what has waited there and goes to memory at once makes nobody's frames be dropped", () => {
    const p = longPair(VERIFY_BYTES_MAX);
    const { rig } = p;
    const other = { ...p, ...rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
    // 1 MiB is 66 µs of the bus; a receive buffer is 20 µs of it.
    postVerified(p, { level: "check", length: VERIFY_BYTES_MAX });
    for (let i = 0; i < 60; i++) post(other, "write", { at: 32_768 * i % 900_000, length: 32_768 });
    rig.ring(rig.a, p.a.sq);
    rig.ring(rig.a, other.a.sq);
    rig.run();
    assert.deepEqual(statuses(p), ["SUCCESS"]);
    assert.deepEqual(statuses(other), Array(60).fill("SUCCESS"));
    assert.equal(counter(p, "b", "drop-receive-overrun"), 0);
  });

  it("what is sent behind it comes to memory behind it, by whichever operation", () => {
    // So much that it does not go to the bus at once.
    const length = 200_000;
    const behind = { at: length - 104, length: 64 };
    const local = (p: Pair) => [{ address: p.from.va, length: 64, lkey: p.from.key }];
    const remote = (p: Pair) => ({ va: BigInt(p.to.va + behind.at), rkey: p.to.key });
    const verify = { level: "none", persist: false } as const;
    const atomic = { swapAdd: 5n, compare: 0n };
    const posts: Readonly<Record<string, (p: Pair) => void>> = {
      "write": (p) => void post(p, "write", { sges: local(p), remote: remote(p) }),
      "send": (p) => void post(p, "send", { sges: local(p) }),
      "write-verify": (p) =>
        void post(p, "write-verify", { sges: local(p), remote: remote(p), verify }),
      "atomic-write": (p) =>
        void post(p, "atomic-write", { inline: new Uint8Array(8).fill(9), remote: remote(p) }),
      "fetch-add": (p) =>
        void post(p, "fetch-add", { sges: [word(p, 500_000)], remote: remote(p), atomic }),
    };
    for (const [verb, postBehind] of Object.entries(posts)) {
      const p = longPair(VERIFY_BYTES_MAX);
      p.rig.recv(p.rig.b, p.b, [{ address: p.to.va + behind.at, length: 64, lkey: p.to.key }]);
      const [before] = p.rig.bytes(p.rig.a, p.from, behind.at, 1);
      const [first] = p.rig.bytes(p.rig.a, p.from, 0, 1);
      postVerified(p, { level: "verify", length });
      postBehind(p);
      go(p);
      const found = outcomes(p).map(textOf).filter((text) => text.startsWith("SUCCESS"));
      assert.equal(found.filter((text) => text === GOOD.verify).length, 1, verb);
      const expected = { "atomic-write": 9, "fetch-add": (before! + 5) & 0xff }[verb] ?? first;
      assert.equal(p.rig.bytes(p.rig.b, p.to, behind.at, 1)[0], expected, verb);
      assert.ok(isCopied(p, { length: behind.at }), verb);
    }
  });

  it("goes over what others have written meanwhile, and damage there is found", () => {
    const length = 200_000;
    for (const isDamaged of [false, true]) {
      const p = longPair(VERIFY_BYTES_MAX);
      const { rig } = p;
      const other = { ...p, ...rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
      postVerified(p, { level: "verify", length });
      rig.ring(rig.a, p.a.sq);
      rig.run(() => counter(p, "a", "verifyWriteFramesOut") === Math.ceil(length / PATH_MTU));
      const sges = [{ address: p.from.va, length: 50, lkey: p.from.key }];
      const remote = { va: BigInt(p.to.va + length - 100), rkey: p.to.key };
      post(other, "write", { sges, remote });
      rig.ring(rig.a, other.a.sq);
      const writes = (offset: number) =>
        rig.b.host.log.some((message) =>
          message.kind === "memory-write" && message.address <= p.to.address + offset &&
          message.address + message.data.length > p.to.address + offset
        );
      rig.run(() => writes(length - 60));
      assert.ok(!writes(length - 1), "the other's comes first");
      rig.run(() => writes(length - 1));
      if (isDamaged) rig.b.host.memory[p.to.address + length - 60]! ^= 1;
      rig.run();
      const status = isDamaged ? "read-back-differs" : "written";
      assert.equal(outcomes(p)[0]!.verdict!.status, status);
      assert.equal(isCopied(p, { length }), !isDamaged);
    }
  });

  it("memory that is deregistered before all is placed ends the connection (0x63)", () => {
    const p = longPair(VERIFY_BYTES_MAX);
    const { rig } = p;
    postVerified(p, { level: "verify", length: 200_000 });
    rig.ring(rig.a, p.a.sq);
    untilPlacing(p);
    assert.equal(rig.command(rig.b, { op: "deregister-mr", key: p.to.key }).status, "ok");
    rig.run();
    assert.deepEqual(statuses(p), ["REM_OP_ERR"]);
    assert.ok(isUntouched(p, { at: 180_000, length: 20_000 }));
  });

  // The second and third fill the engine with less than its number of reads, the last one with one read.
  for (const [dmaReadBytes, dmaReadsMax] of [[512, 13], [4096, 13], [1024, 4], [512, 1]] as const) {
    const engine = { ...rnicPlan("b").timing, dmaReadBytes, dmaReadsMax };
    const name = `${dmaReadsMax} reads of ${dmaReadBytes} B`;

    it(`a long look at memory lets others read in between (${name})`, () => {
      const p = longPair(VERIFY_BYTES_MAX, { plans: { b: { timing: engine } } });
      const { rig } = p;
      const other = { ...p, ...rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
      postVerified(p, { level: "verify", length: VERIFY_BYTES_MAX });
      rig.ring(rig.a, p.a.sq);
      rig.run(() => readsOf(p).length === 200);
      const begun = rig.now;
      post(other, "read", { length: 64 });
      rig.ring(rig.a, other.a.sq);
      rig.run(() => statuses(other).length > 0);
      const waited = rig.now - begun;
      rig.run();
      const answered = rig.frames.findLast(({ from }) => from === "b")!;
      assert.ok(waited * 10 < answered.time - begun, `the READ took ${waited} ps`);
    });

    it(`others that read all the time let a look go on (${name})`, () => {
      const p = longPair(VERIFY_BYTES_MAX, { plans: { b: { timing: engine } } });
      const { rig } = p;
      const other = { ...p, ...rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
      for (let i = 0; i < 40; i++) post(other, "read", { at: i * 20_000, length: 20_000 });
      rig.ring(rig.a, other.a.sq);
      rig.run(() => statuses(other).length > 0);
      postVerified(p, { level: "verify", length: 20_000 });
      rig.ring(rig.a, p.a.sq);
      rig.run(() => counter(p, "b", "verifyWritesIn") === 1);
      statuses(other);
      rig.run();
      const left = statuses(other).length;
      assert.ok(left > 20, `${left} READs were to come when it was answered`);
      assert.deepEqual(outcomes(p).map(textOf), [GOOD.verify]);
    });
  }

  it("V-02, V-03: of several queue pairs at once each is answered, within its time-outs", () => {
    const p = longPair(VERIFY_BYTES_MAX);
    const { rig } = p;
    // Half a millisecond and more of looking: eight time-outs of 131 µs.
    const attributes = { accessFlags: VERIFIED_ACCESS, timeout: 5 };
    const pairs = Array.from({ length: ROOMS }, () => ({ ...p, ...rig.connect({ attributes }) }));
    for (const each of pairs) {
      postVerified(each, { level: "verify", length: VERIFY_BYTES_MAX });
      rig.ring(rig.a, each.a.sq);
    }
    rig.run();
    for (const each of pairs) assert.deepEqual(outcomes(each).map(textOf), [GOOD.verify]);
    assert.ok(isCopied(p, { length: VERIFY_BYTES_MAX }));
    assert.equal(counter(p, "b", "verifyReadBacks"), ROOMS);
  });

  for (const state of ["reset", "err"] as const) {
    it(`a queue pair that goes to ${state} gives its room back`, () => {
      const p = longPair(VERIFY_BYTES_MAX);
      const held: number[] = [];
      for (let i = 0; i < ROOMS; i++) held.push(holdRoom(p, VERIFY_BYTES_MAX));
      for (const qpn of held) p.rig.modify(p.rig.b, { ...p.b, qpn }, { state });
      for (let i = 0; i < ROOMS; i++) holdRoom(p, VERIFY_BYTES_MAX);
      assert.equal(counter(p, "b", "rnrNaksOut"), 0);
    });

    it(`a queue pair that goes to ${state} writes no more of what has waited`, () => {
      const p = longPair(VERIFY_BYTES_MAX);
      const { rig } = p;
      const length = 200_000;
      postVerified(p, { level: "verify", length });
      rig.ring(rig.a, p.a.sq);
      untilPlacing(p);
      assert.equal(rig.modify(rig.b, p.b, { state }).status, "ok");
      rig.modify(rig.a, p.a, { state: "reset" });
      rig.run();
      assert.ok(isUntouched(p, { at: length - 20_000, length: 20_000 }));
      for (let i = 0; i < ROOMS; i++) holdRoom(p, VERIFY_BYTES_MAX);
      assert.equal(counter(p, "b", "rnrNaksOut"), 0);
    });

    it(`a queue pair that goes to ${state} gives up its look at memory, and its room`, () => {
      const p = longPair(VERIFY_BYTES_MAX);
      postVerified(p, { level: "verify", length: VERIFY_BYTES_MAX });
      p.rig.ring(p.rig.a, p.a.sq);
      p.rig.run(() => counter(p, "b", "verifyReadBacks") === 1);
      const before = counter(p, "b", "dmaReads");
      assert.equal(p.rig.modify(p.rig.b, p.b, { state }).status, "ok");
      p.rig.modify(p.rig.a, p.a, { state: "reset" });
      p.rig.run();
      assert.equal(counter(p, "b", "verifyReadBackPs"), 0);
      assert.ok(counter(p, "b", "dmaReads") - before < 100, "of 2048 for all of it");
      assert.equal(counter(p, "b", "verifyWritesIn"), 0);
      for (let i = 0; i < ROOMS; i++) holdRoom(p, VERIFY_BYTES_MAX);
      assert.equal(counter(p, "b", "rnrNaksOut"), 0);
    });
  }
});

/** DMA reads of `b`'s target memory so far. */
function readsOf({ rig, to }: Pair): MemoryRead[] {
  return rig.b.host.log.filter((message) => message.kind === "memory-read")
    .filter(({ address }) => address >= to.address && address < to.address + to.length);
}

/** Runs until some of a long message's data is with the bus, and most of it is not. */
function untilPlacing(p: Pair): void {
  const before = counter(p, "b", "dmaWrites");
  p.rig.run(() => counter(p, "b", "dmaWrites") > before + 10);
  assert.equal(counter(p, "b", "verifyWritesIn"), 0);
  assert.ok(names(p, "a").includes("VENDOR WRITE VERIFY LAST"));
}

/** A queue pair of `b` that has got the first packet of a long message and nothing more. @returns it. */
function holdRoom(p: Pair, length: number): number {
  const { rig } = p;
  const { a, b } = rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS, timeout: 0 } });
  const isMine = (destQpn: number) => destQpn === b.qpn;
  const { fate } = rig;
  let passed = 0;
  rig.fate = (from, frame, count) => {
    const packet = frame.packet;
    if (from === "a" && packet !== undefined && isMine(packet.bth.destQpn)) {
      return passed++ === 0 ? "pass" : "drop";
    }
    return fate(from, frame, count);
  };
  post({ ...p, a, b }, "write-verify", { length, verify: { level: "check", persist: false } });
  rig.ring(rig.a, a.sq);
  rig.run(() => passed > 1);
  rig.runFor(2_000_000);
  assert.equal(rig.modify(rig.a, a, { state: "reset" }).status, "ok");
  return b.qpn;
}
