import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { seeded } from "../../base/property_testing.ts";
import { hashMessage } from "../../partition/message_hash.ts";
import { headOf, lengthOf, PacketFrame } from "./frame.ts";
import { encodePacket } from "./packet.ts";
import { anyPacket } from "./packet_testing.ts";

describe("the frame of a packet", () => {
  it("is the packet encoded, once; its head and length are known without it", () => {
    fc.assert(
      fc.property(anyPacket, (packet) => {
        const frame = new PacketFrame(packet);
        const head = headOf(frame), length = lengthOf(frame);
        const bytes = encodePacket(packet);
        assert.equal(length, bytes.length);
        assert.deepEqual(frame.bytes, bytes);
        assert.deepEqual(head, bytes.subarray(0, head.length));
        assert.deepEqual(
          bytes.subarray(head.length).slice(0, packet.payload.length),
          packet.payload,
        );
        assert.equal(frame.bytes, frame.bytes);
      }),
      seeded(),
    );
  });

  it("has a hash of all that the packet says", () => {
    const hashOf = (packet: ConstructorParameters<typeof PacketFrame>[0]) =>
      hashMessage(new PacketFrame(packet));
    fc.assert(
      fc.property(anyPacket, fc.nat(), (packet, seed) => {
        const { bth, payload, ttl } = packet;
        const hash = hashOf(packet);
        assert.equal(hashOf({ ...packet }), hash);
        assert.notEqual(hashOf({ ...packet, ttl: ttl ^ 1 }), hash);
        assert.notEqual(hashOf({ ...packet, bth: { ...bth, psn: bth.psn ^ 1 } }), hash);
        if (payload.length === 0) return;
        const other = payload.slice();
        other[seed % other.length]! ^= 1;
        assert.notEqual(hashOf({ ...packet, payload: other }), hash);
      }),
      seeded(),
    );
  });
});

describe("any other frame", () => {
  it("is its own head, and its hash is of all its bytes", () => {
    const bytes = new Uint8Array(80), other = bytes.with(79, 1) as typeof bytes;
    const frame = { kind: "frame", bytes } as const;
    assert.equal(headOf(frame), bytes);
    assert.equal(lengthOf(frame), 80);
    assert.notEqual(hashMessage({ kind: "frame", bytes: other }), hashMessage(frame));
  });
});
