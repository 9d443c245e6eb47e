import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { BTH_BYTES } from "./bth.ts";
import { makeBth } from "./packet_testing.ts";
import {
  frameDestination,
  frameDscp,
  frameEcn,
  frameOpcode,
  framePayload,
  frameSource,
  markCongestion,
  sealFrame,
} from "./frame_peek.ts";
import { OPCODE_ROWS } from "./opcode.ts";
import { decodePacket, encodePacket, isRefusal, type RocePacket } from "./packet.ts";
import { seeded } from "../../base/property_testing.ts";

/** Behind Ethernet, IPv4 and UDP. */
const OPCODE_AT = 42;

function frame(change: Partial<RocePacket> = {}): Uint8Array<ArrayBuffer> {
  return encodePacket({
    destinationMac: 0x0200_0000_0002,
    sourceMac: 0xfeff_ffff_ffff,
    sourceAddress: 0x0a00_0001,
    destinationAddress: 0x0a00_0002,
    dscp: 26,
    ecn: 2,
    ttl: 64,
    identification: 1,
    udpSourcePort: 0xc242,
    bth: makeBth({ opcode: 4, destQpn: 2, psn: 3 }),
    payload: new Uint8Array(20).fill(7),
    ...change,
  });
}

function packetOf(bytes: Uint8Array<ArrayBuffer>): RocePacket {
  const answer = decodePacket(bytes);
  if (isRefusal(answer)) assert.fail(`refused: ${answer}`);
  return answer;
}

describe("frameDestination", () => {
  it("gives the MAC addresses that decoding gives, as 48-bit numbers", () => {
    assert.equal(frameDestination(frame()), 0x0200_0000_0002);
    assert.equal(frameSource(frame()), 0xfeff_ffff_ffff);
  });

  it("gives a number for any bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
        for (const look of [frameDestination, frameSource, frameEcn, frameDscp]) {
          assert.ok(Number.isSafeInteger(look(bytes)));
        }
      }),
      seeded(),
    );
  });
});

describe("frameEcn", () => {
  it("§1.1: gives DSCP and ECN of an IPv4 frame, 0 of any other", () => {
    assert.equal(frameEcn(frame()), 2);
    assert.equal(frameDscp(frame()), 26);
    const other = frame();
    other[12] = 0x88;
    assert.equal(frameEcn(other), 0);
    assert.equal(frameDscp(other), 0);
  });
});

describe("markCongestion", () => {
  it("§1.5: says CE with the ICRC unchanged and a right IPv4 checksum", () => {
    const word = fc.nat(0xffff);
    fc.assert(
      fc.property(word, fc.nat(63), fc.constantFrom(1, 2, 3), (identification, dscp, ecn) => {
        const bytes = frame({ identification, dscp, ecn });
        const marked = markCongestion(bytes);
        assert.deepEqual(packetOf(marked), { ...packetOf(bytes), ecn: 3 });
        assert.deepEqual(marked.slice(-4), bytes.slice(-4));
        assert.deepEqual(encodePacket(packetOf(marked)), marked);
      }),
      seeded(),
    );
  });

  it("leaves the frame it was given as it was", () => {
    const bytes = frame();
    const before = bytes.slice();
    markCongestion(bytes);
    assert.deepEqual(bytes, before);
  });

  it("does not repair a header that arrived damaged", () => {
    const bytes = frame();
    bytes[22]! ^= 0x10;
    assert.deepEqual(decodePacket(markCongestion(bytes)), "bad-ip-checksum");
  });

  it("asserts that the frame is ECN-capable", () => {
    assert.throws(() => markCongestion(frame({ ecn: 0 })), /not ECN-capable/);
  });
});

describe("frameOpcode", () => {
  it("is the opcode of a RoCEv2 frame", () => {
    assert.equal(frameOpcode(frame()), 4);
    const middle = makeBth({ opcode: 1, destQpn: 2, psn: 3 });
    assert.equal(frameOpcode(frame({ bth: middle })), 1);
  });

  it("is none of what is no RoCEv2 frame, and takes any bytes", () => {
    for (const at of [12, 14, 23, 36, 37]) {
      const bytes = frame();
      bytes[at]! ^= 0x10;
      assert.equal(frameOpcode(bytes), -1, `byte ${at}`);
    }
    assert.equal(frameOpcode(frame().slice(0, 42)), -1);
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
        assert.ok(frameOpcode(bytes) >= -1);
      }),
      seeded(),
    );
  });
});

describe("framePayload", () => {
  it("V-08 (in part): is where the payload is, whatever headers and padding are around it", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...OPCODE_ROWS),
        fc.integer({ min: 1, max: 64 }),
        (row, bytes) => {
          const payload = new Uint8Array(bytes).fill(0xa5);
          const headers = new Uint8Array(OPCODE_AT + BTH_BYTES + row.headerBytes + bytes + 7);
          const pad = -bytes & 3;
          const end = OPCODE_AT + BTH_BYTES + row.headerBytes + bytes + pad + 4;
          const made = headers.subarray(0, end);
          made.set([8, 0, 0x45], 12);
          made.set([(end - 14) >> 8, (end - 14) & 0xff], 16);
          made[23] = 17;
          made.set([0x12, 0xb7], 36);
          made[OPCODE_AT] = row.code;
          made[OPCODE_AT + 1] = pad << 4;
          const from = OPCODE_AT + BTH_BYTES + row.headerBytes;
          made.set(payload, from);
          assert.deepEqual(framePayload(made), { from, to: from + bytes });
        },
      ),
      seeded(),
    );
  });

  it("V-08 (in part): is where decoding finds it", () => {
    const bytes = frame({ payload: Uint8Array.from({ length: 21 }, (_, i) => i + 1) });
    const { from, to } = framePayload(bytes)!;
    assert.deepEqual(bytes.slice(from, to), packetOf(bytes).payload);
  });

  it("V-08 (in part): is none of a packet without one, of other frames, and of any bytes cut short", () => {
    assert.equal(framePayload(frame({ payload: new Uint8Array(0) })), undefined);
    const other = frame();
    other[12] = 0x88;
    assert.equal(framePayload(other), undefined);
    const bytes = frame();
    for (let length = 0; length < bytes.length; length++) {
      assert.equal(framePayload(bytes.slice(0, length)), undefined, `${length} bytes`);
    }
  });
});

describe("sealFrame", () => {
  it("V-08 (in part): makes a damaged frame one that every receiver takes", () => {
    const bytes = frame();
    const { from } = framePayload(bytes)!;
    bytes[from]! ^= 1;
    assert.deepEqual(decodePacket(bytes), "bad-icrc");
    sealFrame(bytes);
    assert.equal(packetOf(bytes).payload[0], 6);
    assert.deepEqual(encodePacket(packetOf(bytes)), bytes);
  });
});
