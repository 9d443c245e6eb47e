import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  checksOf,
  VERIFY_BYTES_MAX,
  VERIFY_LEVELS,
  type VerifyLevel,
} from "../../../fabric/wire/roce/verify_eth.ts";
import { LIMITS } from "../state/limits.ts";
import {
  changed,
  counter,
  go,
  inject,
  losing,
  names,
  packets,
  type Pair,
  PAIR_BYTES,
  post,
  statuses,
} from "../testing/pair_testing.ts";
import {
  damageOnceWritten,
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

const READ_BACK: readonly VerifyLevel[] = ["verify", "verify-crc", "read-back", "crc-after"];
const PATH_MTU = 1024;

/** Of a completion, where the level has the CRC checked before the write. */
const beforeOf = (level: VerifyLevel) => checksOf(level).before ? "crc-before " : "";

describe("V-01, V-04: a verified write", () => {
  for (const level of VERIFY_LEVELS) {
    for (
      const length of [0, 1, 64, 256, PATH_MTU - 1, PATH_MTU, PATH_MTU + 1, 3 * PATH_MTU, 32_000]
    ) {
      it(`of ${length} B, ${level}, is one message and has one response`, () => {
        const p = verifiedPair();
        assert.deepEqual(writeVerified(p, { level, length }).map(textOf), [GOOD[level]]);
        assert.ok(isCopied(p, { length }));
        const answers = names(p, "b").filter((name) => name !== "RC ACKNOWLEDGE");
        assert.deepEqual(answers, ["RC RDMA READ RESPONSE ONLY"]);
        assert.equal(names(p, "a").length, Math.max(1, Math.ceil(length / PATH_MTU)));
        assert.equal(counter(p, "b", "verifyWritesIn"), 1);
        const looks = READ_BACK.includes(level) ? 1 : 0;
        assert.equal(counter(p, "b", "verifyReadBacks"), looks);
      });
    }
  }

  it("of 1 MiB at a path MTU of 256 moves its window by ACKs", () => {
    const p = verifiedPair({ memoryBytes: 1 << 23 }, { attributes: { pathMtu: 256 } });
    const { rig } = p;
    const plan = { length: VERIFY_BYTES_MAX, access: 7, va: 0x3_0000_0000 };
    const long: Pair = { ...p, from: rig.register(rig.a, plan), to: rig.register(rig.b, plan) };
    rig.fill(rig.a, long.from, (i) => i * 31 + (i >> 10));
    const work = { level: "verify-crc", length: VERIFY_BYTES_MAX } as const;
    assert.deepEqual(writeVerified(long, work).map(textOf), [GOOD["verify-crc"]]);
    assert.ok(isCopied(long, work));
    assert.equal(counter(long, "b", "verifyWritesIn"), 1);
  });

  it("whose ACKs of a whole window are lost goes on when its packets come again", () => {
    const p = verifiedPair({ memoryBytes: 1 << 23 }, { attributes: { pathMtu: 256 } });
    const { rig } = p;
    const length = 300_000;
    const plan = { length, access: 7, va: 0x3_0000_0000 };
    const long: Pair = { ...p, from: rig.register(rig.a, plan), to: rig.register(rig.b, plan) };
    rig.fill(rig.a, long.from, (i) => i * 31 + (i >> 10));
    rig.fate = losing("RC ACKNOWLEDGE", LIMITS.windowPackets / LIMITS.ackEveryPackets);
    assert.deepEqual(writeVerified(long, { level: "check", length }).map(textOf), [GOOD.check]);
    assert.ok(isCopied(long, { length }) && counter(long, "b", "duplicatesIn") > 0);
  });

  it("its response leaves when the bus has taken the data", () => {
    const p = verifiedPair();
    const work = { level: "check", length: 16_384 } as const;
    assert.equal(writeVerified(p, work).length, 1);
    const answered = p.rig.frames.findLast(({ from }) => from === "b")!;
    const { rig } = p;
    // 16 KiB at the bus's 126 Gb/s.
    const last = rig.frames.findLast(({ from }) => from === "a")!;
    assert.ok(answered.time - last.time > 16_384 * 8 / 126e9 * 1e12);
  });

  it("is answered in its turn among READs, WRITEs and atomics", () => {
    const p = verifiedPair();
    post(p, "fetch-add", {
      at: 8192,
      sges: [word(p, 16_384)],
      atomic: { swapAdd: 1n, compare: 0n },
    });
    post(p, "write", { at: 4096, length: 3000 });
    postVerified(p, { level: "verify", length: 3000 });
    post(p, "read", { at: 12_288, length: 2000 });
    postVerified(p, { level: "check", at: 4096, length: 500 });
    post(p, "write", { at: 8192, length: 64 });
    go(p);
    assert.deepEqual(statuses(p), Array(6).fill("SUCCESS"));
    assert.ok(isCopied(p, { length: 3000 }) && isCopied(p, { at: 8192, length: 64 }));
    assert.equal(counter(p, "b", "verifyReadBackFailures"), 0);
  });
});

function word(p: Pair, at: number): { address: number; length: number; lkey: number } {
  return { address: p.from.va + at, length: 8, lkey: p.from.key };
}

describe("V-02: the CRC before the write", () => {
  for (const level of ["check", "verify", "verify-crc"] as const) {
    for (const length of [1, 700, 5000]) {
      it(`${length} B, ${level}: what fails it changes no byte, and costs no connection`, () => {
        const p = verifiedPair();
        const [bad] = writeVerified(p, { level, length, crc: 0x1234_5678 });
        assert.equal(textOf(bad!), "VERIFY_ERR crc-mismatch: crc-before");
        assert.ok(isUntouched(p, { length: PAIR_BYTES }));
        assert.equal(counter(p, "b", "verifyCrcFailures"), 1);
        assert.equal(counter(p, "b", "verifyReadBacks"), 0);
        assert.deepEqual(writeVerified(p, { level, length }).map(textOf), [GOOD[level]]);
        assert.ok(isCopied(p, { length }));
      });
    }
  }

  it("no byte is written before the last packet is here", () => {
    const p = verifiedPair();
    p.rig.fate = losing("VENDOR WRITE VERIFY LAST", 1);
    postVerified(p, { level: "check", length: 5000 });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => names(p, "b").includes("RC ACKNOWLEDGE") || p.rig.frames.length >= 5);
    p.rig.runFor(5_000_000);
    assert.ok(isUntouched(p, { length: PAIR_BYTES }));
    p.rig.run();
    assert.deepEqual(outcomes(p).map(textOf), [GOOD.check]);
  });

  it("level none goes to memory as it comes, whatever the CRC says", () => {
    const p = verifiedPair();
    const work = { level: "none", length: 3000, crc: 1 } as const;
    assert.deepEqual(writeVerified(p, work).map(textOf), [GOOD.none]);
    assert.ok(isCopied(p, { length: 3000 }));
  });
});

describe("V-03: the look at memory after the write", () => {
  for (const level of READ_BACK) {
    for (const length of [1, 512, 3000]) {
      it(`${length} B, ${level}: finds that memory holds something else`, () => {
        const p = verifiedPair();
        postVerified(p, { level, length });
        damageOnceWritten(p, { length });
        p.rig.run();
        const after = checksOf(level).readBack === "compare" ? "compared" : "crc-after";
        const expected = `VERIFY_ERR read-back-differs: ${beforeOf(level)}${after}`;
        assert.deepEqual(outcomes(p).map(textOf), [expected]);
        assert.equal(counter(p, "b", "verifyReadBackFailures"), 1);
        assert.deepEqual(writeVerified(p, { level, length }).map(textOf), [GOOD[level]]);
      });
    }
    it(`${level}: a host that refuses the read is an answer, not a NAK`, () => {
      const p = verifiedPair();
      p.rig.b.host.refuseReads = true;
      assert.deepEqual(writeVerified(p, { level, length: 3000 }).map(textOf), [
        `VERIFY_ERR read-failed: ${beforeOf(level)}`.trim(),
      ]);
      p.rig.b.host.refuseReads = false;
      assert.deepEqual(writeVerified(p, { level, length: 3000 }).map(textOf), [GOOD[level]]);
      assert.equal(counter(p, "b", "verifyReadErrors"), 1);
    });

    it(`${level}: two writes into the same bytes, one behind the other, are no damage`, () => {
      const p = verifiedPair();
      for (const [at, from] of [[0, 0], [100, 9000], [0, 20_000], [512, 1]] as const) {
        postVerifiedFrom(p, { level, at, from, length: 3000 });
      }
      post(p, "write", { at: 50, length: 200 });
      go(p);
      const completions = outcomes(p).map(textOf);
      assert.deepEqual(completions, [...Array(4).fill(GOOD[level]), "SUCCESS"]);
    });

    it(`${level}: a write over a part of it hides no damage beside that part`, () => {
      const p = verifiedPair();
      postVerified(p, { level, length: 3000 });
      post(p, "write", { at: 0, length: 100 });
      damageOnceWritten(p, { length: 3000 });
      p.rig.run();
      assert.equal(outcomes(p)[0]!.verdict?.status, "read-back-differs");
    });

    it(`${level}: a region that is deregistered meanwhile is a failed look`, () => {
      // One is out as a whole when the command comes, the other is not.
      for (const length of [300, 32_000]) {
        const p = verifiedPair();
        postVerified(p, { level, length });
        p.rig.ring(p.rig.a, p.a.sq);
        p.rig.run(() => counter(p, "b", "verifyReadBacks") === 1);
        const reply = p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key });
        assert.equal(reply.status, "ok");
        p.rig.run();
        assert.deepEqual(outcomes(p).map(textOf), [
          `VERIFY_ERR read-failed: ${beforeOf(level)}`.trim(),
        ]);
      }
    });
  }
});

/** A verified write whose data comes from another offset than it goes to. */
function postVerifiedFrom(
  p: Pair,
  work: {
    readonly level: VerifyLevel;
    readonly at: number;
    readonly from: number;
    readonly length: number;
  },
): void {
  const { level, at, from, length } = work;
  post(p, "write-verify", {
    sges: [{ address: p.from.va + from, length, lkey: p.from.key }],
    remote: { va: BigInt(p.to.va + at), rkey: p.to.key },
    verify: { level, persist: false },
  });
}

describe("rights and forms of a verified write", () => {
  it("V-06 (in part): who has not agreed on it drops it in silence", () => {
    const p = verifiedPair({}, {
      attributes: { accessFlags: VERIFIED_ACCESS & ~ACCESS.remoteWriteVerify },
    });
    postVerified(p, { level: "none", length: 10 });
    go(p);
    assert.deepEqual(statuses(p), ["RETRY_EXC_ERR"]);
    assert.ok(counter(p, "b", "drop-vendor-operation") > 0);
  });

  it("a queue pair that takes no writes refuses with 0x61", () => {
    const p = verifiedPair({}, {
      attributes: { accessFlags: VERIFIED_ACCESS & ~ACCESS.remoteWrite },
    });
    assert.deepEqual(writeVerified(p, { level: "check", length: 10 }).map(textOf), [
      "REM_INV_REQ_ERR",
    ]);
  });

  it("V-09: persistence needs its own right of the queue pair (0x61)", () => {
    const p = verifiedPair({}, {
      attributes: { accessFlags: VERIFIED_ACCESS & ~ACCESS.remoteWritePersistence },
    });
    const work = { level: "check", length: 10 } as const;
    assert.deepEqual(writeVerified(p, work).map(textOf), [GOOD.check]);
    assert.deepEqual(writeVerified(p, { ...work, persist: true }).map(textOf), ["REM_INV_REQ_ERR"]);
  });

  it("V-09: what cannot be persistent is refused with 0x62, before a byte is written", () => {
    const p = verifiedPair();
    const plan = { length: 4096, access: 7, va: 0x3_0000_0000, persistent: false };
    const to = p.rig.register(p.rig.b, plan);
    const outcome = writeVerified({ ...p, to }, { level: "none", length: 10, persist: true });
    assert.deepEqual(outcome.map(textOf), ["REM_ACCESS_ERR"]);
    assert.equal(p.rig.b.host.memory[to.address], 0);
  });

  it("a key that grants no write is refused with 0x62", () => {
    const p = verifiedPair();
    const to = p.rig.register(p.rig.b, { length: 4096, access: ACCESS.remoteRead });
    const outcome = writeVerified({ ...p, to }, { level: "check", length: 10 });
    assert.deepEqual(outcome.map(textOf), ["REM_ACCESS_ERR"]);
  });

  const only = (p: Pair) => packets(p, "a").find(({ verifyEth }) => verifyEth !== undefined)!;
  const WRONG = [
    ["another version", { version: 2 }],
    ["an unknown level", { level: 4 }],
    ["a level without its algorithm", { algorithm: 0 }],
    ["an algorithm without its level", { level: 0 }],
  ] as const;
  for (const [what, change] of WRONG) {
    it(`${what} is refused with 0x61`, () => {
      const p = verifiedPair();
      writeVerified(p, { level: "check", length: 10 });
      const packet = only(p);
      const psn = (packet.bth.psn + 1) & 0xff_ffff;
      const verifyEth = { ...packet.verifyEth!, ...change };
      inject(p, "b", changed(packet, { bth: { psn }, verifyEth }));
      p.rig.run();
      assert.equal(counter(p, "b", "naksOut"), 1);
      assert.equal(packets(p, "b").at(-1)!.aeth!.syndrome, 0x61);
    });
  }

  it("more than can be checked is refused with 0x61, of level none it is not", () => {
    for (const [level, answer] of [["check", 0x61], ["none", undefined]] as const) {
      const p = verifiedPair();
      writeVerified(p, { level, length: 5000 });
      const first = packets(p, "a")[0]!;
      const last = packets(p, "a").at(-1)!;
      const psn = (last.bth.psn + 1) & 0xff_ffff;
      const to = p.rig.register(p.rig.b, { length: 4096, access: 7, va: 0x3_0000_0000 });
      const reth = { ...first.reth!, length: VERIFY_BYTES_MAX + 1 };
      if (answer === undefined) reth.rkey = to.key;
      inject(p, "b", changed(first, { bth: { psn, ackReq: true }, reth }));
      p.rig.run();
      // Of level none it is the region that ends it: the length is no reason.
      assert.equal(packets(p, "b").at(-1)!.aeth!.syndrome, answer ?? 0x62);
    }
  });

  it("more than was announced, or less, is refused with 0x61", () => {
    for (const change of [-1, 1]) {
      const p = verifiedPair();
      writeVerified(p, { level: "check", length: 3000 });
      const sent = packets(p, "a");
      const next = (sent.at(-1)!.bth.psn + 1) & 0xff_ffff;
      const { reth } = sent[0]!;
      sent.forEach((packet, i) => {
        const bth = { psn: (next + i) & 0xff_ffff };
        const changes = packet.reth === undefined
          ? { bth }
          : { bth, reth: { ...reth!, length: reth!.length + change } };
        inject(p, "b", changed(packet, changes));
      });
      p.rig.run();
      assert.equal(packets(p, "b").at(-1)!.aeth!.syndrome, 0x61, `${change}`);
    }
  });

  it("only as many at once as there are slots (0x61)", () => {
    const p = verifiedPair({}, { attributes: { maxRdAtomic: 8, maxDestRdAtomic: 2 } });
    for (let i = 0; i < 4; i++) postVerified(p, { level: "verify", at: i * 4096, length: 2000 });
    go(p);
    assert.ok(statuses(p).includes("REM_INV_REQ_ERR"));
  });
});
