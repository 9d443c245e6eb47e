import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { Frame } from "../node.ts";
import type { LinkFaultPlan } from "../rack/plan/link_plan.ts";
import { makeBth } from "../wire/roce/packet_testing.ts";
import { decodePacket, encodePacket, isRefusal, type RocePacket } from "../wire/roce/packet.ts";
import { OPCODE } from "../wire/roce/opcode.ts";
import {
  addLinkFault,
  beginLife,
  createDirectionFaults,
  decideFate,
  type DirectionFaults,
  faultCounts,
} from "./fault.ts";
import { seeded } from "../base/property_testing.ts";

const LOSS: LinkFaultPlan = { id: 0, action: "loss", cable: 0, direction: "both", at: 0 };

function direction(...faults: readonly Partial<LinkFaultPlan>[]): DirectionFaults {
  const made = createDirectionFaults({ seed: 7, name: "a-rnic->tor" });
  faults.forEach((fault, id) => addLinkFault(made, { ...LOSS, id, ...fault }, 0));
  return made;
}

/** As much of a RoCEv2 frame as is looked at. */
function packet(opcode: number, length = 60): Frame {
  const bytes = new Uint8Array(length);
  bytes.set([8, 0, 0x45], 12);
  bytes[23] = 17;
  bytes.set([0x12, 0xb7], 36);
  bytes[42] = opcode;
  return { kind: "frame", bytes };
}

/** A whole packet, but for its payload. */
const HEADERS = {
  destinationMac: 0x0200_0000_0002,
  sourceMac: 0x0200_0000_0001,
  sourceAddress: 0x0a00_0001,
  destinationAddress: 0x0a00_0002,
  dscp: 26,
  ecn: 2,
  ttl: 64,
  identification: 1,
  udpSourcePort: 0xc242,
  bth: makeBth({ opcode: OPCODE["RC RDMA WRITE MIDDLE"], destQpn: 2, psn: 3 }),
};

const ACK = packet(OPCODE["RC ACKNOWLEDGE"]);
const WRITE = packet(OPCODE["RC RDMA WRITE ONLY"]);

/** Which of `count` frames, sent a nanosecond apart, are lost. */
function lost(faults: DirectionFaults, count: number, frame = WRITE): number[] {
  return Array.from({ length: count }, (_, i) => i)
    .filter((i) => decideFate(faults, i * 1_000, frame).lost);
}

describe("decideFate", () => {
  it("takes the share it was given, the same frames each time", () => {
    const taken = lost(direction({ share: 0.1 }), 10_000);
    assert.ok(taken.length > 900 && taken.length < 1_100, String(taken.length));
    assert.deepEqual(lost(direction({ share: 0.1 }), 10_000), taken);
  });

  it("draws for each fault, direction and life from a stream of its own", () => {
    const first = lost(direction({ share: 0.1 }), 1_000);
    const second = lost(direction({ share: 0, action: "corrupt" }, { share: 0.1 }), 1_000);
    assert.notDeepEqual(first, second);
    const other = createDirectionFaults({ seed: 7, name: "tor->a-rnic" });
    addLinkFault(other, { ...LOSS, share: 0.1 }, 0);
    assert.notDeepEqual(lost(other, 1_000), first);
    const again = direction({ share: 0.1 });
    beginLife(again, 1);
    assert.notDeepEqual(lost(again, 1_000), first);
  });

  it("begins and ends at its times, the end not included", () => {
    assert.deepEqual(lost(direction({ at: 3_000, until: 6_000 }), 10), [3, 4, 5]);
  });

  it("takes the nth frame, and not more than were asked for", () => {
    assert.deepEqual(lost(direction({ nth: 5 }), 10), [4]);
    assert.deepEqual(lost(direction({ count: 3, at: 2_000 }), 10), [2, 3, 4]);
  });

  it("takes only packets of the opcodes it names", () => {
    const faults = direction({ only: "RC ACKNOWLEDGE" });
    assert.deepEqual(lost(faults, 2), []);
    assert.deepEqual(lost(faults, 2, ACK), [0, 1]);
    assert.deepEqual(lost(direction({ only: "RC RDMA WRITE" }), 1), [0]);
    assert.deepEqual(lost(direction({ only: "response" }), 1, ACK), [0]);
    assert.deepEqual(lost(direction({ only: "RC" }), 1, packet(0x81)), [], "a CNP is no RC packet");
    const notRdma: Frame = { kind: "frame", bytes: new Uint8Array(60) };
    assert.deepEqual(lost(direction({ only: "RC" }), 1, notRdma), []);
  });

  it("ends with the first heal after its beginning, in whichever order they are added", () => {
    const heal: Partial<LinkFaultPlan> = { action: "heal", at: 4_000 };
    assert.deepEqual(lost(direction({ at: 2_000 }, heal), 10), [2, 3]);
    assert.deepEqual(lost(direction(heal, { at: 2_000 }), 10), [2, 3]);
    assert.deepEqual(lost(direction(heal, { at: 7_000 }), 10), [7, 8, 9]);
  });

  it("turns over one bit of a copy, any of them", () => {
    const frame = packet(OPCODE["RC SEND ONLY"], 64);
    const before = Uint8Array.from(frame.bytes);
    const faults = direction({ action: "corrupt" });
    const seen = new Set<number>();
    for (let i = 0; i < 20_000; i++) {
      const known = { ...frame, packet: {} as RocePacket };
      const { bytes, packet, hash } = decideFate(faults, i, known).frame;
      assert.equal(packet ?? hash, undefined, "nothing is known of what came of it");
      const changed = [...bytes].flatMap((byte, at) => byte === before[at] ? [] : [at]);
      assert.equal(changed.length, 1);
      const flipped = bytes[changed[0]!]! ^ before[changed[0]!]!;
      assert.equal(flipped & (flipped - 1), 0);
      seen.add(8 * changed[0]! + Math.log2(flipped));
    }
    assert.equal(seen.size, 8 * 64);
    assert.deepEqual(frame.bytes, before, "a frame that was sent never changes");
  });

  it("V-08 (in part): of sealed damage turns over one bit of the payload, and no receiver notices", () => {
    const payload = Uint8Array.from({ length: 21 }, (_, i) => i);
    const bytes = encodePacket({ ...HEADERS, payload });
    const before = bytes.slice();
    const faults = direction({ action: "corrupt", sealed: true });
    const seen = new Set<number>();
    for (let i = 0; i < 5_000; i++) {
      const arrived = decodePacket(decideFate(faults, i, { kind: "frame", bytes }).frame.bytes);
      if (isRefusal(arrived)) assert.fail(arrived);
      const { payload: found, ...headers } = arrived;
      assert.deepEqual(headers.bth, { ...HEADERS.bth, padCount: 3 });
      const changed = [...found].flatMap((byte, at) => byte === payload[at] ? [] : [at]);
      assert.equal(changed.length, 1);
      const flipped = found[changed[0]!]! ^ payload[changed[0]!]!;
      assert.equal(flipped & (flipped - 1), 0);
      seen.add(8 * changed[0]! + Math.log2(flipped));
    }
    assert.equal(seen.size, 8 * payload.length);
    assert.deepEqual(bytes, before, "a frame that was sent never changes");
  });

  it("V-08 (in part): sealed damage is of what has a payload: other frames do not count", () => {
    const faults = direction({ action: "corrupt", sealed: true, nth: 2 });
    const full: Frame = {
      kind: "frame",
      bytes: encodePacket({ ...HEADERS, payload: new Uint8Array(8) }),
    };
    const frames = [ACK, full, ACK, full, full];
    const hit = frames.map((frame, i) => decideFate(faults, i, frame).frame !== frame);
    assert.deepEqual(hit, [false, false, false, true, false]);
    assert.deepEqual(faultCounts(faults).map(({ seen, hit }) => [seen, hit]), [[3, 1]]);
  });

  it("delays by its delay and up to its jitter more", () => {
    const faults = direction({ action: "delay", delayPs: 5_000, jitterPs: 1_000 });
    const delays = Array.from({ length: 500 }, (_, i) => decideFate(faults, i, ACK).delayPs);
    assert.ok(Math.min(...delays) >= 5_000 && Math.max(...delays) <= 6_000);
    assert.ok(new Set(delays).size > 100);
  });

  it("applies several faults, and counts each by itself", () => {
    const faults = direction({ action: "duplicate" }, { action: "delay", delayPs: 9 }, { nth: 2 });
    assert.deepEqual({ ...decideFate(faults, 0, ACK) }, {
      lost: false,
      frame: ACK,
      doubled: true,
      delayPs: 9,
      bitsPerSecond: Infinity,
      overtakenBy: 0,
      holdPs: 0,
      struck: faults.active.slice(0, 2).map(({ plan }) => plan),
    });
    const fate = decideFate(faults, 1, ACK);
    assert.equal(fate.lost, true);
    assert.deepEqual(fate.struck.map(({ id }) => id), [0, 1, 2]);
    assert.deepEqual(faultCounts(faults).map(({ seen, hit }) => [seen, hit]), [[2, 2], [2, 2], [
      2,
      1,
    ]]);
  });

  it("never makes a frame earlier and never fails, whatever is asked of it", () => {
    const anyFault = fc.record({
      action: fc.constantFrom(...["loss", "corrupt", "duplicate", "reorder", "delay"] as const),
      at: fc.nat(100),
      until: fc.integer({ min: 101, max: 300 }),
      share: fc.double({ min: 0.01, max: 1, noNaN: true }),
      delayPs: fc.nat(1_000),
      jitterPs: fc.nat(1_000),
      holdPs: fc.integer({ min: 1, max: 1_000 }),
    });
    fc.assert(
      fc.property(
        fc.array(anyFault, { maxLength: 5 }),
        fc.array(fc.uint8Array({ maxLength: 80 })),
        (faults, frames) => {
          const faulty = direction(...faults);
          for (const [i, bytes] of frames.entries()) {
            const frame: Frame = { kind: "frame", bytes: Uint8Array.from(bytes) };
            const fate = decideFate(faulty, 10 * i, frame);
            assert.ok(fate.delayPs >= 0 && fate.holdPs >= 0);
            assert.equal(fate.frame.bytes.length, bytes.length);
          }
        },
      ),
      seeded(),
    );
  });
});
