/**
 * H-23: an atomic whose word a hint has had read into the RNIC, against all that may change the word: a core's store,
 * WRITEs and atomics of other queue pairs, WRITEs of its own. Each case is played at every instant of a grid, with
 * and without hints: an outcome that does not exist without hints is a fault.
 */
import { deepEqual as same, equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { PORTS } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { hintOf, hintParts } from "../../../fabric/wire/roce/hint.ts";
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import { createHints, type Word } from "./state/hint_state.ts";
import { wordOf } from "../state/memory.ts";
import { announceOperands, WORDS_MAX } from "./words.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { fetchAdd, sge } from "../testing/atomic_testing.ts";
import {
  answerAt,
  changed,
  counter,
  EVERY_ACCESS,
  go,
  packetOf,
  packets,
  type Pair,
  PAIR_BYTES,
  post,
  setWord,
  statuses,
  word,
} from "../testing/pair_testing.ts";
import { MEMORY_BYTES } from "../testing/fake_host_testing.ts";
import { DemandDriver } from "../testing/demand_testing.ts";
import { Rig } from "../testing/rnic_testing.ts";

const NS = 1000, US = 1_000_000;
/** Where the contended word is, and where its original goes. */
const AT = 64, ANSWER = 1024, OTHER_ANSWER = 2048;

type Follow = Partial<HintPlan>;
/** H-06: the read of the word is over long before the atomic, about then, or has just begun. */
const FOLLOWS: readonly (readonly [name: string, plan: Follow])[] = [
  ["2.5 us behind its hint", { follow: "delay", delayPs: 2_500 * NS }],
  ["0.7 us behind its hint", { follow: "delay", delayPs: 700 * NS }],
  ["right behind its hint", { follow: "at-once" }],
  ["behind the hint's ACK", { follow: "after-ack" }],
];

/** Two queue pairs of the same two cards. */
interface Bench extends Pair {
  readonly other: Pair;
}

interface BenchOptions {
  readonly quota?: number;
  readonly memoryBytes?: number;
}

function bench(hints: Follow | undefined, options: BenchOptions = {}): Bench {
  const { quota = 4096, memoryBytes = MEMORY_BYTES } = options;
  const plan = hints && {
    hints: { ...HINT_PLAN, kinds: HINT_KINDS.atomic, quota, ...hints },
  };
  const rig = new Rig({ plans: { a: { ...plan }, b: { ...plan } }, memoryBytes });
  const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const to = rig.register(rig.b, { length: PAIR_BYTES, access: EVERY_ACCESS });
  const connect = () => rig.connect({ attributes: { accessFlags: EVERY_ACCESS } });
  const p = { rig, from, to };
  const own = connect(), other = connect();
  // What both cards want has been told.
  rig.run();
  return { ...p, ...own, other: { ...p, ...other } };
}

const add = (p: Pair, to = ANSWER) => fetchAdd(p, AT, 1n, { sges: [sge(p, to)] });
const ring = (p: Pair) => p.rig.ring(p.rig.a, p.a.sq);

/** What happens besides a FETCH & ADD of 1 to a word of 5. */
interface Rival {
  readonly act: (b: Bench) => void;
  /** Whether it takes as long to come as the atomic does, so that it is begun first as well. */
  readonly isRemote: boolean;
}

const RIVALS: Readonly<Record<string, Rival>> = {
  "a core's store": {
    act: ({ rig, to }) => rig.store(rig.b, to.address + AT, wordOf(100n)),
    isRemote: false,
  },
  "a core's store of half the word": {
    act: ({ rig, to }) => rig.store(rig.b, to.address + AT + 4, Uint8Array.of(1, 0, 0, 0)),
    isRemote: false,
  },
  "another queue pair's WRITE": {
    act: ({ other }) => {
      post(other, "write", { at: AT, inline: wordOf(100n) });
      ring(other);
    },
    isRemote: true,
  },
  "another queue pair's WRITE over it and more": {
    act: ({ other }) => {
      post(other, "write", { at: 0, length: 128 });
      ring(other);
    },
    isRemote: true,
  },
  "another queue pair's ATOMIC WRITE": {
    act: ({ other }) => {
      post(other, "atomic-write", { at: AT, inline: wordOf(100n) });
      ring(other);
    },
    isRemote: true,
  },
  "another queue pair's atomic": {
    act: ({ other }) => {
      fetchAdd(other, AT, 10n, { sges: [sge(other, OTHER_ANSWER)] });
      ring(other);
    },
    isRemote: true,
  },
  "another queue pair's COMPARE & SWAP": {
    act: ({ other }) => {
      const atomic = { swapAdd: 100n, compare: 6n };
      post(other, "compare-swap", { at: AT, length: 8, sges: [sge(other, OTHER_ANSWER)], atomic });
      ring(other);
    },
    isRemote: true,
  },
};

/** Plays one case. @returns what the answers were, and what memory is. */
function outcome(b: Bench, first: () => void, then: () => void, after: Time): string {
  b.rig.store(b.rig.b, b.to.address + AT, wordOf(5n));
  for (const at of [ANSWER, OTHER_ANSWER]) {
    b.rig.a.host.memory.fill(0, b.from.address + at, b.from.address + at + 8);
  }
  b.rig.run();
  first();
  b.rig.runFor(after);
  then();
  b.rig.run();
  ok([...statuses(b), ...statuses(b.other)].every((status) => status === "SUCCESS"));
  return `${answerAt(b, ANSWER)} ${answerAt(b, OTHER_ANSWER)} -> ${word(b, AT)}`;
}

/** The grid: beyond the end of the slowest case. */
const STEP = 40 * NS, END = 7 * US;

interface Played {
  /** Outcomes, each with the instants at which the rival came so that it was this one. */
  readonly outcomes: Map<string, Time[]>;
  readonly bench: Bench;
}

function playAll(hints: Follow | undefined, { act, isRemote }: Rival, isDeaf = false): Played {
  const b = bench(hints);
  const { tracked } = b.rig.b.host;
  if (isDeaf) tracked.add = () => tracked;
  const outcomes = new Map<string, Time[]>();
  const note = (found: string, at: Time) => {
    const times = outcomes.get(found);
    if (times === undefined) outcomes.set(found, [at]);
    else times.push(at);
  };
  const own = () => {
    add(b);
    ring(b);
  };
  const rival = () => act(b);
  for (let at = 0; at <= END; at += STEP) {
    note(outcome(b, own, rival, at), at);
    if (isRemote) note(outcome(b, rival, own, at), -at);
  }
  return { outcomes, bench: b };
}

/** From the first to the last instant at which this was the outcome. */
function span(times: readonly Time[] = []): Time {
  return times.length === 0 ? 0 : Math.max(...times) - Math.min(...times) + STEP;
}

/** Of a rival that writes 100: nothing is left of it, and the atomic has not seen it. */
const LOST = "5 0 -> 6";

/** What fails in the middle, for good. A host takes its card along, and a card without its host has lost its power. */
const FAILURES: Readonly<Record<string, (rig: Rig) => void>> = {
  "the responder": (rig) => rig.link(rig.b, PORTS.rnicBus, false),
  "the requester": (rig) => rig.link(rig.a, PORTS.rnicBus, false),
  "the cable": (rig) => rig.fate = () => "drop",
};

/** What two queue pairs add to one word of 5, each in this order, and where the originals go. */
const ADDED = [[1, 2], [10, 20]] as const;
const originalAt = (queue: number, i: number) => ANSWER + 64 * queue + 8 * i;

/** How a failure has left the adds of one queue pair, and the word. */
interface Left {
  /** By queue pair: what was told to have succeeded, and what lies where the originals go. */
  readonly told: readonly number[];
  readonly originals: readonly (readonly number[])[];
  readonly word: number;
  /** How long the failure may come so that it is this. */
  span: Time;
}

function addAll(hints: Follow | undefined): Bench {
  const b = bench(hints, { memoryBytes: 2 ** 18 });
  b.rig.store(b.rig.b, b.to.address + AT, wordOf(5n));
  for (const [queue, each] of [b, b.other].entries()) {
    for (const [i, added] of ADDED[queue]!.entries()) {
      fetchAdd(each, AT, BigInt(added), { sges: [sge(each, originalAt(queue, i))] });
      b.rig.a.host.memory.fill(
        0,
        b.from.address + originalAt(queue, i),
        b.from.address + originalAt(queue, i) + 8,
      );
    }
    ring(each);
  }
  return b;
}

/** The failure comes behind each event of the rig in turn: between two of them nothing changes. */
function failBehindEach(hints: Follow | undefined, fail: (rig: Rig) => void): Left[] {
  const { rig: whole } = addAll(hints);
  const times = [whole.now];
  while (whole.step()) times.push(whole.now);
  return times.map((time, events) => {
    const b = addAll(hints);
    for (let i = 0; i < events; i++) b.rig.step();
    fail(b.rig);
    b.rig.run();
    const told = [b, b.other].map((each) =>
      statuses(each).filter((status) => status === "SUCCESS").length
    );
    const originals = ADDED.map((adds, queue) =>
      adds.map((_, i) => Number(answerAt(b, originalAt(queue, i))))
    );
    return { told, originals, word: Number(word(b, AT)), span: (times[events + 1] ?? time) - time };
  });
}

/**
 * Whether there is an order of the adds, of which the first ones were executed, that explains all: each original is
 * what the word was; what was told was executed; and of what was executed the last may have been lost on the bus.
 * @returns how many at least were lost so; undefined where nothing explains it.
 */
function lostOf({ told, originals, word }: Left): number | undefined {
  let least: number | undefined;
  const next = (value: number, done: readonly [number, number], states: readonly number[]) => {
    const isToldOf = told.every((count, queue) => count <= done[queue]!);
    const isRight = originals.every((each, queue) =>
      each.every((found, i) => i < done[queue]! || found === 0)
    );
    const at = states.lastIndexOf(word);
    if (isToldOf && isRight && at >= 0) least = Math.min(least ?? Infinity, states.length - 1 - at);
    for (const queue of [0, 1] as const) {
      const i = done[queue], added = ADDED[queue][i];
      // An original that was not told may not have come.
      if (added === undefined || ![0, value].includes(originals[queue]![i]!)) continue;
      if (i < told[queue]! && originals[queue]![i] !== value) continue;
      const then: [number, number] = queue === 0 ? [i + 1, done[1]] : [done[0], i + 1];
      next(value + added, then, [...states, value + added]);
    }
  };
  next(5, [0, 0], [5]);
  return least;
}

describe("H-23: an atomic that is executed in the RNIC", () => {
  for (const [name, rival] of Object.entries(RIVALS)) {
    it(`H-23: against ${name}, at every instant: no outcome that is none without a hint`, () => {
      const plain = playAll(undefined, rival);
      ok(plain.outcomes.size >= 2, [...plain.outcomes.keys()].join("; "));
      for (const [when, hints] of FOLLOWS) {
        const hinted = playAll(hints, rival);
        const found = [...hinted.outcomes.keys()].filter((each) => !plain.outcomes.has(each));
        same(found, [], when);
        // What is lost without a hint, as it comes between the atomic's read and write, is lost in no more cases.
        const [lost, most] = [hinted, plain].map(({ outcomes }) => span(outcomes.get(LOST)));
        ok(lost! <= most! + STEP, `${when}: lost for ${lost} ps, without a hint ${most} ps`);
        const { bench: b } = hinted;
        ok(counter(b, "b", "hintWordsUseful") + counter(b, "b", "hintWordsLate") > 50, when);
      }
    });
  }

  for (const [name, fail] of Object.entries(FAILURES)) {
    it(`H-23, H-24: ${name} fails behind each event: each add is executed once, and none is told that is not`, () => {
      const spanOfLost = (hints: Follow | undefined, when: string) => {
        let lostPs = 0;
        for (const left of failBehindEach(hints, fail)) {
          const lost = lostOf(left);
          ok(lost !== undefined, `${when}: ${JSON.stringify(left)}`);
          if (lost > 0) lostPs += left.span;
        }
        return lostPs;
      };
      const plain = spanOfLost(undefined, "without hints");
      equal(plain > 0, name === "the responder", "what is on the bus when power fails is lost");
      for (const [when, hints] of FOLLOWS) {
        // What was told, and is on the bus as the responder fails, is lost as without hints.
        const hinted = spanOfLost(hints, when);
        ok(hinted <= plain, `${when}: for ${hinted} ps, without hints ${plain} ps`);
      }
    });
  }

  it("H-23: a host that says nothing of its cores' stores is found out by the same measure", () => {
    const rival = RIVALS["a core's store"]!;
    const plain = span(playAll(undefined, rival).outcomes.get(LOST));
    ok(plain > 0, "IBV_ATOMIC_HCA: a store between an atomic's DMA read and write is lost");
    const deaf = span(playAll(FOLLOWS[0]![1], rival, true).outcomes.get(LOST));
    ok(deaf > 2 * plain, `${deaf} ps, without a hint ${plain} ps`);
  });

  it("H-23: behind a WRITE of its queue pair it finds what that wrote, in front of one it does not", () => {
    for (const [when, hints] of [...FOLLOWS, ["one by one", { batch: 1 }] as const]) {
      const b = bench(hints);
      for (const lateHintPs of [0, 300 * NS, 900 * NS, 2 * US, 5 * US]) {
        b.rig.fate = (_, { bytes }) =>
          lateHintPs > 0 && hintOf(packetOf(bytes))?.type === "announce"
            ? { delayPs: lateHintPs }
            : "pass";
        const behind = outcome(
          b,
          () => {
            post(b, "write", { at: AT, inline: wordOf(100n) });
            add(b);
            ring(b);
          },
          () => {},
          0,
        );
        equal(behind, "100 0 -> 101", `${when}, hint ${lateHintPs} ps late`);
        const inFront = outcome(
          b,
          () => {
            add(b);
            post(b, "write", { at: AT, inline: wordOf(100n) });
            add(b, OTHER_ANSWER);
            ring(b);
          },
          () => {},
          0,
        );
        equal(inFront, "5 100 -> 101", `${when}, hint ${lateHintPs} ps late`);
      }
    }
  });

  it("H-21, H-23: is answered without a DMA read, which was made when its hint came", () => {
    const took = (hints: Follow | undefined) => {
      const b = bench(hints);
      let arrived = 0, answered = 0;
      b.rig.watch = (side, kind, bytes) => {
        const { atomicEth, atomicAckEth } = packetOf(bytes);
        if (side === "b" && kind === "received" && atomicEth !== undefined) arrived = b.rig.now;
        if (side === "b" && kind === "sent" && atomicAckEth !== undefined) answered = b.rig.now;
      };
      const before = counter(b, "b", "dmaReads");
      equal(outcome(b, () => (add(b), ring(b)), () => {}, 0), "5 0 -> 6");
      equal(counter(b, "b", "dmaReads") - before, 1);
      return answered - arrived;
    };
    const plain = took(undefined), hinted = took(FOLLOWS[0]![1]);
    // The rig's bus there and back, and its memory.
    ok(plain > 500 * NS && hinted < 50 * NS, `${hinted} ps, without a hint ${plain} ps`);
  });

  it("H-21, H-23: atomics of one hint on one word are one read, and each finds what the last has left", () => {
    const b = bench({ follow: "delay", delayPs: 2 * US });
    setWord(b, AT, 5n);
    for (let i = 0; i < 8; i++) add(b, ANSWER + 8 * i);
    go(b);
    same(statuses(b), new Array(8).fill("SUCCESS"));
    same(Array.from({ length: 8 }, (_, i) => answerAt(b, ANSWER + 8 * i)), [
      5n,
      6n,
      7n,
      8n,
      9n,
      10n,
      11n,
      12n,
    ]);
    equal(word(b, AT), 13n);
    equal(counter(b, "b", "hintWordsRead"), 1);
    equal(counter(b, "b", "hintWordsUseful"), 8);
    equal(b.rig.b.host.log.filter(({ kind }) => kind === "memory-write").length > 0, true);
  });

  it("H-23: behind a WRITE of the same hint the word is read once, and not before that", () => {
    const b = bench({ follow: "at-once", batch: 8 });
    post(b, "write", { at: AT, inline: wordOf(100n) });
    add(b);
    go(b);
    const [read] = b.rig.b.host.log.filter((message) =>
      message.kind === "memory-read" && message.tracked
    );
    const order = b.rig.b.host.log.filter((message) =>
      message === read ||
      message.kind === "memory-write" && message.address === b.to.address + AT
    ).map(({ kind }) => kind);
    same(order, ["memory-write", "memory-read", "memory-write"]);
    equal(counter(b, "b", "hintWordsRead"), 1);
    equal(counter(b, "b", "hintWordsOverwritten"), 0);
  });

  it("H-24: of one requester's hints no more words are on the chip than its quota, and no more than half", () => {
    for (const [quota, most] of [[3, 3], [4096, WORDS_MAX / 2]] as const) {
      const b = bench({ follow: "delay", delayPs: 50 * US, depth: 64 }, { quota });
      for (let i = 0; i < 40; i++) fetchAdd(b, AT + 8 * i, 1n, { signaled: i === 39 });
      const peak = { words: 0 };
      ring(b);
      b.rig.run(() => {
        peak.words = Math.max(peak.words, counter(b, "b", "hintWordsRead"));
        return packets(b, "a").some(({ atomicEth }) => atomicEth !== undefined);
      });
      equal(peak.words, most);
      ok(counter(b, "b", "hintsOverQuota") > 0);
      b.rig.run();
      same(statuses(b), ["SUCCESS"]);
    }
  });

  it("H-22: words that are not read ahead are named, with the reason", () => {
    const b = bench({ follow: "after-ack" }, { quota: 1 });
    for (let i = 0; i < 3; i++) fetchAdd(b, AT + 8 * i, 1n, { signaled: i === 2 });
    go(b);
    same(statuses(b), ["SUCCESS"]);
    const said = (from: "a" | "b", type: string) =>
      packets(b, from).map(hintOf).filter((message) => message?.type === type);
    const named = (all: ReturnType<typeof said>) =>
      all.flatMap((message) => message!.groups.flatMap(({ entries }) => entries))
        .map(({ sequence, operation }) => [sequence, operation]);
    const answers = said("b", "refused");
    same(answers.map((message) => [message!.reason, message!.answer]), [["quota", false]]);
    same(named(answers), named(said("a", "announce")).slice(1));
    same(["hintElementsUnable", "hintsRefused"].map((name) => counter(b, "a", name)), [2, 1]);
    equal(counter(b, "b", "hintWordsUseful"), 1);
  });

  it("H-22: a word is acknowledged when it has been read, a refusal waits for nothing", () => {
    const b = bench({ follow: "after-ack", batch: 1 }, { quota: 1 });
    for (let i = 0; i < 2; i++) fetchAdd(b, AT + 8 * i, 1n, { signaled: i === 1 });
    go(b);
    same(statuses(b), ["SUCCESS"]);
    const types = packets(b, "b").flatMap((packet) => hintOf(packet)?.type ?? []);
    same(types.filter((type) => type !== "wanted"), ["refused", "prepared"]);
  });

  it("H-24: without the right to atomics no word is read", () => {
    const rig = new Rig({
      plans: {
        a: { hints: { ...HINT_PLAN, kinds: HINT_KINDS.atomic } },
        b: { hints: { ...HINT_PLAN, kinds: HINT_KINDS.atomic } },
      },
    });
    const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const to = rig.register(rig.b, { length: PAIR_BYTES });
    const p = { rig, from, to, ...rig.connect({ attributes: { accessFlags: EVERY_ACCESS } }) };
    rig.run();
    add(p);
    go(p);
    same(statuses(p), ["REM_ACCESS_ERR"]);
    equal(counter(p, "b", "hintsNoAccess"), 1);
    equal(counter(p, "b", "hintWordsRead"), 0);
  });

  it("H-09: hints of atomics are wanted only where the host tells of changes", () => {
    const rig = new Rig({ plans: { a: { hints: HINT_PLAN }, b: { hints: HINT_PLAN } } });
    const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const to = rig.register(rig.b, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const p = { rig, from, to, ...rig.connect({ attributes: { accessFlags: EVERY_ACCESS } }) };
    rig.run();
    add(p);
    go(p);
    same(statuses(p), ["SUCCESS"]);
    equal(counter(p, "a", "hintsSent"), 0);
  });

  it("H-04: one hint has a page asked for, its translations read, and an atomic's word", () => {
    const hints = { ...HINT_PLAN, kinds: HINT_PLAN.kinds | HINT_KINDS.atomic };
    const delayed = { ...hints, follow: "delay" as const, delayPs: 40 * US };
    // Room for two lines of translations, of which there are three.
    const translations = { entries: 16, evict: "lru" as const };
    const rig = new Rig({
      plans: { a: { hints: delayed, translations }, b: { hints, translations, pageFault: "drop" } },
    });
    const from = rig.register(rig.a, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const cold = new DemandDriver(rig, rig.b, {}).register({
      length: PAIR_BYTES,
      access: EVERY_ACCESS,
    });
    const to = rig.register(rig.b, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const ends = rig.connect({ attributes: { accessFlags: EVERY_ACCESS, timeout: 9 } });
    const other = rig.register(rig.b, { length: PAIR_BYTES, access: EVERY_ACCESS });
    const p = { rig, from, to, ...ends };
    rig.run();
    const before = counter(p, "b", "hintLinesFetched");
    for (const round of [1n, 2n]) {
      // Takes a place on the chip.
      post({ ...p, to: other }, "write", { length: 64 });
      go(p);
      same(statuses(p), ["SUCCESS"]);
      post({ ...p, to: cold }, "write", { at: Number(round) * 4096, length: 64 });
      add(p);
      go(p);
      same(statuses(p), ["SUCCESS", "SUCCESS"]);
    }
    const announced = packets(p, "a").flatMap((packet) => hintOf(packet) ?? [])
      .filter(({ type }) => type === "announce");
    const { prefetch, warmUp, atomic } = HINT_KINDS;
    same(
      announced.filter(({ groups }) => groups[0]!.entries.length === 2).map(({ kinds }) => kinds),
      [
        prefetch | warmUp | atomic,
        prefetch | warmUp | atomic,
      ],
    );
    equal(counter(p, "b", "hintPagesUseful"), 2);
    ok(counter(p, "b", "hintLinesFetched") > before);
    ok(counter(p, "b", "hintWordsUseful") > 0);
  });

  describe("operands of atomics in the hint [0086]", () => {
    const PATIENT: Follow = { follow: "delay", delayPs: 2_500 * NS, operands: true };
    /** A FETCH & ADD of 1 to a word of 5, and a COMPARE & SWAP of 6 for 9 behind it. */
    const play = (b: Bench) =>
      outcome(
        b,
        () => {
          add(b);
          const atomic = { swapAdd: 9n, compare: 6n };
          post(b, "compare-swap", { at: AT, length: 8, atomic, sges: [sge(b, OTHER_ANSWER)] });
          ring(b);
        },
        () => {},
        0,
      );
    const entriesOf = (b: Bench) =>
      packets(b, "a").map(hintOf).filter((message) => message?.type === "announce")
        .flatMap((message) => message!.groups.flatMap(({ entries }) => entries));
    const counts = (b: Bench) =>
      ["hintOperandsSame", "hintOperandsOther"].map((name) => counter(b, "b", name));

    it("H-03 [0086]: go with their atomics, and are those of the requests", () => {
      const b = bench(PATIENT);
      equal(play(b), "5 6 -> 9");
      same(entriesOf(b).map(({ operation, operands }) => [operation, operands]), [
        ["fetch-add", { swapAdd: 1n, compare: 0n }],
        ["compare-swap", { swapAdd: 9n, compare: 6n }],
      ]);
      same(counts(b), [2, 0]);
      const without = bench({ ...PATIENT, operands: false });
      equal(play(without), "5 6 -> 9");
      ok(entriesOf(without).every((entry) => !("operands" in entry)), "unless asked for");
      equal("hintOperandsSame" in without.rig.b.rnic.statistics(), false);
    });

    it("H-24 [0086]: that lie change no result: the request's own decide", () => {
      for (
        const [swapAdd, compare] of [[2n, 0n], [9n, 5n], [7n, 6n], [2n ** 64n - 1n, 6n]] as const
      ) {
        const b = bench(PATIENT);
        b.rig.fate = (_, { bytes }) => {
          const packet = packetOf(bytes), message = hintOf(packet);
          if (message?.type !== "announce") return "pass";
          const groups = message.groups.map(({ entries, ...ends }) => ({
            ...ends,
            entries: entries.map((entry) => ({ ...entry, operands: { swapAdd, compare } })),
          }));
          return { replaceBy: encodePacket(changed(packet, hintParts({ ...message, groups }))) };
        };
        equal(play(b), "5 6 -> 9");
        same(counts(b), [0, 2]);
        equal(counter(b, "b", "hintWordsUseful"), 2, "the word is read ahead all the same");
      }
    });

    it("H-24 [0086]: of one word no more are kept than a few, however often they come", () => {
      const hints = createHints({ ...HINT_PLAN, operands: true })!;
      const kept: Pick<Word, "announced"> = { announced: [] };
      const qp = {} as QueuePair;
      for (let psn = 0; psn < 1000; psn++) {
        announceOperands(hints, kept, { qp, psn, operands: { swapAdd: 1n, compare: 0n } });
      }
      equal(kept.announced.length, 64);
    });
  });

  it("H-24: a word that a late copy of a hint has had read changes nothing, and is given up in time", () => {
    const b = bench({ follow: "delay", delayPs: US });
    b.rig.fate = (_, { bytes }) =>
      hintOf(packetOf(bytes))?.type === "announce" ? { againPs: 100 * US } : "pass";
    equal(outcome(b, () => (add(b), ring(b)), () => {}, 0), "5 0 -> 6");
    same([counter(b, "b", "hintWordsRead"), counter(b, "b", "hintWordsWasted")], [2, 0]);
    b.rig.fate = () => "pass";
    // Too old: it counts no more, and goes with the next hint, though it is for another word.
    b.rig.runFor(HINT_PLAN.quotaPs);
    fetchAdd(b, AT + 512, 1n);
    go(b);
    same(statuses(b), ["SUCCESS"]);
    equal(counter(b, "b", "hintWordsWasted"), 1);
    // The atomic of another queue pair, and then of its own, finds what a core has left meanwhile.
    equal(outcome(b, () => (add(b), ring(b)), () => {}, 0), "5 0 -> 6");
  });
});
