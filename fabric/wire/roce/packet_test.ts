import type { Extensions } from "./extension_headers.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { type Rng, rngFor } from "../../base/rng.ts";
import { makeBth } from "./packet_testing.ts";
import { writeIcrc } from "./icrc.ts";
import { ipv4Checksum } from "./ipv4.ts";
import { OPCODE, OPCODE_ROWS } from "./opcode.ts";
import {
  decodePacket,
  encodePacket,
  frameBytes,
  headOf,
  isRefusal,
  lengthOf,
  PacketFrame,
  type RocePacket,
} from "./packet.ts";
import { anyPacket } from "./packet_testing.ts";
import { PERSIST_ETH } from "./persist_eth.ts";
import { VENDOR_EXTENSIONS } from "./vendor_testing.ts";
import { seeded } from "../../base/property_testing.ts";
import { hashMessage } from "../../partition/message_hash.ts";

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

function decoded(bytes: Uint8Array<ArrayBuffer>): RocePacket {
  const answer = decodePacket(bytes);
  if (isRefusal(answer)) assert.fail(`refused: ${answer}`);
  return answer;
}

const PAYLOAD = new TextEncoder().encode("hello, rocev2");
/** From 10.0.0.1 to 10.0.0.2, as in the frames of §1.6. */
const THERE = {
  destinationMac: 0x0200_0000_0002,
  sourceMac: 0x0200_0000_0001,
  sourceAddress: 0x0a00_0001,
  destinationAddress: 0x0a00_0002,
  dscp: 0,
  ecn: 2,
  ttl: 64,
  udpSourcePort: 0xc242,
} as const;
const BACK = {
  ...THERE,
  destinationMac: THERE.sourceMac,
  sourceMac: THERE.destinationMac,
  sourceAddress: THERE.destinationAddress,
  destinationAddress: THERE.sourceAddress,
} as const;
const RETH = { va: 0x7f00_1234_5000n, rkey: 0x12a5c, length: 13 } as const;
const EMPTY = new Uint8Array();

const WRITE_ONLY: RocePacket = {
  ...THERE,
  identification: 1,
  bth: makeBth({
    opcode: OPCODE["RC RDMA WRITE ONLY"],
    destQpn: 0x22,
    psn: 0xfffffe,
    ackReq: true,
    padCount: 3,
  }),
  reth: RETH,
  payload: PAYLOAD,
};

/** The complete frames of §1.6 and what they say. */
const KNOWN: ReadonlyArray<readonly [name: string, hex: string, packet: RocePacket]> = [
  [
    "WRITE ONLY",
    "02000000000202000000000108004502004c000140004011269c0a0000010a000002c24212b700380000" +
    "0a70ffff0000002280fffffe00007f001234500000012a5c0000000d" +
    "68656c6c6f2c20726f63657632000000a0caff1f",
    WRITE_ONLY,
  ],
  [
    "ACK",
    "02000000000102000000000208004502003000024000401126b70a0000020a000001c24212b7001c0000" +
    "1140ffff0000001100fffffe1f00000191b4c347",
    {
      ...BACK,
      identification: 2,
      bth: makeBth({ opcode: OPCODE["RC ACKNOWLEDGE"], destQpn: 0x11, psn: 0xfffffe }),
      aeth: { syndrome: 0x1f, msn: 1 },
      payload: EMPTY,
    },
  ],
  [
    "READ REQUEST",
    "02000000000202000000000108004502003c00034000401126aa0a0000010a000002c24212b700280000" +
    "0c40ffff0000002280ffffff00007f001234500000012a5c0000000d87e9089a",
    {
      ...THERE,
      identification: 3,
      bth: makeBth({
        opcode: OPCODE["RC RDMA READ REQUEST"],
        destQpn: 0x22,
        psn: 0xffffff,
        ackReq: true,
      }),
      reth: RETH,
      payload: EMPTY,
    },
  ],
  [
    "READ RESPONSE ONLY",
    "02000000000102000000000208004502004000044000401126a50a0000020a000001c24212b7002c0000" +
    "1070ffff0000001100ffffff1f00000268656c6c6f2c20726f636576320000008e96d4a1",
    {
      ...BACK,
      identification: 4,
      bth: makeBth({
        opcode: OPCODE["RC RDMA READ RESPONSE ONLY"],
        destQpn: 0x11,
        psn: 0xffffff,
        padCount: 3,
      }),
      aeth: { syndrome: 0x1f, msn: 2 },
      payload: PAYLOAD,
    },
  ],
];

/** More of §1.6: BTH to ICRC behind the usual outer headers, and one thing that each must say. */
const DEMO: ReadonlyArray<readonly [id: number, back: boolean, hex: string, part: Extensions]> = [
  [10, true, "1140ffff00000011000000032c00000369a0de94", { aeth: { syndrome: 0x2c, msn: 3 } }],
  [
    13,
    false,
    "1440ffff000000228000000400007f001234500000012a5c0000000000000005000000000000000020" +
    "1394d9",
    { atomicEth: { va: RETH.va, rkey: RETH.rkey, swapAdd: 5n, compare: 0n } },
  ],
  [
    14,
    true,
    "1240ffff00000011000000041f0000050000000000000025efc03660",
    { atomicAckEth: { original: 37n } },
  ],
  [
    15,
    false,
    "1340ffff000000228000000500007f001234500000012a5c0000000000000063000000000000002a" +
    "13dd0a15",
    { atomicEth: { va: RETH.va, rkey: RETH.rkey, swapAdd: 99n, compare: 42n } },
  ],
  [22, true, "1140ffff0000001100000009600000072c4bf9c3", { aeth: { syndrome: 0x60, msn: 7 } }],
  [
    28,
    false,
    "1c40ffff000000228000000c0000000200007f001234500000012a5c000002583cbab6b0",
    { feth: { reserved: 0, select: 0, placement: 2 }, reth: { ...RETH, length: 600 } },
  ],
  [
    30,
    false,
    "1c40ffff000000228000000d00000011000000000000000000012a5c0000000039ec5905",
    { feth: { reserved: 0, select: 1, placement: 1 } },
  ],
  [
    32,
    false,
    "1d40ffff000000228000000e00007f001234500000012a5c000000083820627974657321f81b25ae",
    { reth: { ...RETH, length: 8 } },
  ],
];

describe("encodePacket", () => {
  for (const [name, hex, packet] of KNOWN) {
    it(`§1.6: makes the frame ${name}, byte for byte`, () => {
      assert.equal(encodePacket(packet).toHex(), hex);
    });
  }

  it("P-21 (in part): makes WRITE PERSISTENCE ONLY with its word between RETH and payload", () => {
    const bth = { ...WRITE_ONLY.bth, opcode: OPCODE["VENDOR WRITE PERSISTENCE ONLY"] };
    const bytes = encodePacket({ ...WRITE_ONLY, bth, persistEth: PERSIST_ETH });
    assert.equal(
      bytes.subarray(42, -4).toHex(),
      "ca70ffff0000002280fffffe00007f001234500000012a5c0000000d00000001" +
        "68656c6c6f2c20726f63657632000000",
    );
  });

  it("V-04 (in part), V-09 (in part): makes WRITE VERIFY ONLY with its word and CRC between RETH and payload", () => {
    const bth = { ...WRITE_ONLY.bth, opcode: OPCODE["VENDOR WRITE VERIFY ONLY"] };
    const { verifyEth, digestEth } = VENDOR_EXTENSIONS;
    const bytes = encodePacket({ ...WRITE_ONLY, bth, verifyEth, digestEth });
    assert.equal(
      bytes.subarray(42).toHex(),
      "cf70ffff0000002280fffffe00007f001234500000012a5c0000000d01010380cbf43926" +
        "68656c6c6f2c20726f63657632000000" + "90e4b59a",
    );
  });

  it("C-02: makes a COHERENCE REQUEST for a line", () => {
    const bth = { ...WRITE_ONLY.bth, opcode: OPCODE["VENDOR COHERENCE REQUEST"] };
    const { coherenceEth } = VENDOR_EXTENSIONS;
    const bytes = encodePacket({ ...WRITE_ONLY, bth, coherenceEth, payload: EMPTY });
    assert.equal(
      bytes.subarray(42).toHex(),
      "d040ffff0000002280fffffe" +
        "02017800" + "000055aa" + "00000009" + "00000002" + "00000001" + "00000003" +
        "01000001" + "00007f0000000040" + "0000000000000000" + "ac7a7c3c",
    );
  });

  it("§1.1: fills the shortest packet up to 60 bytes", () => {
    const bth = makeBth({ opcode: OPCODE["RC SEND ONLY"], destQpn: 2, psn: 0 });
    const bytes = encodePacket({ ...THERE, identification: 0, bth, payload: EMPTY });
    assert.equal(bytes.length, 60);
    assert.equal(decoded(bytes).payload.length, 0);
  });

  it("asserts that the opcode's headers are there", () => {
    const { reth: _, ...without } = WRITE_ONLY;
    assert.throws(() => encodePacket(without), /asks for reth/);
  });
});

describe("decodePacket", () => {
  for (const [name, hex, packet] of KNOWN) {
    it(`§1.6: reads the frame ${name}`, () => {
      assert.deepEqual(decoded(fromHex(hex)), packet);
    });
  }

  for (const [id, back, hex, part] of DEMO) {
    it(`§1.6: reads frame ${id} of the demonstration and makes it again`, () => {
      const outer = back ? BACK : THERE;
      const inner = fromHex(hex);
      const bytes = fromHex(KNOWN[0]![1].slice(0, 2 * 42) + hex);
      const view = new DataView(bytes.buffer);
      bytes.set(encodePacket({ ...WRITE_ONLY, ...outer, identification: id }).subarray(0, 42));
      view.setUint16(16, 28 + inner.length);
      view.setUint16(38, 8 + inner.length);
      fixChecksum(view);
      const packet = decoded(bytes);
      assert.deepEqual({ ...packet, ...part }, packet);
      assert.deepEqual(encodePacket(packet), bytes);
    });
  }

  it("gives back every packet that can be encoded", () => {
    fc.assert(
      fc.property(anyPacket, (packet) => {
        const bytes = encodePacket(packet);
        assert.deepEqual(decoded(bytes), packet);
        const row = OPCODE_ROWS.find(({ code }) => code === packet.bth.opcode)!;
        assert.equal(bytes.length, frameBytes(row, packet.payload.length));
      }),
      seeded({ numRuns: 1000 }),
    );
  });

  it("shows the payload as a view of the frame, also of a frame inside a larger buffer", () => {
    const bytes = encodePacket(WRITE_ONLY);
    const buffer = new Uint8Array(bytes.length + 7);
    buffer.set(bytes, 5);
    const { payload } = decoded(buffer.subarray(5, 5 + bytes.length));
    assert.equal(payload.buffer, buffer.buffer);
    assert.deepEqual(payload, PAYLOAD);
  });

  it("names what is wrong with a frame", () => {
    const refusal = (change: (view: DataView) => void, repair: (view: DataView) => void) => {
      const view = new DataView(encodePacket(WRITE_ONLY).slice().buffer);
      change(view);
      repair(view);
      const answer = decodePacket(new Uint8Array(view.buffer));
      return isRefusal(answer) ? answer : "a packet";
    };
    const all = (view: DataView) => {
      fixChecksum(view);
      writeIcrc(view, { from: 14, end: view.byteLength - 4 });
    };
    const none = () => {};
    assert.equal(refusal((v) => v.setUint16(12, 0x86dd), none), "not-roce");
    assert.equal(refusal((v) => v.setUint8(14, 0x46), all), "bad-ip-header");
    assert.equal(refusal((v) => v.setUint16(20, 0x2000), all), "bad-ip-header");
    assert.equal(refusal((v) => v.setUint8(22, 63), none), "bad-ip-checksum");
    assert.equal(refusal((v) => v.setUint8(23, 6), all), "not-roce");
    assert.equal(refusal((v) => v.setUint16(36, 4792), all), "not-roce");
    assert.equal(refusal((v) => v.setUint16(16, 72), fixChecksum), "bad-length");
    assert.equal(refusal((v) => v.setUint16(38, 52), none), "bad-length");
    assert.equal(refusal((v) => v.setUint16(40, 1), none), "bad-udp-checksum");
    assert.equal(refusal((v) => v.setUint8(80, 0), none), "bad-icrc");
    assert.equal(refusal((v) => v.setUint8(43, 0x71), all), "bad-tver");
    assert.equal(refusal((v) => v.setUint8(42, 0x15), all), "unknown-opcode");
    assert.equal(refusal((v) => v.setUint8(85, 1), all), "bad-padding");
    assert.equal(refusal((v) => v.setUint8(42, 0x11), all), "bad-length");
    assert.deepEqual(decodePacket(new Uint8Array(59)), "too-short");
  });

  it("§1.5: refuses a frame cut short or with bytes behind it", () => {
    const bytes = encodePacket(WRITE_ONLY);
    for (let length = 0; length < bytes.length; length++) {
      assert.ok(isRefusal(decodePacket(bytes.slice(0, length))), `${length} bytes`);
    }
    const longer = new Uint8Array(bytes.length + 1);
    longer.set(bytes);
    assert.deepEqual(decodePacket(longer), "bad-length");
  });

  for (const seed of [1, 2, 3, 4]) {
    it(`never throws, and what it takes encodes to the same bytes: seed ${seed}`, () => {
      const rng = rngFor(seed, "packet");
      let taken = 0;
      for (let i = 0; i < 10_000; i++) {
        const bytes = mangled(rng);
        const answer = decodePacket(bytes);
        if (isRefusal(answer)) continue;
        taken++;
        assert.deepEqual(encodePacket(answer), bytes);
      }
      assert.ok(taken > 1000, `only ${taken} frames were taken: the test has lost its teeth`);
    });
  }
});

function fixChecksum(view: DataView): void {
  view.setUint16(24, 0);
  view.setUint16(24, ipv4Checksum(view, 14));
}

/** A frame with a few bytes replaced, its checks mostly repaired, its length seldom right. */
function mangled(rng: Rng): Uint8Array<ArrayBuffer> {
  if (rng.below(8) === 0) {
    return Uint8Array.from({ length: rng.below(200) }, () => rng.below(256));
  }
  const known = fromHex(KNOWN[rng.below(KNOWN.length)]![1]);
  const bytes = rng.below(4) === 0 ? known.slice(0, rng.below(known.length + 1)) : known;
  const end = bytes.length - 4;
  for (let change = rng.below(5); change > 0 && end > 0; change--) {
    bytes[rng.below(2) === 0 ? rng.below(end) : Math.min(end, 42 + rng.below(16))] = rng.below(256);
  }
  if (rng.below(2) === 0 && end > 42) bytes[42] = OPCODE_ROWS[rng.below(OPCODE_ROWS.length)]!.code;
  if (rng.below(8) > 0 && end >= 54) {
    const view = new DataView(bytes.buffer);
    fixChecksum(view);
    writeIcrc(view, { from: 14, end });
  }
  return bytes;
}

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
    const hashOf = (packet: RocePacket) => hashMessage(new PacketFrame(packet));
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
