import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ACCESS, type PersistencePlan } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { VERIFY_LEVELS } from "../../../fabric/wire/roce/verify_eth.ts";
import { counter, go, losing, names, type Pair, post, recvs } from "../testing/pair_testing.ts";
import {
  damageOnceWritten,
  isCopied,
  outcomes,
  postVerified,
  textOf,
  verifiedPair,
  writeVerified,
} from "../testing/verify_testing.ts";

const FLOW_1: PersistencePlan = { flow: 1, flush: "read", noSnoop: false };
const FLOW_1_NS: PersistencePlan = { flow: 1, flush: "read", noSnoop: true };
const FLOW_2: PersistencePlan = { flow: 2, flush: "cpu", noSnoop: false };
const CACHE_KEPT: PersistencePlan = { flow: 2, flush: "read", noSnoop: false };
const ALL_KEPT: PersistencePlan = { flow: 2, flush: "none", noSnoop: false };

const WRITTEN = {
  "none": "SUCCESS written: persisted",
  "check": "SUCCESS written: crc-before persisted",
  "verify": "SUCCESS written: crc-before compared persisted",
  "verify-crc": "SUCCESS written: crc-before crc-after persisted",
  "read-back": "SUCCESS written: compared persisted",
  "crc-after": "SUCCESS written: crc-after persisted",
} as const;

function readBacks(level: keyof typeof WRITTEN): boolean {
  return level !== "none" && level !== "check";
}

/** What `b`'s CPU was told to flush since the last call; it flushes that and says so. */
function cpuFlushes(p: Pair): { va: number; length: number }[] {
  const told = p.rig.poll(p.rig.b, p.b.recvCq)
    .filter(({ opcode }) => opcode === "recv-persistence");
  for (const { psn } of told) {
    p.rig.enqueueSend(p.rig.b, p.b, { opcode: "persistence-ack", immediate: psn });
  }
  if (told.length > 0) p.rig.ring(p.rig.b, p.b.sq);
  return told.map(({ va, byteCount }) => ({ va: Number(va), length: byteCount }));
}

/** Rings, and runs until the CPU can see the CQEs of `count` messages that it is to flush. */
function untilTold(p: Pair, count: number): void {
  p.rig.ring(p.rig.a, p.a.sq);
  p.rig.run(() => counter(p, "b", "recvPersisted") === count);
  // Well before the requester's time-out.
  p.rig.runFor(2_000_000);
}

/** At the moment the answer leaves: is what was written out of the bus's and the IIO's buffers? */
function watchAnswer(p: Pair): { left: boolean; buffered: number } {
  const seen = { left: false, buffered: 0 };
  const { fate } = p.rig;
  p.rig.fate = (from, frame, count) => {
    if (from === "b" && frame.packet?.payload.length === 8) {
      seen.left = true;
      seen.buffered = p.rig.b.host.buffered.filter(({ address }) =>
        address >= p.to.address && address < p.to.address + p.to.length
      ).length;
    }
    return fate(from, frame, count);
  };
  return seen;
}

describe("V-09: verified and persisted in one request", () => {
  for (const plan of [FLOW_1, FLOW_1_NS, CACHE_KEPT]) {
    const way = `flow ${plan.flow}${plan.noSnoop ? " by NS" : ""}, flushed by a read`;
    for (const level of VERIFY_LEVELS) {
      for (const length of [1, 512, 5000]) {
        it(`${level}, ${length} B, ${way}: a read behind the data is done before the answer`, () => {
          const p = verifiedPair({ persistence: { b: plan } });
          const seen = watchAnswer(p);
          const outcome = writeVerified(p, { level, length, persist: true });
          assert.deepEqual(outcome.map(textOf), [WRITTEN[level]]);
          assert.ok(isCopied(p, { length }));
          assert.deepEqual(seen, { left: true, buffered: 0 });
          // The read-back is the flush.
          assert.equal(counter(p, "b", "lsbReads"), readBacks(level) ? 0 : 1);
          assert.equal(counter(p, "b", "persistAcksOut"), 0);
          const answers = names(p, "b").filter((name) => name !== "RC ACKNOWLEDGE");
          assert.deepEqual(answers, ["RC RDMA READ RESPONSE ONLY"]);
        });
      }
    }
  }

  it("unasked it is not: without a look at memory the answer is sooner than the data", () => {
    const p = verifiedPair({ persistence: { b: FLOW_1 } });
    const seen = watchAnswer(p);
    const outcome = writeVerified(p, { level: "check", length: 5000 });
    assert.deepEqual(outcome.map(textOf), ["SUCCESS written: crc-before"]);
    assert.ok(seen.left && seen.buffered > 0);
  });

  for (const level of VERIFY_LEVELS) {
    it(`${level}, flow 2: the CPU flushes, then memory is looked at, then it is answered`, () => {
      const p = verifiedPair({ persistence: { b: FLOW_2 } });
      recvs(p, 1);
      postVerified(p, { level, length: 5000, at: 64, persist: true });
      untilTold(p, 1);
      assert.deepEqual(outcomes(p), []);
      assert.equal(counter(p, "b", "verifyReadBacks"), 0);
      assert.deepEqual(cpuFlushes(p), [{ va: p.to.va + 64, length: 5000 }]);
      p.rig.run();
      assert.deepEqual(outcomes(p).map(textOf), [WRITTEN[level]]);
      assert.ok(isCopied(p, { at: 64, length: 5000 }));
      assert.equal(counter(p, "b", "verifyReadBacks"), readBacks(level) ? 1 : 0);
      assert.equal(counter(p, "b", "persistAcksOut"), 0);
      assert.equal(counter(p, "b", "lsbReads"), 0);
    });

    it(`${level}, all buffers kept: what the bus has taken is persistent`, () => {
      const p = verifiedPair({ persistence: { b: ALL_KEPT } });
      const outcome = writeVerified(p, { level, length: 5000, persist: true });
      assert.deepEqual(outcome.map(textOf), [WRITTEN[level]]);
      assert.equal(counter(p, "b", "lsbReads"), 0);
    });
  }

  it("flow 2: plain writes before it are flushed with it (P-31)", () => {
    const p = verifiedPair({ persistence: { b: FLOW_2 } });
    // The second of its two requests finds no receive.
    p.rig.leavesRequests = true;
    recvs(p, 1);
    post(p, "write", { at: 8192, length: 128 });
    postVerified(p, { level: "check", length: 100, persist: true });
    go(p);
    const [{ immediate: more } = { immediate: 0 }] = p.rig.poll(p.rig.b, p.b.recvCq);
    assert.equal(more, 1);
  });

  it("flow 2: verified writes that are not to be persisted are flushed with a later one (P-31)", () => {
    for (const level of VERIFY_LEVELS) {
      const p = verifiedPair({ persistence: { b: FLOW_2 } });
      recvs(p, 1);
      postVerified(p, { level, at: 8192, length: 3000 });
      post(p, "write-persistence", { length: 100 });
      go(p);
      const [{ immediate: more } = { immediate: 0 }] = p.rig.poll(p.rig.b, p.b.recvCq);
      assert.equal(more, 1, level);
    }
  });

  it("flow 2: answers wait for earlier messages, which may cover what was written before (P-31)", () => {
    const p = verifiedPair({ persistence: { b: FLOW_2 } });
    recvs(p, 2);
    post(p, "write-persistence", { length: 100 });
    postVerified(p, { level: "verify", at: 8192, length: 100, persist: true });
    untilTold(p, 2);
    const [first, second] = p.rig.poll(p.rig.b, p.b.recvCq);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: second!.psn });
    p.rig.runFor(5_000_000);
    assert.deepEqual(outcomes(p), []);
    assert.equal(counter(p, "b", "verifyReadBacks"), 0);
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: first!.psn });
    p.rig.run();
    assert.deepEqual(outcomes(p).map(textOf), ["SUCCESS", WRITTEN.verify]);
  });

  it("damage that only memory shows is found after the CPU's flush", () => {
    const p = verifiedPair({ persistence: { b: FLOW_2 } });
    recvs(p, 1);
    postVerified(p, { level: "verify", length: 3000, persist: true });
    damageOnceWritten(p, { length: 3000 });
    untilTold(p, 1);
    assert.equal(cpuFlushes(p).length, 1);
    p.rig.run();
    // What does not hold the data has not got it persistently either.
    const expected = "VERIFY_ERR read-back-differs: crc-before compared";
    assert.deepEqual(outcomes(p).map(textOf), [expected]);
  });

  it("a bad CRC is answered at once: nobody flushes what was not written", () => {
    for (const plan of [FLOW_1, FLOW_2, ALL_KEPT]) {
      const p = verifiedPair({ persistence: { b: plan } });
      recvs(p, 1);
      const work = { level: "verify", length: 3000, persist: true, crc: 7 } as const;
      const expected = "VERIFY_ERR crc-mismatch: crc-before";
      assert.deepEqual(writeVerified(p, work).map(textOf), [expected]);
      assert.equal(counter(p, "b", "lsbReads") + counter(p, "b", "recvPersisted"), 0);
    }
  });

  it("flow 1: a refused LSB read is an answer, and the connection goes on", () => {
    const p = verifiedPair({ persistence: { b: FLOW_1 } });
    p.rig.b.host.refuseReads = true;
    const work = { level: "check", length: 300, persist: true } as const;
    assert.deepEqual(writeVerified(p, work).map(textOf), ["VERIFY_ERR read-failed: crc-before"]);
    p.rig.b.host.refuseReads = false;
    assert.deepEqual(writeVerified(p, work).map(textOf), [WRITTEN.check]);
  });

  it("flow 2: a region that goes while the CPU flushes is a failed look", () => {
    const p = verifiedPair({ persistence: { b: FLOW_2 } });
    recvs(p, 1);
    postVerified(p, { level: "verify", length: 300, persist: true });
    untilTold(p, 1);
    const told = p.rig.poll(p.rig.b, p.b.recvCq);
    assert.equal(told.length, 1);
    const reply = p.rig.command(p.rig.b, { op: "deregister-mr", key: p.to.key });
    assert.equal(reply.status, "ok");
    p.rig.send(p.rig.b, p.b, { opcode: "persistence-ack", immediate: told[0]!.psn });
    p.rig.run();
    assert.deepEqual(outcomes(p).map(textOf), ["VERIFY_ERR read-failed: crc-before"]);
  });

  it("P-22: into a region that persists, it is persisted unasked, and says so", () => {
    const p = verifiedPair({ persistence: { b: FLOW_1 } });
    const access = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteWritePersistence;
    const to = p.rig.register(p.rig.b, { length: 8192, access, va: 0x3_0000_0000 });
    for (const level of VERIFY_LEVELS) {
      const outcome = writeVerified({ ...p, to }, { level, length: 3000 });
      assert.deepEqual(outcome.map(textOf), [WRITTEN[level]]);
    }
    assert.equal(counter(p, "b", "persistAcksOut"), 0);
  });

  it("of no bytes it is a barrier as a persistent WRITE of none is", () => {
    for (const level of VERIFY_LEVELS) {
      const p = verifiedPair({ persistence: { b: FLOW_1 } });
      const outcome = writeVerified(p, { level, length: 0, persist: true });
      assert.deepEqual(outcome.map(textOf), [WRITTEN[level]]);
      assert.equal(counter(p, "b", "lsbReads"), 1);
    }
  });

  it("flow 2: its duplicate looks for a RECV where none was posted, and is told once", () => {
    const p = verifiedPair({ persistence: { b: FLOW_2 } }, { attributes: { timeout: 2 } });
    postVerified(p, { level: "verify", length: 300, persist: true });
    p.rig.ring(p.rig.a, p.a.sq);
    p.rig.run(() => counter(p, "b", "duplicatesIn") === 3);
    recvs(p, 2);
    const begun = p.rig.now;
    p.rig.run(() => counter(p, "b", "recvPersisted") === 1);
    // Of itself it would look ever more rarely: 75 µs behind the first time.
    assert.ok(p.rig.now - begun < 8_000_000);
    assert.equal(cpuFlushes(p).length, 0, "its CQE is still on its way");
    p.rig.runFor(2_000_000);
    assert.equal(cpuFlushes(p).length, 1);
    p.rig.run();
    assert.deepEqual(outcomes(p).map(textOf), [WRITTEN.verify]);
    assert.equal(counter(p, "b", "recvPersisted"), 1);
  });

  for (const plan of [FLOW_1, FLOW_2]) {
    for (const level of VERIFY_LEVELS) {
      it(`V-08: ${level}, flow ${plan.flow}: a lost answer is given again, nothing is done twice`, () => {
        const p = verifiedPair({ persistence: { b: plan } });
        p.rig.fate = losing("RC RDMA READ RESPONSE ONLY", 3);
        recvs(p, 2);
        postVerified(p, { level, length: 5000, persist: true });
        p.rig.ring(p.rig.a, p.a.sq);
        if (plan === FLOW_2) {
          untilTold(p, 1);
          cpuFlushes(p);
        }
        p.rig.run();
        assert.deepEqual(outcomes(p).map(textOf), [WRITTEN[level]]);
        assert.equal(counter(p, "b", "verifyWritesIn"), 1);
        assert.equal(counter(p, "b", "verifyRepeats"), 3);
        assert.equal(counter(p, "b", "verifyReadBacks"), readBacks(level) ? 1 : 0);
        assert.equal(counter(p, "b", "recvPersisted"), plan === FLOW_2 ? 1 : 0);
        const written = p.rig.b.host.log.filter((message) =>
          message.kind === "memory-write" && message.address >= p.to.address &&
          message.address < p.to.address + p.to.length
        );
        const bytes = written.reduce(
          (sum, message) => sum + (message.kind === "memory-write" ? message.data.length : 0),
          0,
        );
        assert.equal(bytes, 5000);
      });
    }
  }
});
