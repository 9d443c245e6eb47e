import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  directoryAt,
  directoryBytes,
  REGION_SIZES,
  SCM_BASE,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { AddressFault, AddressMap, DRAM_PAGE_BYTES } from "../memory/address_map.ts";
import { HomePlaces } from "./home_places.ts";

const SIZES = { dramBytes: 1 << 20, scmBytes: 1 << 18 };
const BYTES = 2 * DRAM_PAGE_BYTES;

function region(given: Partial<SharedRegion>): SharedRegion {
  return {
    ...REGION_SIZES,
    ...{ id: 0, name: "s", placement: "remote", bytes: BYTES },
    home: { host: "a", address: 1 },
    far: [],
    ...{ leasePs: 1, leaseMarginPs: 1, homeWaitPs: 1 },
    ...{ memory: "scm", address: SCM_BASE + 4096 },
    ...given,
  };
}

/** Regions in DRAM take the last pages. */
const DRAM = region({ memory: "dram", address: SIZES.dramBytes - BYTES });

/** Whether plain accesses of these ranges, from the region's first virtual address on, are refused. */
function refused(of: SharedRegion, ranges: readonly (readonly [from: number, length: number])[]) {
  const map = new AddressMap(SIZES);
  const places = new HomePlaces([of], map);
  const dram = () => {
    // What is allocated next lies below, and its physical address says where the region is.
    const next = map.allocateContiguous(DRAM_PAGE_BYTES);
    return next.address + DRAM_PAGE_BYTES;
  };
  const start = of.memory === "scm" ? map.scm.address + of.address - SCM_BASE : dram();
  return ranges.map(([from, length]) => {
    try {
      places.refusePlain(start + from, length);
      return false;
    } catch (error) {
      assert.ok(error instanceof AddressFault);
      return true;
    }
  });
}

describe("HomePlaces", () => {
  it("decision 1: refuses plain accesses to a byte of a region, and none beside it", () => {
    for (const  of of[DRAM, region({})]) {
      const ranges = [[-8, 8], [-8, 9], [0, 1], [BYTES - 1, 1], [BYTES, 8], [
        -8,
        BYTES + 16,
      ]] as const;
      assert.deepEqual(refused(of, ranges), [false, true, true, true, false, true]);
    }
  });

  it("decisions 1, 7: refuses them to its directory in SCM, too", () => {
    const of = region({ directory: "memory" });
    const end = directoryAt(of, 0) - of.address + directoryBytes(of);
    assert.ok(end > BYTES);
    const ranges = [[BYTES, 1], [end - 1, 1], [end, 8]] as const;
    assert.deepEqual(refused(of, ranges), [true, true, false]);
  });

  it("finds the region and its line of a line of memory", () => {
    const other = region({ id: 1, address: SCM_BASE + 4096 + BYTES + 64 });
    const of = region({}), places = new HomePlaces([of, other], new AddressMap(SIZES));
    const first = of.address / 64, lines = BYTES / 64;
    const found = [-1, 0, lines - 1, lines, lines + 1, 2 * lines + 1].map((at) => {
      const place = places.at(first + at);
      return place && `${place.region.id} ${place.line}`;
    });
    assert.deepEqual(found, [undefined, "0 0", `0 ${lines - 1}`, undefined, "1 0", undefined]);
  });
});
