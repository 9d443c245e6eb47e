import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../base/property_testing.ts";
import { coherentBusBytes } from "./pcie.ts";
import { pcieFromArray, pcieToArray } from "./pcie_codec.ts";
import { regionFromArray, regionToArray } from "./region_codec.ts";
import { isRegionMessage, regionWireBytes } from "./region_messages.ts";
import { anyRegionMessage } from "./region_testing.ts";

const LINE = new Uint8Array(64).fill(7);

describe("regionFromArray", () => {
  it("C-02: gives back every message of a region, through the codec of the bus", () => {
    fc.assert(
      fc.property(anyRegionMessage, (message) => {
        assert.ok(isRegionMessage(message));
        assert.deepEqual(regionFromArray(structuredClone(regionToArray(message))), message);
        assert.deepEqual(pcieFromArray(structuredClone(pcieToArray(message))), message);
      }),
      seeded({ numRuns: 300 }),
    );
  });

  it("refuses every field that is no count, and every number of fields but its own", () => {
    const good: unknown[][] = [
      [20, "SnpInv", 128],
      [20, "RspI", 128, LINE],
      [21, 1, 2, 3, "load"],
      [21, 1, 2, 3, "store", ["add", 8, new Uint8Array(8)]],
      [21, 1, 2, 3, "flush", 4],
      [22, 1, "done"],
      [22, 1, "done", LINE],
      [23, 1, 2],
    ];
    for (const array of good) {
      assert.notEqual(pcieFromArray(array), undefined, `${array}`);
      for (const [at, value] of array.entries()) {
        if (typeof value !== "number") continue;
        for (const bad of [-1, 1.5, NaN, 2 ** 53, 1n, "1", null, undefined]) {
          assert.equal(pcieFromArray(array.with(at, bad)), undefined, `${array}: ${at} = ${bad}`);
        }
      }
      assert.equal(pcieFromArray([...array, "more"]), undefined);
      const isOptional = (array[0] === 20 && array.length === 4) || array[4] === "flush" ||
        (array[0] === 22 && array.length === 4);
      if (!isOptional) {
        assert.equal(pcieFromArray(array.slice(0, -1)), undefined, `${array}`);
      }
    }
  });

  it("refuses content where the message carries none, lines of another size, odd addresses", () => {
    const bad: unknown[][] = [
      [20, "SnpInv", 128, LINE],
      [20, "Cmp", 128, LINE],
      [21, 1, 2, 3, "load", 4],
      [20, "NoSuch", 128],
      [20, "constructor", 128],
      [20, "SnpInv", 100],
      [20, "RspI", 128, LINE.subarray(1)],
      [20, "RspI", 128, "gone"],
      [21, 1, 2, 3, "load", ["add", 8, new Uint8Array(8)]],
      [21, 1, 2, 3, "store"],
      [21, 1, 2, 3, "store", ["add", 4, new Uint8Array(8)]],
      [21, 1, 2, 3, "store", ["add", 64, new Uint8Array(8)]],
      [21, 1, 2, 3, "store", ["add", 8, 7n]],
      [21, 1, 2, 3, "store", ["write", new Uint8Array(8), LINE.subarray(1)]],
      [21, 1, 2, 3, "store", ["compare-swap", 0, new Uint8Array(8)]],
      [22, 1, "perhaps"],
      [22, 1, "done", "lost"],
    ];
    for (const array of bad) assert.equal(pcieFromArray(array), undefined, `${array}`);
  });
});

describe("regionWireBytes", () => {
  it("C-02: counts flits of 10 B: a header, one with a mask, a line's eight", () => {
    const access = { kind: "far-access", tag: 1, region: 0, line: 0 } as const;
    assert.equal(regionWireBytes({ kind: "line", op: "SnpInv", address: 0 }), 10);
    assert.equal(regionWireBytes({ kind: "line", op: "GrantS", address: 0, data: LINE }), 90);
    assert.equal(regionWireBytes({ ...access, op: "load" }), 10);
    const add = { kind: "add", offset: 0, operand: 1n } as const;
    assert.equal(coherentBusBytes({ ...access, op: "store", change: add }), 110);
    const mask = (1n << 64n) - 1n;
    const whole = { kind: "write", mask, bytes: LINE } as const;
    assert.equal(coherentBusBytes({ ...access, op: "store", change: whole }), 90);
  });
});
