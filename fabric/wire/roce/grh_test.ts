import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../base/property_testing.ts";
import { readFields } from "../../base/fields.ts";
import { rngFor } from "../../base/rng.ts";
import { viewOf } from "../../base/slab.ts";
import {
  frameBth,
  frameDscp,
  frameEcn,
  frameOpcode,
  framePayload,
  framePriority,
  sealFrame,
} from "./frame_peek.ts";
import { GRH_BYTES, GRH_FIELDS, VLAN_BYTES, VLAN_FIELDS } from "./grh.ts";
import { writeGrhIcrc } from "./icrc.ts";
import { mutate } from "./mutation_testing.ts";
import { macOfAddress, macOfGid } from "./neighbour.ts";
import { OPCODE, OPCODE_ROWS } from "./opcode.ts";
import {
  bthBehind,
  decodePacket,
  encodePacket,
  frameBytes,
  isRefusal,
  type RocePacket,
} from "./packet.ts";
import { anyGrhPacket, inGrh, makeBth } from "./packet_testing.ts";

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.replaceAll(" ", "").match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function decoded(bytes: Uint8Array<ArrayBuffer>): RocePacket {
  const answer = decodePacket(bytes);
  if (isRefusal(answer)) assert.fail(`refused: ${answer}`);
  return answer;
}

const ETHERNET = "020000000002 020000000001 8915";
/** Captured between two ports of real cards (vectors 2 and 3 of `icrc_test.ts`), behind our MACs. */
const CAPTURED_WRITE = fromHex(
  ETHERNET + "6020000000281b40 00000000000000000000ffff0f000002" +
    "00000000000000000000ffff0f000002 0a70ffff0000010a80a788bc" +
    "000055d4c0726000 000047b3 00000005 0000000001000000 e3d856bb",
);
const CAPTURED_ACK = fromHex(
  ETHERNET + "6020000000141b40 00000000000000000000ffff0f000002" +
    "00000000000000000000ffff0f000002 1140ffff0000010900a788c0 00000005 25f0c038",
);
const GROUP = 0xef01_0203;

const WRITE = inGrh({
  destinationMac: 0x0200_0000_0002,
  sourceMac: 0x0200_0000_0001,
  sourceAddress: 0x0f00_0002,
  destinationAddress: 0x0f00_0002,
  dscp: 0,
  ecn: 2,
  ttl: 64,
  identification: 0,
  udpSourcePort: 0,
  bth: makeBth({
    opcode: OPCODE["RC RDMA WRITE ONLY"],
    destQpn: 0x10a,
    psn: 0xa788bc,
    ackReq: true,
    padCount: 3,
  }),
  reth: { va: 0x55d4_c072_6000n, rkey: 0x47b3, length: 5 },
  payload: fromHex("0000000001"),
});

describe("encodePacket in RoCEv1", () => {
  it("C-01 (in part): makes the WRITE and the ACK that real cards sent, byte for byte", () => {
    assert.equal(encodePacket(WRITE).toHex(), CAPTURED_WRITE.toHex());
    assert.deepEqual(decoded(CAPTURED_WRITE), WRITE);
    assert.equal(encodePacket(decoded(CAPTURED_ACK)).toHex(), CAPTURED_ACK.toHex());
    assert.deepEqual(decoded(CAPTURED_ACK).aeth, { syndrome: 0, msn: 5 });
  });

  it("C-01 (in part): lays GRH and tag out as their tables say", () => {
    const packet = inGrh({ ...WRITE, dscp: 0x2a, ecn: 1, ttl: 9, destinationAddress: GROUP }, {
      flowLabel: 0xabcde,
      priority: 5,
    });
    const view = viewOf(encodePacket(packet));
    assert.deepEqual(readFields(VLAN_FIELDS, { view, at: 14 }), {
      priority: 5,
      dropEligible: false,
      vlan: 0,
      etherType: 0x8915,
    });
    assert.equal(view.getUint16(12), 0x8100);
    assert.deepEqual(readFields(GRH_FIELDS, { view, at: 18 }), {
      version: 6,
      trafficClass: 0xa9,
      flowLabel: 0xabcde,
      payloadLength: view.byteLength - 18 - GRH_BYTES,
      nextHeader: 0x1b,
      hopLimit: 9,
      sourceGid: 0xffff_0f00_0002n,
      destinationGid: (0xff0e_0000n << 96n) + 0xffff_0000_0000n + BigInt(GROUP),
    });
  });

  it("C-01 (in part): is 12 B longer than RoCEv2 for every opcode, 16 B with a tag", () => {
    for (const row of OPCODE_ROWS) {
      const v2 = frameBytes(row, 100), tag = { flowLabel: 0, priority: 0 };
      assert.equal(frameBytes(row, 100, bthBehind({ ...tag, priority: undefined })), v2 + 12);
      assert.equal(frameBytes(row, 100, bthBehind(tag)), v2 + 12 + VLAN_BYTES);
    }
  });
});

describe("decodePacket of RoCEv1", () => {
  it("C-01 (in part): gives back every packet that can be encoded", () => {
    fc.assert(
      fc.property(anyGrhPacket, (packet) => {
        const bytes = encodePacket(packet);
        assert.deepEqual(decoded(bytes), packet);
        const row = OPCODE_ROWS.find(({ code }) => code === packet.bth.opcode)!;
        const size = frameBytes(row, packet.payload.length, bthBehind(packet.grh!));
        assert.equal(bytes.length, size);
      }),
      seeded({ numRuns: 1000 }),
    );
  });

  it("C-01 (in part): A16: notices the flip of any bit that no switch or router may change", () => {
    for (const priority of [undefined, 3]) {
      const bytes = encodePacket(inGrh(WRITE, { priority }));
      const at = bthBehind({ flowLabel: 0, priority }) - GRH_BYTES;
      // MAC addresses and priority; traffic class, flow label, hop limit; FECN, BECN and six bits.
      const mayChange = (byte: number, bit: number) =>
        byte < 12 || (byte === 14 && priority !== undefined && bit > 4) ||
        (byte === at && bit < 4) || (byte > at && byte < at + 4) || byte === at + 7 ||
        byte === at + GRH_BYTES + 4;
      for (let i = 0; i < bytes.length * 8; i++) {
        const byte = i >> 3, bit = i & 7;
        bytes[byte]! ^= 1 << bit;
        const isTaken = !isRefusal(decodePacket(bytes));
        assert.equal(isTaken, mayChange(byte, bit), `byte ${byte}, bit ${bit}`);
        bytes[byte]! ^= 1 << bit;
      }
    }
  });

  it("names what is wrong with a frame", () => {
    const refusal = (at: number, value: number, priority?: number) => {
      const bytes = encodePacket(inGrh(WRITE, { priority }));
      bytes[at] = value;
      const from = priority === undefined ? 14 : 18;
      writeGrhIcrc(viewOf(bytes), { from, end: bytes.length - 4 });
      const answer = decodePacket(bytes);
      return isRefusal(answer) ? answer : "a packet";
    };
    assert.equal(refusal(13, 0x16), "not-roce");
    assert.equal(refusal(17, 0x16, 3), "not-roce");
    assert.equal(refusal(14, 0x70, 3), "bad-tag", "may be dropped first");
    assert.equal(refusal(15, 1, 3), "bad-tag", "VLAN 1");
    assert.equal(refusal(14, 0x40), "bad-grh", "version 4");
    assert.equal(refusal(20, 17), "bad-grh", "next header UDP");
    assert.equal(refusal(22, 0xfe), "bad-gid", "a link-local source");
    assert.equal(refusal(38, 0xff), "bad-gid", "half a group");
    assert.equal(refusal(19, 0x24), "bad-length");
    assert.equal(refusal(55, 0x71), "bad-tver");
    assert.equal(refusal(54, 0x15), "unknown-opcode");
    assert.equal(refusal(54, 0x11), "bad-length");
    assert.equal(refusal(CAPTURED_WRITE.length - 5, 1), "bad-padding");
    assert.equal(refusal(14, 0x6f), "a packet", "a traffic class");
  });

  it("refuses a frame cut short or with bytes behind it", () => {
    for (const frame of [CAPTURED_ACK, encodePacket(inGrh(WRITE, { priority: 7 }))]) {
      for (let length = 0; length < frame.length; length++) {
        assert.ok(isRefusal(decodePacket(frame.slice(0, length))), `${length} bytes`);
      }
      const longer = new Uint8Array(frame.length + 4);
      longer.set(frame);
      assert.equal(decodePacket(longer), "bad-length");
    }
  });

  it("never throws, and what it takes encodes to the same bytes", () => {
    const frames = [
      CAPTURED_WRITE,
      CAPTURED_ACK,
      encodePacket(inGrh(WRITE, { priority: 3, flowLabel: 0x12345 })),
      encodePacket(inGrh({ ...WRITE, destinationAddress: GROUP })),
    ];
    const rng = rngFor(1, "grh");
    let taken = 0;
    for (let i = 0; i < 20_000; i++) {
      const bytes = mutate(rng, frames);
      const answer = decodePacket(bytes);
      if (isRefusal(answer)) continue;
      taken++;
      assert.deepEqual(encodePacket(answer), bytes);
    }
    assert.ok(taken > 2000, `only ${taken} frames were taken: the test has lost its teeth`);
  });
});

describe("a switch's view of RoCEv1", () => {
  it("C-01 (in part): has the priority of the tag, and neither DSCP nor ECN", () => {
    const packet = { ...WRITE, dscp: 26 };
    for (const priority of [0, 3, 7]) {
      assert.equal(framePriority(encodePacket(inGrh(packet, { priority }))), priority);
    }
    const untagged = encodePacket(inGrh(packet));
    assert.deepEqual([framePriority(untagged), frameDscp(untagged), frameEcn(untagged)], [0, 0, 0]);
    const { grh: _, ...v2 } = packet;
    assert.equal(framePriority(encodePacket(v2)), 3, "of RoCEv2 by its DSCP");
  });

  it("V-08 (in part): finds opcode and payload, and seals what a fault has changed", () => {
    for (const priority of [undefined, 3]) {
      const bytes = encodePacket(inGrh(WRITE, { priority }));
      const bthAt = bthBehind({ flowLabel: 0, priority });
      assert.equal(frameBth(bytes), bthAt);
      assert.equal(frameOpcode(bytes), OPCODE["RC RDMA WRITE ONLY"]);
      const { from, to } = framePayload(bytes)!;
      assert.deepEqual(bytes.slice(from, to), WRITE.payload);
      bytes[from]! ^= 1;
      assert.equal(decodePacket(bytes), "bad-icrc");
      sealFrame(bytes);
      assert.equal(decoded(bytes).payload[0], 1);
    }
    assert.equal(framePayload(CAPTURED_ACK), undefined);
    const whole = encodePacket({ ...WRITE, payload: new Uint8Array(8) });
    for (let length = 0; length < whole.length; length++) {
      assert.equal(framePayload(whole.slice(0, length)), undefined, `${length} bytes`);
    }
  });
});

describe("macOfGid", () => {
  it("C-01 (in part): is 33:33 and 32 bits of a group, and a port's own address", () => {
    assert.equal(macOfGid(GROUP), 0x3333_ef01_0203);
    assert.equal(macOfGid(GROUP | 0), 0x3333_ef01_0203);
    assert.equal(macOfGid(0x0a00_0001), macOfAddress(0x0a00_0001));
  });
});
