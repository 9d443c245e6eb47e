import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { allocate, allocateKept, copyOf, keptCopyOf } from "./slab.ts";
import { seeded } from "./property_testing.ts";

for (const make of [allocate, allocateKept]) {
  describe(make.name, () => {
    it("gives zero bytes that no other allocation has, aligned to eight", () => {
      const lengths = fc.array(fc.oneof(fc.nat(300), fc.nat(10_000)), { maxLength: 60 });
      fc.assert(
        fc.property(lengths, (wanted) => {
          const given = wanted.map((length) => {
            const bytes = make(length);
            assert.equal(bytes.length, length);
            assert.equal(bytes.byteOffset % 8, 0);
            assert.ok(bytes.every((byte) => byte === 0));
            return bytes;
          });
          given.forEach((bytes, i) => bytes.fill(i + 1));
          given.forEach((bytes, i) => assert.ok(bytes.every((byte) => byte === i + 1)));
        }),
        seeded(),
      );
    });
  });
}

describe("allocateKept", () => {
  it("keeps a KiB for a line that stays", () => {
    for (let i = 0; i < 100; i++) assert.ok(allocateKept(64).buffer.byteLength <= 1024);
  });
});

for (const copied of [copyOf, keptCopyOf]) {
  describe(copied.name, () => {
    it("gives the same bytes apart from the original", () => {
      const original = new Uint8Array([1, 2, 3]);
      const copy = copied(original);
      original[0] = 9;
      assert.deepEqual([...copy], [1, 2, 3]);
    });
  });
}
