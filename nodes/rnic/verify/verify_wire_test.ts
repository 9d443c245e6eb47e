/**
 * Verified writes between two RNICs over a bad wire (V-01, V-08): any frame of requests, acknowledgements
 * and answers is lost, doubled, late or damaged, and each write is still carried out once and answered.
 */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import { encodePacket } from "../../../fabric/wire/roce/packet.ts";
import {
  readsBack,
  VERIFY_BYTES_MAX,
  VERIFY_LEVELS,
  type VerifyLevel,
} from "../../../fabric/wire/roce/verify_eth.ts";
import { counter, go, packetOf, type Pair, post, statuses } from "../testing/pair_testing.ts";
import type { FrameFate, RigOptions } from "../testing/rig_parts_testing.ts";
import {
  isCopied,
  isUntouched,
  outcomes,
  postVerified,
  textOf,
  verifiedPair,
  writeVerified,
} from "../testing/verify_testing.ts";

const MTU = 256;
const ATTRIBUTES = { pathMtu: MTU } as const;
/** Where each piece of the program writes, and how long it is. */
const LONG = { at: 1000, length: 3 * MTU + 7 }, SHORT = { at: 4000, length: 100 };
const READ = { at: 6000, length: 600 };

/** Five pieces of work with all kinds of answers, two verified writes among them. */
function program(p: Pair, level: VerifyLevel): void {
  post(p, "write", { at: 0, length: 16 });
  postVerified(p, { level, ...LONG });
  postVerified(p, { level, ...SHORT });
  post(p, "read", READ);
  post(p, "write", { at: 16, length: 8, fence: true });
}

/** Plays the program; `fates` by a frame's place among all frames of both sides. */
function play(level: VerifyLevel, fates: ReadonlyMap<number, FrameFate>): Pair {
  let position = 0;
  const fate: RigOptions["fate"] = () => fates.get(position++) ?? "pass";
  const p = verifiedPair({ fate, memoryBytes: 1 << 18 }, { attributes: ATTRIBUTES });
  program(p, level);
  go(p);
  return p;
}

/** Each piece has succeeded, and each write was carried out once. */
function checkEnd(p: Pair, level: VerifyLevel): void {
  same(statuses(p), Array(5).fill("SUCCESS"));
  for (const place of [{ at: 0, length: 24 }, LONG, SHORT]) ok(isCopied(p, place));
  ok(isUntouched(p, { at: 24, length: 900 }));
  equal(counter(p, "b", "verifyWritesIn"), 2);
  equal(counter(p, "b", "verifyCrcFailures"), 0);
  equal(counter(p, "b", "verifyReadBacks"), readsBack(level) ? 2 : 0);
}

const FATES: Readonly<Record<string, FrameFate>> = {
  "lost": "drop",
  "doubled": "twice",
  "doubled later": { againPs: 3_000_000 },
  "doubled long after": { againPs: 40_000_000 },
  "overtaken": { delayPs: 1_500_000 },
  "late": { delayPs: 20_000_000 },
  "damaged": { flipBit: 8 * 57 + 3 },
};

describe("verified writes with one fault at each position", () => {
  for (const level of VERIFY_LEVELS) {
    it(`V-01, V-08: level ${level}, end as without it`, () => {
      const reference = play(level, new Map());
      checkEnd(reference, level);
      const frames = reference.rig.frames.length;
      for (const [what, fate] of Object.entries(FATES)) {
        for (let at = 0; at < frames; at++) {
          try {
            checkEnd(play(level, new Map([[at, fate]])), level);
          } catch (cause) {
            throw new Error(`frame ${at} ${what}: ${String(cause)}`, { cause });
          }
        }
      }
    });
  }
});

describe("verified writes with two faults", () => {
  it("V-01, V-08: at each pair of positions, end as without them", () => {
    const { frames } = play("verify-crc", new Map()).rig;
    for (let first = 0; first < frames.length; first++) {
      // What is sent again can be lost too.
      for (let second = first + 1; second < frames.length + 6; second++) {
        const fates = new Map<number, FrameFate>([[first, "drop"], [second, "drop"]]);
        try {
          checkEnd(play("verify-crc", fates), "verify-crc");
        } catch (cause) {
          throw new Error(`frames ${first} and ${second}: ${String(cause)}`, { cause });
        }
      }
    }
  });
});

/** A wire that loses, doubles and delays frames of both sides. */
function badWire(seed: number): NonNullable<RigOptions["fate"]> {
  const rng = rngFor(seed, "bad-wire");
  const oneIn = 2 + rng.below(12);
  return () => {
    if (rng.below(oneIn) > 0) return "pass";
    const kinds: FrameFate[] = ["drop", "drop", "twice", { delayPs: 1 + rng.below(9_000_000) }];
    return kinds[rng.below(kinds.length)]!;
  };
}

/** @returns how many of six writes arrived before retries were used up. */
function playSeed(seed: number): number {
  const rng = rngFor(seed, "verified-writes");
  const attributes = { ...ATTRIBUTES, maxRdAtomic: 1 + rng.below(4), retryCnt: 1 };
  const p = verifiedPair({ fate: badWire(seed) }, { attributes });
  const writes = Array.from({ length: 6 }, (_, i) => ({
    at: 4096 * i,
    length: rng.below(4096),
    level: VERIFY_LEVELS[rng.below(4)]!,
  }));
  for (const write of writes) {
    postVerified(p, write);
    if (rng.below(3) === 0) p.rig.ring(p.rig.a, p.a.sq);
  }
  go(p);
  const ends = outcomes(p).map(({ completion }) => completion);
  const good = ends.filter((end) => end === "SUCCESS").length;
  equal(ends.length, writes.length);
  const failed = ends.slice(good);
  same(failed, failed.map((_, i) => i === 0 ? "RETRY_EXC_ERR" : "WR_FLUSH_ERR"));
  // What was told to be written is; none was written twice.
  for (const write of writes.slice(0, good)) ok(isCopied(p, write));
  const executed = counter(p, "b", "verifyWritesIn");
  ok(executed >= good && executed <= writes.length, `${executed} executed`);
  return good;
}

describe("verified writes with seeded faults", () => {
  for (let block = 0; block < 4; block++) {
    it(`V-01, V-08: of any length and level arrive once, or end in an error (block ${block})`, () => {
      let arrived = 0;
      for (let seed = 50 * block; seed < 50 * block + 50; seed++) {
        try {
          arrived += playSeed(seed);
        } catch (cause) {
          throw new Error(`seed ${seed}: ${String(cause)}`, { cause });
        }
      }
      // Most do, and some do not: both ends are seen.
      ok(arrived > 100 && arrived < 300, `${arrived} of 300 arrived`);
    });
  }
});

describe("a verified write of the greatest length", () => {
  it("V-01: arrives once at the smallest MTU though a third of its peer's frames is lost", () => {
    const rng = rngFor(3, "lost-acks");
    const fate: RigOptions["fate"] = (from) =>
      (from === "b" && rng.below(3) === 0) || rng.below(700) === 0 ? "drop" : "pass";
    const p = verifiedPair({ memoryBytes: 1 << 23, fate }, { attributes: ATTRIBUTES });
    const [from, to] = [p.rig.a, p.rig.b].map((side) =>
      p.rig.register(side, { length: VERIFY_BYTES_MAX, va: 0x2_0000_0000 })
    );
    p.rig.fill(p.rig.a, from!, (i) => i ^ (i >> 7));
    const long: Pair = { ...p, from: from!, to: to! };
    const ends = writeVerified(long, { level: "verify-crc", length: VERIFY_BYTES_MAX });
    same(ends.map(textOf), ["SUCCESS written: crc-before crc-after"]);
    ok(isCopied(long, { length: VERIFY_BYTES_MAX }));
    equal(counter(p, "b", "verifyWritesIn"), 1);
    ok(counter(p, "a", "retransmissions") > 0);
  });
});

/** One bit of the payload of request `nth` is turned over, and the ICRC is made to fit. */
function damaging(nth: number): NonNullable<RigOptions["fate"]> {
  let seen = 0;
  return (from, frame) => {
    if (from !== "a") return "pass";
    const packet = packetOf(frame.bytes);
    if (packet.payload.length === 0 || seen++ !== nth) return "pass";
    const payload = packet.payload.slice();
    payload[seen % payload.length]! ^= 4;
    return { replaceBy: encodePacket({ ...packet, payload }) };
  };
}

const USES_CRC: readonly string[] = ["check", "verify", "verify-crc", "crc-after"];

describe("data that is damaged behind the link's and the packet's own checks", () => {
  for (const level of VERIFY_LEVELS) {
    it(`V-02, V-08: level ${level}: is ${USES_CRC.includes(level) ? "" : "not "}found in any packet`, () => {
      for (const length of [40, MTU, 3 * MTU + 7]) {
        for (let nth = 0; nth < Math.ceil(length / MTU); nth++) {
          const p = verifiedPair({ fate: damaging(nth) }, { attributes: ATTRIBUTES });
          const [end] = writeVerified(p, { level, length });
          if (!USES_CRC.includes(level)) {
            // The buffer that memory is compared with has the damage, too.
            equal(textOf(end!), `SUCCESS written:${level === "none" ? "" : " compared"}`);
            equal(isCopied(p, { length }), false);
            continue;
          }
          const isUnwritten = level !== "crc-after";
          const found = isUnwritten ? "crc-mismatch: crc-before" : "read-back-differs: crc-after";
          equal(textOf(end!), `VERIFY_ERR ${found}`);
          equal(isUntouched(p, { length }), isUnwritten);
          // Nothing is wrong with the connection: the program writes again.
          const [again] = writeVerified(p, { level, length });
          equal(again!.completion, "SUCCESS");
          ok(isCopied(p, { length }));
        }
      }
    });
  }

  it("V-02: on the way to the sender's own card shows where the program has brought the CRC", () => {
    for (const isBrought of [false, true]) {
      for (const level of VERIFY_LEVELS) {
        const p = verifiedPair({}, { attributes: ATTRIBUTES });
        const length = 600;
        const crc = crc32(p.rig.bytes(p.rig.a, p.from, 0, length));
        // What the card fetches is not what the program had when it computed the CRC.
        p.rig.a.host.memory[p.from.address + 300]! ^= 32;
        const [end] = writeVerified(p, { level, length, ...(isBrought && { crc }) });
        const isFound = isBrought && USES_CRC.includes(level);
        equal(end!.completion, isFound ? "VERIFY_ERR" : "SUCCESS");
        equal(isUntouched(p, { length }), isFound && level !== "crc-after");
      }
    }
  });
});
