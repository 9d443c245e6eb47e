import { deepEqual, equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { decodePersistRanges, encodePersistRanges, PERSIST_RANGE_BYTES } from "./persist_ranges.ts";
import { seeded } from "../../base/property_testing.ts";

const u64 = fc.bigInt({ min: 0n, max: (1n << 64n) - 1n });

describe("persist ranges", () => {
  it("P-26 (in part): are 16 bytes each in network order, one behind the other", () => {
    const bytes = encodePersistRanges([
      { va: 0x0102_0304_0506_0708n, length: 64n },
      { va: 0n, length: 0x1_0000_0000n },
    ]);
    equal(bytes.length, 2 * PERSIST_RANGE_BYTES);
    const hex = [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
    equal(hex.slice(0, 32), "01020304050607080000000000000040");
    equal(hex.slice(32), "00000000000000000000000100000000");
  });

  it("come back as they were; a part of one at the end is none", () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ va: u64, length: u64 }), { maxLength: 20 }),
        fc.integer({ min: 0, max: PERSIST_RANGE_BYTES - 1 }),
        (ranges, more) => {
          const bytes = new Uint8Array(ranges.length * PERSIST_RANGE_BYTES + more);
          bytes.set(encodePersistRanges(ranges));
          deepEqual(decodePersistRanges(bytes), ranges);
        },
      ),
      seeded({ seed: 26 }),
    );
  });
});
