import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { pattern } from "../testing/host_testing.ts";
import { decodeRecord, encodeRecord } from "./scm_record.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

describe("encodeRecord and decodeRecord", () => {
  const writes = [
    { offset: 64, data: pattern(64, 1) },
    { offset: 128, data: pattern(64, 2) },
    { offset: 2 ** 40, data: pattern(3, 3) },
  ];

  it("bring back what was written, contiguous writes as one", () => {
    const record = encodeRecord({ span: 2 ** 40 + 1, writes });
    const decoded = decodeRecord(record.bytes)!;
    assert.equal(decoded.span, 2 ** 40 + 1);
    assert.deepEqual(decoded.writes.map(({ offset, data }) => [offset, [...data]]), [
      [64, [...pattern(64, 1), ...pattern(64, 2)]],
      [2 ** 40, [...pattern(3, 3)]],
    ]);
    assert.deepEqual(record.writes, decoded.writes);
  });

  it("finds every torn record out, also where it lies over an older one", () => {
    const { bytes } = encodeRecord({ span: 7, writes });
    const older = encodeRecord({ span: 6, writes: [{ offset: 0, data: pattern(500, 9) }] }).bytes;
    for (let written = 0; written < bytes.length; written++) {
      assert.equal(decodeRecord(bytes.subarray(0, written)), undefined, `${written} B`);
      if (written === 0) continue;
      const mixed = Uint8Array.from(older);
      mixed.set(bytes.subarray(0, written));
      // As long as nothing differs, the older record is there still: it was applied, and may be again.
      const found = decodeRecord(mixed)?.span;
      assert.ok(found === undefined || (found === 6 && written <= 4), `${written} B: ${found}`);
    }
    const over = Uint8Array.from(older);
    over.set(bytes);
    assert.equal(decodeRecord(over)!.span, 7);
  });

  it("finds any changed byte out", () => {
    const { bytes } = encodeRecord({ span: 7, writes });
    fc.assert(
      fc.property(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), (at, flip) => {
        const changed = Uint8Array.from(bytes);
        changed[at]! ^= flip;
        assert.equal(decodeRecord(changed), undefined);
      }),
      seeded(),
    );
  });
});
