import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { makeBth } from "./bth.ts";
import {
  frameDestination,
  frameDscp,
  frameEcn,
  frameOpcode,
  frameSource,
  markCongestion,
} from "./frame_glance.ts";
import { decodePacket, encodePacket, isRefusal, type RocePacket } from "./packet.ts";

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
  if (isRefusal(answer)) assert.fail(`refused: ${answer.refused}`);
  return answer;
}

describe("frameDestination", () => {
  it("gives the MAC addresses that decoding gives, as 48-bit numbers", () => {
    assert.equal(frameDestination(frame()), 0x0200_0000_0002);
    assert.equal(frameSource(frame()), 0xfeff_ffff_ffff);
  });

  it("gives a number for any bytes", () => {
    fc.assert(fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      for (const look of [frameDestination, frameSource, frameEcn, frameDscp]) {
        assert.ok(Number.isSafeInteger(look(bytes)));
      }
    }));
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
    assert.deepEqual(decodePacket(markCongestion(bytes)), { refused: "bad-ip-checksum" });
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
    fc.assert(fc.property(fc.uint8Array({ maxLength: 60 }), (bytes) => {
      assert.ok(frameOpcode(bytes) >= -1);
    }));
  });
});
