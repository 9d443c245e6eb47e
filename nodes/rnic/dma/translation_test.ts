import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { addRegion, createRegionTable, lookUp } from "./memory_region.ts";
import { physicalAddress, PieceWalker } from "./translation.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

describe("PieceWalker", () => {
  const pageList = fc.uniqueArray(fc.nat(50), { minLength: 4, maxLength: 4 });

  it("P-22: visits every byte once, in order, at the address that the page table gives", () => {
    fc.assert(
      fc.property(
        pageList,
        pageList,
        fc.nat(255),
        fc.nat(700),
        fc.integer({ min: 1, max: 99 }),
        (x, y, start, length, most) => {
          const table = createRegionTable();
          const regions = [x, y].map((pages, i) =>
            addRegion(table, {
              pd: 1,
              va: 0x1000 * (i + 1) + start,
              length: 4 * 256 - start,
              access: 0,
              pageBytes: 256,
              pages: pages.map((page) => page * 256),
              persistent: false,
            })!
          );
          const segments = regions.map((region) => ({ region, va: region.va + 1, length: 400 }));
          const expected = segments.flatMap(({ region, va }) =>
            Array.from({ length: 400 }, (_, i) => physicalAddress(region, va + i))
          ).slice(50, 50 + length);
          const seen: number[] = [];
          const walker = new PieceWalker();
          walker.start(segments, { offset: 50, length, most });
          while (walker.next()) {
            assert.equal(walker.offset, seen.length);
            assert.ok(walker.bytes > 0 && walker.bytes <= most);
            for (let i = 0; i < walker.bytes; i++) seen.push(walker.address + i);
          }
          assert.deepEqual(seen, expected);
        },
      ),
      seeded({ seed: 22, numRuns: 200 }),
    );
  });
});

describe("lookUp", () => {
  it("P-22: grants exactly the region's range, key, domain and permissions", () => {
    const table = createRegionTable();
    const page = { pageBytes: 4096, pages: [0], persistent: false };
    const plan = { pd: 1, va: 1000, length: 100, access: 3, ...page };
    const region = addRegion(table, plan)!;
    const access = { key: region.key, pd: 1, va: 1000, length: 100, need: 2 };
    assert.equal(lookUp(table, access), region);
    assert.equal(lookUp(table, { ...access, va: 999 }), undefined);
    assert.equal(lookUp(table, { ...access, va: 1001 }), undefined);
    assert.equal(lookUp(table, { ...access, key: region.key + 1 }), undefined);
    assert.equal(lookUp(table, { ...access, key: 0 }), undefined);
    assert.equal(lookUp(table, { ...access, pd: 2 }), undefined);
    assert.equal(lookUp(table, { ...access, need: 4 }), undefined);
  });
});
