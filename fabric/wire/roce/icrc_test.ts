import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { computeIcrc, crc32, icrcHolds, writeIcrc } from "./icrc.ts";
import { seeded } from "../../base/property_testing.ts";

function fromHex(text: string): Uint8Array<ArrayBuffer> {
  return Uint8Array.from(text.replaceAll(" ", "").match(/../g) ?? [], (pair) => parseInt(pair, 16));
}

/** The four bytes on the wire, as hexadecimal digits. */
function wire(icrc: number): string {
  const bytes = new Uint8Array(4);
  new DataView(bytes.buffer).setUint32(0, icrc, true);
  return bytes.toHex();
}

/** The definition, bit by bit: what the fast one is held against. */
function crcByDefinition(bytes: Uint8Array): number {
  let register = 0xffff_ffff;
  for (const byte of bytes) {
    register ^= byte;
    for (let bit = 0; bit < 8; bit++) {
      register = (register & 1) !== 0 ? (register >>> 1) ^ 0xedb8_8320 : register >>> 1;
    }
  }
  return ~register >>> 0;
}

/** Bytes to mask with these bits, by their offsets from the network header (§1.5). */
type Mask = ReadonlyArray<readonly [at: number, bits: number]>;
const udpMask = (at: number): Mask => [[at + 6, 0xff], [at + 7, 0xff]];
const bthMask = (at: number): Mask => [[at + 4, 0xff]];
const ipv6Mask: Mask = [[0, 0x0f], [1, 0xff], [2, 0xff], [3, 0xff], [7, 0xff]];
const IPV4_MASK: Mask = [
  ...[1, 8, 10, 11].map((at) => [at, 0xff] as const),
  ...udpMask(20),
  ...bthMask(28),
];
const IPV6_MASK: Mask = [...ipv6Mask, ...udpMask(40), ...bthMask(48)];
const GRH_MASK: Mask = [...ipv6Mask, ...bthMask(40)];

function masked(packet: Uint8Array, mask: Mask): Uint8Array {
  const bytes = new Uint8Array(8 + packet.length).fill(0xff);
  bytes.set(packet, 8);
  for (const [at, bits] of mask) bytes[8 + at]! |= bits;
  return bytes;
}

interface Vector {
  readonly name: string;
  readonly mask: Mask;
  readonly packet: string;
  readonly icrc: string;
}

const VECTORS: readonly Vector[] = [
  {
    name: "1, captured CNP over IPv4",
    mask: IPV4_MASK,
    packet: "45c2003c718c4000401191610a0011010a001201 000012b700280000" +
      "8100ffff4000011800000000" + "00".repeat(16),
    icrc: "82fd002a",
  },
  {
    name: "2, captured RoCE v1 RC WRITE ONLY",
    mask: GRH_MASK,
    packet: "6020000000281b40 00000000000000000000ffff0f000002" +
      "00000000000000000000ffff0f000002 0a70ffff0000010a80a788bc" +
      "000055d4c0726000 000047b3 00000005 0000000001 000000",
    icrc: "e3d856bb",
  },
  {
    name: "3, captured RoCE v1 RC ACK",
    mask: GRH_MASK,
    packet: "6020000000141b40 00000000000000000000ffff0f000002" +
      "00000000000000000000ffff0f000002 1140ffff0000010900a788c0 00000005",
    icrc: "25f0c038",
  },
  {
    name: "4, UC SEND ONLY over IPv4",
    mask: IPV4_MASK,
    packet: "45010040047840004011b4d5c0a80007c0a80007 c00012b7002caca2" +
      "2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000",
    icrc: "78f353f3",
  },
  {
    name: "5, UC SEND ONLY over IPv6",
    mask: IPV6_MASK,
    packet: "6e21face002c11ff 20220000000000000000000000001023" +
      "20230000000000000000000000001024 c00012b7002ce7c5" +
      "2460ffff000000d300cf1710 4630818be28935d90e9a95505401be885e500000",
    icrc: "3e5b743b",
  },
];

describe("crc32", () => {
  it("§1.5: has zlib's check value, not CRC-32C's", () => {
    assert.equal(crc32(new TextEncoder().encode("123456789")), 0xcbf4_3926);
  });

  it("§1.5: agrees with the definition on any bytes, at any alignment", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.nat(7), (bytes, skip) => {
        const part = bytes.subarray(Math.min(skip, bytes.length));
        assert.equal(crc32(part), crcByDefinition(part));
      }),
      seeded(),
    );
  });

  for (const { name, mask, packet, icrc } of VECTORS) {
    it(`§1.6: gives the ICRC of vector ${name} over its masked bytes`, () => {
      assert.equal(wire(crc32(masked(fromHex(packet), mask))), icrc);
    });
  }
});

describe("computeIcrc", () => {
  for (const { name, packet, icrc } of VECTORS.filter(({ mask }) => mask === IPV4_MASK)) {
    it(`§1.6: gives the ICRC of vector ${name}`, () => {
      const bytes = fromHex(packet);
      const view = new DataView(bytes.buffer);
      assert.equal(wire(computeIcrc(view, { from: 0, end: bytes.length })), icrc);
    });
  }

  it("§1.5: agrees with the definition over masked bytes, wherever the packet begins", () => {
    const packets = fc.uint8Array({ minLength: 40, maxLength: 160 });
    fc.assert(
      fc.property(packets, fc.nat(20), (packet, from) => {
        const bytes = new Uint8Array(from + packet.length);
        bytes.set(packet, from);
        assert.equal(
          computeIcrc(new DataView(bytes.buffer), { from, end: bytes.length }),
          crcByDefinition(masked(packet, IPV4_MASK)),
        );
      }),
      seeded(),
    );
  });
});

describe("icrcHolds", () => {
  const packet = fromHex(VECTORS[0]!.packet);
  const range = { from: 0, end: packet.length };
  const bytes = new Uint8Array(packet.length + 4);
  bytes.set(packet);
  const view = new DataView(bytes.buffer);
  writeIcrc(view, range);
  const maskedBits = new Map(IPV4_MASK);

  it("§1.6: holds for the captured packet with its captured ICRC", () => {
    assert.equal(bytes.subarray(packet.length).toHex(), VECTORS[0]!.icrc);
    assert.ok(icrcHolds(view, range));
  });

  it("§1.5: notices the flip of any one bit, except those a router or switch may change", () => {
    for (let bit = 0; bit < bytes.length * 8; bit++) {
      const at = bit >> 3, flag = 1 << (bit & 7);
      bytes[at]! ^= flag;
      const variant = ((maskedBits.get(at) ?? 0) & flag) !== 0;
      assert.equal(icrcHolds(view, range), variant, `byte ${at}, bit ${bit & 7}`);
      bytes[at]! ^= flag;
    }
  });
});
