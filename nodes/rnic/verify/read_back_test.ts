import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import type { PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { counter, go, names, type Pair, recvs } from "../testing/pair_testing.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import {
  GOOD,
  isCopied,
  outcomes,
  postVerified,
  textOf,
  VERIFIED_ACCESS,
  verifiedPair,
  writeVerified,
} from "../testing/verify_testing.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

const RUNS = { seed: 301, numRuns: 60 };

interface Range {
  readonly at: number;
  readonly length: number;
}

/** For each byte of the range: the places in `b`'s log of its DMA writes, and of its DMA reads. */
function placesInLog(p: Pair, { at, length }: Range): { writes: number[][]; reads: number[][] } {
  const first = p.to.address + at;
  const writes: number[][] = Array.from({ length }, () => []);
  const reads: number[][] = Array.from({ length }, () => []);
  for (const [place, message] of p.rig.b.host.log.entries()) {
    const isWrite = message.kind === "memory-write";
    if (!isWrite && message.kind !== "memory-read") continue;
    const bytes = isWrite ? message.data.length : message.length;
    const from = Math.max(0, message.address - first);
    const to = Math.min(length, message.address + bytes - first);
    for (let i = from; i < to; i++) (isWrite ? writes : reads)[i]!.push(place);
  }
  return { writes, reads };
}

/** Each byte is written once and read once, behind its write. @returns the places, flat. */
function checkOrder(p: Pair, range: Range): { writes: number[]; reads: number[] } {
  const { writes, reads } = placesInLog(p, range);
  for (let i = 0; i < range.length; i++) {
    assert.equal(writes[i]!.length, 1, `byte ${i} is written once`);
    assert.equal(reads[i]!.length, 1, `byte ${i} is read once`);
    assert.ok(reads[i]![0]! > writes[i]![0]!, `byte ${i} is read behind its write`);
  }
  return { writes: writes.flat(), reads: reads.flat() };
}

function damage(p: Pair, at: number): void {
  p.rig.b.host.memory[p.to.address + at]! ^= 4;
}

function isWriteAt(p: Pair, at: number): (message: PcieMessage) => boolean {
  const address = p.to.address + at;
  return (message) =>
    message.kind === "memory-write" && message.address <= address &&
    message.address + message.data.length > address;
}

/** Rings, and runs until the byte at this offset has been written. */
function untilWritten(p: Pair, at: number): void {
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.run(() => p.rig.b.host.log.some(isWriteAt(p, at)));
}

describe("V-03: the look at memory", () => {
  it("begins while the rest of the data is on its way, and is over soon after it", () => {
    for (const level of ["verify", "verify-crc"] as const) {
      const p = verifiedPair();
      const range = { at: 0, length: 32_000 };
      assert.deepEqual(writeVerified(p, { level, ...range }).map(textOf), [GOOD[level]]);
      const { writes, reads } = checkOrder(p, range);
      assert.ok(reads[0]! < writes.at(-1)!, "the first byte is read before the last is written");
      // What the answer waited for it is less than half of what the data took at 126 Gb/s.
      const writingPs = range.length * 8 / 126e9 * 1e12;
      const waited = counter(p, "b", "verifyReadBackPs");
      assert.ok(waited > 0 && waited * 2 < writingPs + 2_000_000, `${waited}`);
    }
  });

  it("V-03, V-09: sees each byte behind its write, and the last one behind all of them", () => {
    fc.assert(
      fc.property(
        fc.record({
          at: fc.integer({ min: 0, max: 9000 }),
          length: fc.integer({ min: 1, max: 20_000 }),
          pathMtu: fc.constantFrom(256, 512, 1024, 2048, 4096),
          dmaReadBytes: fc.constantFrom(64, 256, 512, 4096),
          dmaReadsMax: fc.integer({ min: 1, max: 20 }),
          level: fc.constantFrom("verify" as const, "verify-crc" as const),
          persist: fc.boolean(),
        }),
        ({ at, length, pathMtu, dmaReadBytes, dmaReadsMax, level, persist }) => {
          const timing = { ...rnicPlan("b").timing, dmaReadBytes, dmaReadsMax };
          const p = verifiedPair({ plans: { b: { timing } } }, { attributes: { pathMtu } });
          const [outcome] = writeVerified(p, { level, at, length, persist });
          assert.equal(textOf(outcome!), GOOD[level] + (persist ? " persisted" : ""));
          assert.ok(isCopied(p, { at, length }));
          const { writes, reads } = checkOrder(p, { at, length });
          // It stands in for the LSB read: what it pushes out is all of the message.
          assert.ok(Math.max(...reads) > Math.max(...writes));
          if (persist) assert.equal(counter(p, "b", "lsbReads"), 0);
        },
      ),
      seeded(RUNS),
    );
  });

  it("V-09, flow 2: begins when the CPU has flushed all of it", () => {
    const p = verifiedPair({ persistence: { b: { flow: 2, flush: "cpu", noSnoop: false } } });
    recvs(p, 1);
    const range = { at: 64, length: 20_000 };
    postVerified(p, { level: "verify", persist: true, ...range });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "recvPersisted") === 1);
    p.rig.runFor(5_000_000);
    const seen = p.rig.b.host.log.length;
    const [told] = p.rig.poll(p.rig.b, p.b.recvCq);
    p.rig.enqueueSend(p.rig.b, p.b, { opcode: "persistence-ack", immediate: told!.psn });
    p.rig.ring(p.rig.b, p.b.sq);
    p.rig.run();
    assert.deepEqual(outcomes(p).map(textOf), [`${GOOD.verify} persisted`]);
    const { reads } = checkOrder(p, range);
    assert.ok(reads.every((place) => place >= seen));
  });

  it("finds damage to what was placed first as well as to what was placed last", () => {
    const length = 30_000;
    for (const at of [0, 511, 15_000, length - 1]) {
      const p = verifiedPair();
      postVerified(p, { level: "verify-crc", length });
      untilWritten(p, at);
      damage(p, at);
      p.rig.run();
      const text = "VERIFY_ERR read-back-differs: crc-before crc-after";
      assert.deepEqual(outcomes(p).map(textOf), [text], `byte ${at}`);
      // The rest was written all the same, and the next one is in order.
      damage(p, at);
      assert.ok(isCopied(p, { length }));
      assert.deepEqual(writeVerified(p, { level: "verify", length }).map(textOf), [GOOD.verify]);
    }
  });

  it("that the host refuses is answered when all is placed", () => {
    const p = verifiedPair();
    const length = 30_000;
    postVerified(p, { level: "verify", length });
    untilWritten(p, 0);
    p.rig.b.host.refuseReads = true;
    p.rig.run(() => names(p, "b").includes("RC RDMA READ RESPONSE ONLY"));
    assert.equal(counter(p, "b", "dmaWriteBytes") >= length, true);
    p.rig.run();
    assert.deepEqual(outcomes(p).map(textOf), ["VERIFY_ERR read-failed: crc-before"]);
    assert.ok(isCopied(p, { length }));
    p.rig.b.host.refuseReads = false;
    assert.deepEqual(writeVerified(p, { level: "verify", length }).map(textOf), [GOOD.verify]);
  });

  it("of a queue pair that is reset amid it takes nothing from the next one's", () => {
    const p = verifiedPair();
    const length = 30_000;
    postVerified(p, { level: "verify", length });
    untilWritten(p, 5000);
    assert.equal(p.rig.modify(p.rig.b, p.b, { state: "reset" }).status, "ok");
    p.rig.modify(p.rig.a, p.a, { state: "reset" });
    const next = { ...p, ...p.rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
    for (let i = 0; i < 3; i++) postVerified(next, { level: "verify-crc", length });
    go(next);
    assert.deepEqual(outcomes(next).map(textOf), Array(3).fill(GOOD["verify-crc"]));
  });

  it("passes over what another queue pair has written meanwhile, wherever the look is", () => {
    const length = 30_000;
    for (const until of [0, 8000, 20_000]) {
      const p = verifiedPair();
      const other = { ...p, ...p.rig.connect({ attributes: { accessFlags: VERIFIED_ACCESS } }) };
      postVerified(p, { level: "verify", length });
      untilWritten(p, until);
      for (const at of [0, 4000, 12_000, 29_000]) {
        const sges = [{ address: p.from.va + 40_000, length: 700, lkey: p.from.key }];
        const remote = { va: BigInt(p.to.va + at), rkey: p.to.key };
        p.rig.enqueueSend(p.rig.a, other.a, { opcode: "write", sges, remote });
      }
      p.rig.ring(p.rig.a, other.a.sq);
      p.rig.run();
      assert.deepEqual(outcomes(p).map(textOf), [GOOD.verify], `from ${until} on`);
    }
  });
});
