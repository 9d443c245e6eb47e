import { MEMORIES } from "../../../../fabric/rack/plan/plan.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  CONNECTIONS,
  decodeAnswer,
  decodePerftestTerms,
  decodePlace,
  encodeAnswer,
  encodePerftestTerms,
  encodePlace,
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
    connection: "UC",
    duration: { ps: 5e12, marginPs: 1.25e12 },
    bidirectional: true,
    atomic: "compare-swap",
    depth: 8192,
    rxDepth: 16_384,
    postList: 300,
    cqModeration: 150,
    inlineBytes: 220,
    outstanding: 16,
    trafficClass: 106,
    hopLimit: 9,
    timeout: 14,
    retryCount: 3,
    reportVa: 0x7f00_0000_9999,
    udQpn: 0xff_fff1,
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

  for (const connection of CONNECTIONS) {
    it(`of ${connection}, one way and by number, come back as they went`, () => {
      const one = { duration: undefined, bidirectional: false, atomic: "fetch-add" } as const;
      const each = { ...terms, connection, ...one };
      assert.deepEqual(decodePerftestTerms(encodePerftestTerms(each)), each);
    });
  }

  it("fit the private data of a request (88 B)", () => {
    assert.ok(encodePerftestTerms(terms).length <= 88);
  });

  it("are not read from too few bytes, or bytes that are none", () => {
    const good = encodePerftestTerms(terms);
    assert.equal(decodePerftestTerms(good.subarray(0, -1)), undefined);
    assert.equal(decodePerftestTerms(good.with(2, CONNECTIONS.length)), undefined);
    assert.equal(decodePerftestTerms(good.with(0, PERFTESTS.length)), undefined);
    assert.equal(decodePerftestTerms(good.with(1, MEMORIES.length)), undefined);
    const wrongs = [
      { bytes: 0 },
      { bytes: 0xffff_ffff },
      { index: 4 },
      { qps: QPS_MAX + 1 },
      { depth: 0 },
      { postList: 0 },
      { cqModeration: 0 },
      { duration: { ps: 10, marginPs: 6 } },
    ];
    for (const wrong of wrongs) {
      assert.equal(decodePerftestTerms(encodePerftestTerms({ ...terms, ...wrong })), undefined);
    }
  });
});

describe("PerftestAnswer", () => {
  it("comes back as it went", () => {
    const answer = { place: { va: 4096, rkey: 7 }, udQpn: 0xab_cdef, udPsn: 0x12_3456 };
    assert.deepEqual(decodeAnswer(encodeAnswer(answer)), answer);
    assert.equal(decodeAnswer(encodeAnswer(answer).subarray(0, -1)), undefined);
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
