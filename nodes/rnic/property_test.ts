import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/time/rng.ts";
import { OPCODE } from "../../fabric/wire/opcode.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/packet.ts";
import { ACCESS } from "../../fabric/wire/rnic_command.ts";
import type { Cqe } from "../../fabric/wire/cqe.ts";
import { type FrameFate, Rig, type RigMr, type RigQp } from "./rnic_testing.ts";

/** What a random program does, one after the other on one queue pair. */
const VERBS = [
  "write",
  "write-persistence",
  "write-persist-address",
  "write-immediate",
  "read",
  "send",
] as const;
type Verb = typeof VERBS[number];

interface Step {
  readonly verb: Verb;
  readonly length: number;
  readonly at: number;
}

interface Run {
  readonly rig: Rig;
  readonly rng: Rng;
  readonly flow: 1 | 2;
  readonly policy: "persistence" | "reception";
  readonly a: RigQp;
  readonly b: RigQp;
  /** Where data comes from, where READs put theirs. */
  readonly from: RigMr;
  readonly got: RigMr;
  /** Plain target, persistent target, what is only read, and where SENDs land. */
  readonly to: RigMr;
  readonly scm: RigMr;
  readonly fixed: RigMr;
  readonly inbox: RigMr;
  readonly steps: Step[];
  readonly pathMtu: number;
}

const SLOT = 4096;
const STEPS = 30;
const FIRST_PSN = 0xff_fff0;
const PERSIST_ACK = OPCODE["VENDOR PERSISTENCE ACKNOWLEDGE"];

/** Plain writes overlap on purpose: the last one wins. Persistent ones have a slot each. */
function placeOf({ verb, at }: Step, index: number): number {
  return isPersistent(verb) ? index * SLOT : at;
}

function isPersistent(verb: Verb): boolean {
  return verb === "write-persistence" || verb === "write-persist-address";
}

function prepare(seed: number): Run {
  const rng = rngFor(seed, "program");
  const flow = rng.below(2) === 0 ? 1 : 2;
  const policy = rng.below(2) === 0 ? "persistence" : "reception";
  const persistence = { flow, noSnoop: false } as const;
  const queueCache = { entries: 1 + rng.below(4), evict: "random", amount: 1 } as const;
  const rig = new Rig({
    seed,
    persistence: { a: persistence, b: persistence },
    plans: { a: { queueCache }, b: { queueCache } },
  });
  const length = STEPS * SLOT;
  const from = rig.register(rig.a, { length });
  const got = rig.register(rig.a, { length, va: 0x2_0000_0000 });
  const to = rig.register(rig.b, { length });
  const persist = ACCESS.localWrite | ACCESS.remoteWrite | ACCESS.remoteWritePersistence;
  const scm = rig.register(rig.b, { length, va: 0x2_0000_0000, access: persist });
  const fixed = rig.register(rig.b, { length, va: 0x3_0000_0000 });
  const inbox = rig.register(rig.b, { length, va: 0x4_0000_0000 });
  rig.fill(rig.a, from, () => rng.below(256));
  rig.fill(rig.b, fixed, () => rng.below(256));
  const steps = Array.from({ length: STEPS }, (): Step => ({
    verb: VERBS[rng.below(VERBS.length)]!,
    length: rng.below(4) === 0 ? rng.below(64) : rng.below(SLOT + 1),
    at: rng.below(8) * 300,
  }));
  const pmtus = [256, 512, 1024] as const;
  const pathMtu = pmtus[rng.below(3)]!;
  const attributes = { pathMtu, timeout: 4, sqPsn: FIRST_PSN, rqPsn: FIRST_PSN };
  const qps = rig.connect({ persistCompletion: policy, attributes, rqDepth: 64, depth: 128 });
  return { rig, rng, flow, policy, ...qps, from, got, to, scm, fixed, inbox, steps, pathMtu };
}

/** 6 % of the frames are lost, 4 % come twice, 4 % late. A persistence ACK must be deserved. */
function hostile(
  run: Run,
  flushed: ReadonlySet<number>,
): (from: "a" | "b", frame: { bytes: Uint8Array<ArrayBuffer> }) => FrameFate {
  const { rig, rng, flow, scm } = run;
  const stepOfPsn = lastPsns(run);
  return (from, frame) => {
    const packet = decodePacket(frame.bytes);
    assert.ok(!isRefusal(packet));
    if (from === "b" && packet.bth.opcode === PERSIST_ACK && flow === 2) {
      assert.ok(
        flushed.has(packet.bth.psn),
        `P-30: PSN ${packet.bth.psn} is reported, not flushed`,
      );
    }
    if (from === "b" && packet.bth.opcode === PERSIST_ACK && flow === 1) {
      const slot = scm.address + stepOfPsn.get(packet.bth.psn)! * SLOT;
      const isBuffered = rig.b.host.buffered.some(({ address }) =>
        address >= slot && address < slot + SLOT
      );
      assert.ok(!isBuffered, `P-24: PSN ${packet.bth.psn} is reported, its data is in the IIO`);
    }
    const luck = rng.below(100);
    if (luck < 6) return "drop";
    if (luck < 10) return "twice";
    return luck < 14 ? { delayPs: rng.below(4_000_000) } : "pass";
  };
}

/** Last PSN of each step's message: PSNs are given out in order of posting. */
function lastPsns({ steps, pathMtu }: Run): Map<number, number> {
  const stepOfPsn = new Map<number, number>();
  let psn = FIRST_PSN;
  steps.forEach(({ length }, i) => {
    psn += Math.max(1, Math.ceil(length / pathMtu));
    stepOfPsn.set((psn - 1) & 0xff_ffff, i);
  });
  return stepOfPsn;
}

function post(run: Run, index: number): void {
  const { rig, a, from, got, to, scm, fixed } = run;
  const { verb, length } = run.steps[index]!;
  const at = placeOf(run.steps[index]!, index);
  const local = { address: from.va + index * SLOT, length, lkey: from.key };
  const target = isPersistent(verb) ? scm : to;
  const remote = { va: BigInt(target.va + at), rkey: target.key };
  if (verb === "read") {
    rig.enqueueSend(rig.a, a, {
      opcode: "read",
      remote: { va: BigInt(fixed.va + at), rkey: fixed.key },
      sges: [{ address: got.va + index * SLOT, length, lkey: got.key }],
    });
  } else if (verb === "send") {
    rig.enqueueSend(rig.a, a, { opcode: "send", sges: [local] });
  } else {
    rig.enqueueSend(rig.a, a, { opcode: verb, immediate: index, remote, sges: [local] });
  }
}

interface Outcome {
  readonly sends: Cqe[];
  readonly recvsA: Cqe[];
  readonly recvsB: Cqe[];
}

/** Runs the program with a host on `b` that posts RECVs late and flushes what it is told to. */
function play(run: Run): Outcome {
  const { rig, rng, a, b, inbox, steps } = run;
  const flushed = new Set<number>();
  rig.fate = hostile(run, flushed);
  const outcome: Outcome = { sends: [], recvsA: [], recvsB: [] };
  let posted = 0, recvsPosted = 0, recvsPostedA = 0;
  for (let turn = 0; turn < 4000; turn++) {
    if (posted < steps.length && rng.below(3) === 0) {
      const batch = Math.min(steps.length - posted, 1 + rng.below(4));
      for (let i = 0; i < batch; i++) post(run, posted++);
      rig.ring(rig.a, a.sq, rng.below(2) === 0 ? "pointer" : "number");
    }
    if (recvsPosted < STEPS && rng.below(2) === 0) {
      const sge = { address: inbox.va + recvsPosted * SLOT, length: SLOT, lkey: inbox.key };
      rig.recv(rig.b, b, [sge], rng.below(2) === 0 ? "none" : "pointer");
      recvsPosted++;
    }
    if (recvsPostedA < STEPS && rng.below(2) === 0) {
      rig.recv(rig.a, a, [], "none");
      recvsPostedA++;
    }
    rig.runFor(rng.below(8) * 500_000);
    for (const cqe of rig.poll(rig.a, a.sendCq)) {
      (cqe.opcode.startsWith("requester") ? outcome.sends : outcome.recvsA).push(cqe);
    }
    for (const cqe of rig.poll(rig.b, b.recvCq)) {
      if (cqe.opcode.startsWith("requester")) continue;
      outcome.recvsB.push(cqe);
      if (cqe.opcode !== "recv-persistence") continue;
      flushed.add(cqe.psn);
      rig.enqueueSend(rig.b, b, { opcode: "persistence-ack", immediate: cqe.psn });
      rig.ring(rig.b, b.sq);
    }
    if (turn > 300 && outcome.sends.length === steps.length && posted === steps.length) {
      const persistent = steps.filter(({ verb }) => isPersistent(verb)).length;
      if (run.policy === "persistence" || outcome.recvsA.length >= persistent) break;
    }
  }
  rig.run();
  return outcome;
}

describe("random programs with loss, duplication and reordering", () => {
  // 1179, 2597: an ACK overtook a restart, whose cursor then stood on work that was gone.
  for (const seed of [...Array.from({ length: 40 }, (_, i) => i + 1), 1179, 2597]) {
    it(`P-30, P-31: end right, in order, each once (seed ${seed})`, () => {
      const run = prepare(seed);
      const { rig, steps, a, b } = run;
      const outcome = play(run);
      assert.deepEqual(outcome.sends.map(({ status }) => status), steps.map(() => "SUCCESS"));
      const indexes = outcome.sends.map(({ wqeIndex }) => wqeIndex);
      assert.deepEqual(indexes, steps.map((_, i) => i), "completions are in order of posting");
      // RECVs complete in the order of their WQEs, each once.
      for (const recvs of [outcome.recvsA, outcome.recvsB]) {
        assert.deepEqual(recvs.map(({ wqeIndex }) => wqeIndex), recvs.map((_, i) => i));
      }
      checkMemory(run);
      checkRecvs(run, outcome);
      assert.equal(rig.poll(rig.a, a.sendCq).length + rig.poll(rig.b, b.recvCq).length, 0);
    });
  }
});

function checkMemory(run: Run): void {
  const { rig, steps, from, to, scm, fixed, got } = run;
  const expected = { to: new Uint8Array(to.length), scm: new Uint8Array(scm.length) };
  steps.forEach((step, i) => {
    const { verb, length } = step;
    const at = placeOf(step, i);
    if (verb === "send") return;
    if (verb === "read") {
      assert.deepEqual(
        rig.bytes(rig.a, got, i * SLOT, length),
        rig.bytes(rig.b, fixed, at, length),
      );
      return;
    }
    const target = isPersistent(verb) ? expected.scm : expected.to;
    target.set(rig.bytes(rig.a, from, i * SLOT, length), at);
  });
  assert.deepEqual(rig.bytes(rig.b, to), expected.to);
  assert.deepEqual(rig.bytes(rig.b, scm), expected.scm);
}

function checkRecvs(run: Run, outcome: Outcome): void {
  const { rig, steps, from, inbox, flow, policy } = run;
  const persistent = steps.filter(({ verb }) => isPersistent(verb)).length;
  const told = outcome.recvsB.filter(({ opcode }) => opcode === "recv-persistence");
  assert.equal(told.length, flow === 2 ? persistent : 0, "the CPU is told of each message once");
  assert.equal(new Set(told.map(({ psn }) => psn)).size, told.length);
  const confirmed = outcome.recvsA.map(({ psn }) => psn);
  assert.equal(confirmed.length, policy === "reception" ? persistent : 0, "P-27: each once");
  assert.equal(new Set(confirmed).size, confirmed.length);
  const messages = outcome.recvsB.filter(({ opcode }) => opcode !== "recv-persistence");
  const expected = steps.flatMap((step, i) =>
    step.verb === "send" || step.verb === "write-immediate" ? [{ ...step, i }] : []
  );
  assert.deepEqual(
    messages.map(({ opcode }) => opcode),
    expected.map(({ verb }) => verb === "send" ? "recv" : "recv-write-immediate"),
  );
  messages.forEach(({ wqeIndex, byteCount, opcode }, k) => {
    const { i, length } = expected[k]!;
    assert.equal(byteCount, length);
    if (opcode !== "recv") return;
    const landed = rig.bytes(rig.b, inbox, wqeIndex * SLOT, length);
    assert.deepEqual(landed, rig.bytes(rig.a, from, i * SLOT, length));
  });
}
