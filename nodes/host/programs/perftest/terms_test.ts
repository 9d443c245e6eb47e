import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  decodePerftestTerms,
  decodePlace,
  encodePerftestTerms,
  encodePlace,
  MEMORIES,
  PERFTESTS,
  type PerftestTerms,
  QPS_MAX,
} from "./terms.ts";

describe("PerftestTerms", () => {
  const terms: PerftestTerms = {
    test: "ib_write_lat",
    memory: "dram",
    bytes: 64,
    iterations: 1000,
    index: 3,
    qps: 4,
    place: { va: 0x7f00_0000_1234, rkey: 0x301 },
  };

  for (const test of PERFTESTS) {
    for (const memory of MEMORIES) {
      it(`of ${test} in ${memory} come back as they went`, () => {
        const each = { ...terms, test, memory };
        assert.deepEqual(decodePerftestTerms(encodePerftestTerms(each)), each);
      });
    }
  }

  it("are not read from too few bytes, or bytes that are none", () => {
    const good = encodePerftestTerms(terms);
    assert.equal(decodePerftestTerms(good.subarray(0, 25)), undefined);
    assert.equal(decodePerftestTerms(good.with(0, PERFTESTS.length)), undefined);
    assert.equal(decodePerftestTerms(good.with(1, MEMORIES.length)), undefined);
    assert.equal(decodePerftestTerms(good.with(4, 0xff)), undefined);
    for (const wrong of [{ bytes: 0 }, { index: 4 }, { qps: QPS_MAX + 1 }]) {
      assert.equal(decodePerftestTerms(encodePerftestTerms({ ...terms, ...wrong })), undefined);
    }
  });
});

describe("RemotePlace", () => {
  it("comes back as it went", () => {
    const place = { va: 2 ** 52 + 8, rkey: 0xffff_ffff };
    assert.deepEqual(decodePlace(encodePlace(place)), place);
    assert.equal(decodePlace(new Uint8Array(11)), undefined);
    assert.equal(decodePlace(new Uint8Array(12).fill(0xff)), undefined);
  });
});
