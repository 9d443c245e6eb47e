/**
 * Random programs of every RC operation on two queue pairs of one RNIC, with loss, duplication and
 * reordering on the wire: they end as a list of operations executed one after the other would.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { FLUSH_PLACEMENT, FLUSH_SELECT } from "../../fabric/wire/roce/feth.ts";
import { OPCODE } from "../../fabric/wire/roce/opcode.ts";
import { EVERY_ACCESS, packetOf } from "./testing/pair_testing.ts";
import type { FrameFate, RigMr, RigQp } from "./testing/rig_parts_testing.ts";
import { Rig } from "./testing/rnic_testing.ts";
import { wordOf } from "./state/memory.ts";

const VERBS = [
  "write",
  "send",
  "fetch-add",
  "compare-swap",
  "atomic-write",
  "read",
  "flush",
] as const;
type Verb = typeof VERBS[number];

interface Step {
  readonly verb: Verb;
  /** Number of the word that an atomic is about, and its operand. */
  readonly at: number;
  readonly operand: bigint;
  readonly length: number;
  /** A flush to persistence: flow 2 tells the CPU. */
  readonly persistent: boolean;
}

const STEPS = 25;
const WORDS = 4;
/** Words that only this queue pair uses begin at 0 and `WORDS`, those that both use here. */
const SHARED = 2 * WORDS;
const BULK_AT = 4096;
const SLOT = 4096;

interface Line {
  readonly a: RigQp;
  readonly b: RigQp;
  readonly steps: readonly Step[];
  readonly base: number;
  posted: number;
  told: number;
  readonly statuses: string[];
}

interface Run {
  readonly rig: Rig;
  readonly rng: Rng;
  readonly from: RigMr;
  readonly got: RigMr;
  readonly to: RigMr;
  readonly lines: readonly Line[];
  readonly flow: 1 | 2;
  readonly pathMtu: number;
}

function stepsOf(rng: Rng): Step[] {
  return Array.from({ length: STEPS }, (): Step => ({
    verb: VERBS[rng.below(VERBS.length)]!,
    at: rng.below(WORDS),
    operand: BigInt(1 + rng.below(5)),
    length: 1 + rng.below(SLOT),
    persistent: rng.below(2) === 0,
  }));
}

function prepare(seed: number): Run {
  const rng = rngFor(seed, "operations");
  const flow = rng.below(2) === 0 ? 1 : 2;
  const persistence = { flow, flush: flow === 1 ? "read" : "cpu", noSnoop: false } as const;
  const queueCache = { entries: 2 + rng.below(8), evict: "random", amount: 1 } as const;
  const rig = new Rig({ seed, persistence: { b: persistence }, plans: { b: { queueCache } } });
  const length = BULK_AT + 2 * STEPS * SLOT;
  const access = EVERY_ACCESS;
  const from = rig.register(rig.a, { length, access });
  const got = rig.register(rig.a, { length: 2 * STEPS * 8, access, va: 0x2_0000_0000 });
  const to = rig.register(rig.b, { length, access });
  rig.fill(rig.a, from, () => rng.below(256));
  const pathMtu = ([256, 512, 1024] as const)[rng.below(3)]!;
  const depth = 1 + rng.below(4);
  const lines = [0, 1].map((number): Line => ({
    ...rig.connect({
      rqDepth: 64,
      attributes: {
        accessFlags: access,
        pathMtu,
        maxRdAtomic: depth,
        maxDestRdAtomic: depth,
        sqPsn: 0xff_fff8,
        rqPsn: 0xff_fff8,
      },
    }),
    steps: stepsOf(rng),
    base: number * WORDS,
    posted: 0,
    told: 0,
    statuses: [],
  }));
  return { rig, rng, from, got, to, lines, flow, pathMtu };
}

/** Byte of the target that a step is about. */
function placeOf(line: Line, index: number): number {
  const { verb, at } = line.steps[index]!;
  if (verb === "write" || verb === "send" || verb === "flush") {
    return BULK_AT + (line.base / WORDS * STEPS + index) * SLOT;
  }
  // FETCH & ADD commutes, so all may add to the same words.
  return 8 * (verb === "fetch-add" ? SHARED + at : line.base + at);
}

function post(run: Run, line: Line): void {
  const { rig, from, got, to } = run;
  const index = line.posted++;
  const { verb, operand, length, persistent } = line.steps[index]!;
  const place = placeOf(line, index);
  const remote = { va: BigInt(to.va + place), rkey: to.key };
  const answer = { address: got.va + 8 * slotOf(line, index), length: 8, lkey: got.key };
  const bulk = { address: from.va + place, length, lkey: from.key };
  // A READ whose answer was lost is executed again (§3.5), so what changes its word waits for it.
  const fence = verb === "atomic-write" || verb === "compare-swap";
  switch (verb) {
    case "write":
      rig.enqueueSend(rig.a, line.a, { opcode: verb, remote, sges: [bulk] });
      return;
    case "send":
      rig.enqueueSend(rig.a, line.a, { opcode: verb, sges: [bulk] });
      return;
    case "read":
      rig.enqueueSend(rig.a, line.a, { opcode: verb, remote, sges: [answer] });
      return;
    case "fetch-add":
    case "compare-swap": {
      // What is compared with is right about every second time.
      const atomic = { swapAdd: operand, compare: operand - 1n };
      rig.enqueueSend(rig.a, line.a, { opcode: verb, remote, sges: [answer], atomic, fence });
      return;
    }
    case "atomic-write":
      rig.enqueueSend(rig.a, line.a, { opcode: verb, remote, inline: wordOf(operand), fence });
      return;
    case "flush": {
      const { globalVisibility, persistence } = FLUSH_PLACEMENT;
      const placement = persistent ? persistence : globalVisibility;
      const flush = { select: FLUSH_SELECT.range, placement, length };
      rig.enqueueSend(rig.a, line.a, { opcode: verb, remote, flush });
    }
  }
}

function slotOf(line: Line, index: number): number {
  return line.base / WORDS * STEPS + index;
}

/** 6 % of the frames are lost, 4 % come twice, 4 % late; a FLUSH's answer must be deserved. */
function hostile(run: Run, told: ReadonlySet<string>): Rig["fate"] {
  const { rng, flow } = run;
  return (from, frame): FrameFate => {
    const { bth, payload } = packetOf(frame.bytes);
    const isEmpty = bth.opcode === OPCODE["RC RDMA READ RESPONSE ONLY"] && payload.length === 0;
    if (from === "b" && isEmpty) {
      const line = run.lines.find(({ a }) => a.qpn === bth.destQpn)!;
      const index = stepOfPsn(run, line, bth.psn);
      const step = line.steps[index]!;
      if (step.verb === "flush" && step.persistent && flow === 2) {
        assert.ok(told.has(`${line.base}:${bth.psn}`), "P-26: the CPU has not flushed it");
      }
    }
    const luck = rng.below(100);
    if (luck < 6) return "drop";
    if (luck < 10) return "twice";
    return luck < 14 ? { delayPs: rng.below(4_000_000) } : "pass";
  };
}

/** The step whose request begins with this PSN: they are given out in order of posting. */
function stepOfPsn({ pathMtu }: Run, line: Line, psn: number): number {
  let next = 0xff_fff8;
  for (let i = 0; i < line.steps.length; i++) {
    if (next === psn) return i;
    const { verb, length } = line.steps[i]!;
    const packets = verb === "write" || verb === "send" ? Math.ceil(length / pathMtu) : 1;
    next = (next + packets) & 0xff_ffff;
  }
  throw new Error(`No step has PSN ${psn}`);
}

function play(run: Run): void {
  const { rig, rng, to, lines } = run;
  const told = new Set<string>();
  rig.fate = hostile(run, told);
  const recvs = lines.map(() => 0);
  for (let turn = 0; turn < 6000; turn++) {
    lines.forEach((line, i) => {
      if (line.posted < STEPS && rng.below(3) === 0) {
        const batch = Math.min(STEPS - line.posted, 1 + rng.below(4));
        for (let n = 0; n < batch; n++) post(run, line);
        rig.ring(rig.a, line.a.sq, rng.below(2) === 0 ? "pointer" : "number");
      }
      if (recvs[i]! < STEPS && rng.below(2) === 0) {
        const consumer = consumers(run, line)[recvs[i]!];
        const address = to.va + (consumer === undefined ? BULK_AT : placeOf(line, consumer));
        rig.recv(rig.b, line.b, [{ address, length: SLOT, lkey: to.key }], "pointer");
        recvs[i]!++;
      }
    });
    rig.runFor(rng.below(8) * 500_000);
    for (const line of lines) {
      for (const { status } of rig.poll(rig.a, line.a.sendCq)) line.statuses.push(status);
      for (const cqe of rig.poll(rig.b, line.b.recvCq)) {
        if (cqe.opcode !== "recv-persistence") continue;
        line.told++;
        told.add(`${line.base}:${cqe.psn}`);
        rig.enqueueSend(rig.b, line.b, { opcode: "persistence-ack", immediate: cqe.psn });
        rig.ring(rig.b, line.b.sq);
      }
    }
    if (lines.every(({ statuses }) => statuses.length === STEPS)) break;
  }
  rig.run();
}

/** Steps that take a receive WQE, in order. */
function consumers({ flow }: Run, { steps }: Line): number[] {
  return steps.flatMap(({ verb, persistent }, i) =>
    verb === "send" || (verb === "flush" && persistent && flow === 2) ? [i] : []
  );
}

/** What the line's own words and answers must be; FETCH & ADD is counted together. */
function check(run: Run): void {
  const { rig, from, got, to, lines } = run;
  const sums = new Array(WORDS).fill(0n);
  const answers = new Map<number, bigint[]>();
  for (const line of lines) {
    assert.deepEqual(line.statuses, new Array(STEPS).fill("SUCCESS"));
    const words = new Array(WORDS).fill(0n);
    line.steps.forEach((step, i) => {
      const { verb, at, operand, length } = step;
      const place = placeOf(line, i);
      const answer = number(rig.bytes(rig.a, got, 8 * slotOf(line, i), 8));
      switch (verb) {
        case "write":
        case "send":
          assert.deepEqual(
            rig.bytes(rig.b, to, place, length),
            rig.bytes(rig.a, from, place, length),
          );
          return;
        case "fetch-add":
          sums[at] += operand;
          answers.set(at, [...answers.get(at) ?? [], answer]);
          return;
        case "compare-swap":
          assert.equal(answer, words[at], `step ${i}: what was there`);
          if (words[at] === operand - 1n) words[at] = operand;
          return;
        case "atomic-write":
          words[at] = operand;
          return;
        case "read":
          assert.equal(answer, words[at], `step ${i}: what was read`);
      }
    });
    words.forEach((expected, at) => {
      assert.equal(number(rig.bytes(rig.b, to, 8 * (line.base + at), 8)), expected);
    });
    const persistent = line.steps.filter(({ verb, persistent }) => verb === "flush" && persistent);
    assert.equal(line.told, run.flow === 2 ? persistent.length : 0, "the CPU is told once of each");
  }
  sums.forEach((expected, at) => {
    assert.equal(number(rig.bytes(rig.b, to, 8 * (SHARED + at), 8)), expected, "each once");
    const seen = answers.get(at) ?? [];
    assert.equal(new Set(seen).size, seen.length, "no two saw the same value");
  });
}

function number(bytes: Uint8Array): bigint {
  return new DataView(bytes.buffer, bytes.byteOffset, 8).getBigUint64(0, true);
}

describe("random programs of atomics, FLUSHes and data, with loss, duplication and reordering", () => {
  for (let seed = 1; seed <= 40; seed++) {
    it(`P-50: each takes effect once, in its place (seed ${seed})`, () => {
      const run = prepare(seed);
      play(run);
      check(run);
    });
  }
});
