import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../base/property_testing.ts";
import { encodePacket } from "../wire/roce/packet.ts";
import { anyGrhPacket, anyPacket } from "../wire/roce/packet_testing.ts";
import { OPCODE } from "../wire/roce/opcode.ts";
import { peekBth } from "./bth_peek.ts";

describe("peekBth", () => {
  it("C-01 (in part): finds of any packet, in either version of RoCE, what decoding finds", () => {
    fc.assert(
      fc.property(fc.oneof(anyPacket, anyGrhPacket), (packet) => {
        const { bth: { opcode, destQpn, psn }, aeth } = packet;
        const isAck = opcode === OPCODE["RC ACKNOWLEDGE"];
        assert.deepEqual(peekBth(encodePacket(packet)), {
          source: packet.sourceAddress,
          destination: packet.destinationAddress,
          opcode,
          destQpn,
          psn,
          syndrome: isAck ? aeth!.syndrome : undefined,
        });
      }),
      seeded(),
    );
  });

  it("finds nothing in other bytes, and reads none that are not there", () => {
    const any = fc.uint8Array({ maxLength: 60 });
    fc.assert(
      fc.property(anyGrhPacket, fc.nat(80), any, (packet, cut, tail) => {
        const bytes = new Uint8Array([...encodePacket(packet).subarray(0, cut), ...tail]);
        const peek = peekBth(bytes);
        if (peek !== undefined) assert.ok(bytes.length >= 54);
      }),
      seeded(),
    );
    assert.equal(peekBth(new Uint8Array(100)), undefined);
  });
});
