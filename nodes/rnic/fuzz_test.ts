/**
 * Hostile frames at both ends of busy queue pairs of every service: random ones of any opcode, and real
 * ones of the same traffic with damage (`mutation_testing.ts`). Nothing crashes, nothing is written that
 * was not granted, every frame is counted under what became of it, and afterwards all works as before.
 * Here are few of each seed; the full run has more, in `tests/seeds/hostile_frames_test.ts`.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import {
  busy,
  checkHostileFrames,
  createWorld,
  HOSTILE_SEEDS,
  postReceives,
} from "./testing/hostile_frames_testing.ts";

const FRAMES = 4_000;

describe("hostile frames", () => {
  for (const seed of HOSTILE_SEEDS) {
    it(`crash no RNIC, change nothing that was not granted, are counted (seed ${seed})`, () => {
      checkHostileFrames(seed, FRAMES);
    });
  }

  for (const seed of [1, 2]) {
    it(`C-01 (in part): do no more to cards of RoCEv1 (seed ${seed})`, () => {
      checkHostileFrames(seed, FRAMES, "v1");
    });
  }
});

describe("a damaged frame", () => {
  /** Fields that a switch may change, or that no receiver looks at (`rocev2.md` §1.5). */
  function isUncovered(byte: number): boolean {
    const sourceMac = byte >= 6 && byte < 12;
    const trafficClassTtl = byte === 15 || byte === 22;
    const checksums = byte === 24 || byte === 25 || byte === 40 || byte === 41;
    return sourceMac || trafficClassTtl || checksums || byte === 46;
  }

  it("§7 #71: is no packet, whichever bit is turned over, of whichever operation", () => {
    const world = createWorld(7);
    const { rig, homes } = world;
    postReceives(world, 5);
    rig.frames.length = 0;
    busy(world);
    rig.run();
    const operations = new Set<number>();
    for (const { from, bytes } of [...rig.frames]) {
      const packet = decodePacket(bytes);
      assert.ok(!isRefusal(packet));
      if (operations.has(packet.bth.opcode)) continue;
      operations.add(packet.bth.opcode);
      const to = from === "a" ? homes[1] : homes[0];
      const end = 14 + ((bytes[16]! << 8) | bytes[17]!);
      for (let bit = 0; bit < 8 * end; bit++) {
        if (isUncovered(bit >> 3)) continue;
        const damaged = bytes.slice();
        damaged[bit >> 3]! ^= 0x80 >> (bit & 7);
        const answer = decodePacket(damaged);
        // The destination's address on the segment is Ethernet's own.
        const isForeign = !isRefusal(answer) && answer.destinationMac !== to.side.plan.mac;
        assert.ok(isRefusal(answer) || isForeign, `bit ${bit} of opcode ${packet.bth.opcode}`);
      }
    }
    assert.ok(operations.size >= 15, "there were frames of many kinds");
  });
});
