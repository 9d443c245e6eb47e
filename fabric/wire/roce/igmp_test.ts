import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { decodeReport, encodeReport, isIgmp, type MembershipChange } from "./igmp.ts";
import { LEAST_FRAME_BYTES } from "./ethernet.ts";
import { allocate } from "../../base/slab.ts";
import { seeded } from "../../base/property_testing.ts";

const SOURCE = { mac: 0x0200_0000_0007, address: 0x0a00_0007 };

function bytesOf(hex: string): Uint8Array<ArrayBuffer> {
  const digits = hex.replaceAll(/\s/g, "");
  const bytes = allocate(digits.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}

/** Stores a checksum that holds again. */
function resum(bytes: Uint8Array<ArrayBuffer>, from: number, length: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  const at = from === 14 ? 24 : from + 2;
  view.setUint16(at, 0);
  let sum = 0;
  for (let i = 0; i < length; i += 2) sum += view.getUint16(from + i);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >>> 16);
  view.setUint16(at, ~sum & 0xffff);
}

describe("IGMP", () => {
  it("a report laid over RFC 3376: router alert, 224.0.0.22, one record, filled up to 60 bytes", () => {
    const bytes = encodeReport(SOURCE, [{ group: 0xef01_0203, member: true }]);
    assert.deepEqual(
      bytes,
      bytesOf(`
        01005e000016 020000000007 0800
        46c0 0028 0000 4000 0102 f9f2 0a000007 e0000016 94040000
        22 00 e8f9 0000 0001
        04 00 0000 ef010203
        000000000000
      `),
    );
    assert.equal(bytes.length, LEAST_FRAME_BYTES);
  });

  it("what is encoded decodes to the same changes, whatever they are", () => {
    const change = fc.record<MembershipChange>({
      group: fc.integer({ min: 0xe000_0000, max: 0xefff_ffff }),
      member: fc.boolean(),
    }, { noNullPrototype: true });
    fc.assert(
      fc.property(fc.array(change, { minLength: 1, maxLength: 128 }), (changes) => {
        assert.deepEqual(decodeReport(encodeReport(SOURCE, changes)), changes);
      }),
      seeded(),
    );
  });

  it("reads version 2's report and leave too", () => {
    for (const [type, member] of [[0x16, true], [0x17, false], [0x12, true]] as const) {
      const bytes = encodeReport(SOURCE, [{ group: 0xef01_0203, member: true }]);
      bytes.fill(0, 38);
      bytes[38] = type;
      bytes.set([0xef, 1, 2, 3], 42);
      bytes[17] = 24 + 8;
      resum(bytes, 14, 24);
      resum(bytes, 38, 8);
      assert.deepEqual(decodeReport(bytes), [{ group: 0xef01_0203, member }]);
    }
  });

  it("a damaged report is none, wherever the damage is", () => {
    const good = encodeReport(SOURCE, [{ group: 0xef01_0203, member: true }]);
    for (let at = 14; at < 54; at++) {
      const bytes = allocate(good.length);
      bytes.set(good);
      bytes[at] = bytes[at]! ^ 0x10;
      assert.equal(decodeReport(bytes), undefined, `byte ${at}`);
    }
  });

  it("never throws on any bytes", () => {
    const header = [0x08, 0x00, 0x46, 0xc0, 0x00];
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 120 }), fc.boolean(), (random, like) => {
        const bytes = allocate(random.length);
        bytes.set(random);
        if (like && bytes.length > 40) {
          bytes.set(header, 12);
          bytes[23] = 2;
          bytes[38] = 0x22;
          resum(bytes, 14, 24);
        }
        isIgmp(bytes);
        decodeReport(bytes);
      }),
      seeded(),
    );
  });

  it("queries and groups outside 224/4 are no report", () => {
    const bytes = encodeReport(SOURCE, [{ group: 0xef01_0203, member: true }]);
    bytes[46 + 4] = 0x0a;
    resum(bytes, 38, 16);
    assert.equal(decodeReport(bytes), undefined);
    bytes[38] = 0x11;
    resum(bytes, 38, 16);
    assert.equal(decodeReport(bytes), undefined);
    assert.ok(isIgmp(bytes));
  });
});
