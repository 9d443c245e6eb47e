/** What a verified write sends (V-02, V-04, V-06, V-09): its packets, what it asks for, its CRC. */
import { deepStrictEqual as same, ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NAK_SYNDROMES } from "../../../fabric/wire/roce/aeth.ts";
import { crc32 } from "../../../fabric/wire/roce/icrc.ts";
import type { RocePacket } from "../../../fabric/wire/roce/packet.ts";
import { makeVerifyEth, VERIFY_LEVELS } from "../../../fabric/wire/roce/verify_eth.ts";
import { counter, type Pair } from "../testing/pair_testing.ts";
import {
  alone,
  CHECKED,
  frames,
  moreSent,
  MTU,
  postVerified,
  respond,
  shapes,
  untilSent,
} from "../testing/verify_requester_testing.ts";

/** Bytes of each kind of message: empty, ONLY, FIRST and LAST, several that share a DMA read, many. */
const SIZES = [0, 1, MTU - 1, MTU, MTU + 1, 3 * MTU, 16 * MTU, 16 * MTU + 1, 20_000];

function dataOf(p: Pair, length: number, at = 0): Uint8Array {
  return p.rig.bytes(p.rig.a, p.from, at, length);
}

function last(sent: readonly RocePacket[]): RocePacket {
  return sent[sent.length - 1]!;
}

function joined(sent: readonly RocePacket[]): Uint8Array {
  return new Uint8Array(sent.flatMap(({ payload }) => [...payload]));
}

describe("a verified write's request", () => {
  for (const level of VERIFY_LEVELS) {
    it(`V-02, V-04, V-06: at level ${level}, asks in FIRST and ends with the data's CRC`, () => {
      for (const length of SIZES) {
        const p = alone({ pathMtu: MTU });
        const count = Math.max(1, Math.ceil(length / MTU));
        postVerified(p, { level, persist: false, length, at: 64 });
        const sent = untilSent(p, count);
        const middle = Array.from(
          { length: Math.max(0, count - 2) },
          (_, i) => `VERIFY MIDDLE ${i + 1}`,
        );
        same(
          shapes(sent),
          count === 1 ? ["VERIFY ONLY 0"] : [
            "VERIFY FIRST 0",
            ...middle,
            `VERIFY LAST ${count - 1}`,
          ],
        );
        same(sent[0]!.verifyEth, makeVerifyEth({ level, persist: false }));
        same(sent[0]!.reth, { va: BigInt(p.to.va + 64), rkey: p.to.key, length });
        const data = dataOf(p, length, 64);
        same(joined(sent), data);
        same(last(sent).digestEth, { crc: level === "none" ? 0 : crc32(data) });
        equal(last(sent).bth.ackReq, true);
        equal(counter(p, "a", "verifyWriteFramesOut"), count);
      }
    });
  }

  it("V-09: says that it is to be persisted as well", () => {
    const p = alone();
    postVerified(p, { level: "check", persist: true, length: 8 });
    const [only] = untilSent(p, 1);
    same(only!.verifyEth, makeVerifyEth({ level: "check", persist: true }));
  });

  it("V-02: brings the program's own CRC where it has one, whatever was fetched", () => {
    for (const level of VERIFY_LEVELS) {
      const p = alone({ pathMtu: MTU });
      postVerified(p, { level, persist: false, crc: 0x1234_5678, length: 3 * MTU });
      same(last(untilSent(p, 3)).digestEth, { crc: 0x1234_5678 });
    }
  });

  it("V-02: takes data of several elements, and of the WQE itself, in its order", () => {
    const p = alone({ pathMtu: MTU });
    const sges = [[900, 300], [17, 1], [4000, 700]].map(([at, length]) => (
      { address: p.from.va + at!, length: length!, lkey: p.from.key }
    ));
    postVerified(p, { ...CHECKED, sges });
    const sent = untilSent(p, 4);
    const data = new Uint8Array([
      ...dataOf(p, 300, 900),
      ...dataOf(p, 1, 17),
      ...dataOf(p, 700, 4000),
    ]);
    same(joined(sent), data);
    same(last(sent).digestEth, { crc: crc32(data) });
    const inline = Uint8Array.from({ length: 200 }, (_, i) => 3 * i);
    postVerified(p, { ...CHECKED, inline });
    same(last(untilSent(p, 5)).digestEth, { crc: crc32(inline) });
  });

  it("V-02: keeps the CRC of what was sent first, so that damage on the way of a resent packet shows", () => {
    const p = alone({ pathMtu: MTU });
    postVerified(p, { ...CHECKED, length: 4 * MTU });
    const sent = untilSent(p, 4);
    const crc = crc32(dataOf(p, 4 * MTU));
    p.rig.a.host.memory[p.from.address + MTU]! ^= 1;
    respond(p, "RC ACKNOWLEDGE", sent[1]!, { syndrome: NAK_SYNDROMES["psn-sequence-error"] });
    const again = moreSent(p, 7).slice(4);
    same(shapes([sent[0]!, ...again]).slice(1), [
      "VERIFY MIDDLE 1",
      "VERIFY MIDDLE 2",
      "VERIFY LAST 3",
    ]);
    same(last(again).digestEth, { crc });
    ok(again[0]!.payload[0] !== sent[1]!.payload[0]);
  });

  it("V-02: has a CRC over what goes on behind a break in the middle", () => {
    const p = alone({ pathMtu: MTU });
    const length = 100 * MTU;
    postVerified(p, { ...CHECKED, length });
    // Frames are in all stages: sent, fetched, being fetched.
    for (let i = 1; i < 60; i += 7) {
      const sent = untilSent(p, frames(p) + 5);
      respond(p, "RC ACKNOWLEDGE", sent[i]!, { syndrome: NAK_SYNDROMES["psn-sequence-error"] });
    }
    const digest = () => moreSent(p, 0).find(({ digestEth }) => digestEth !== undefined)?.digestEth;
    p.rig.run(() => digest() !== undefined);
    same(digest(), { crc: crc32(dataOf(p, length)) });
  });
});
