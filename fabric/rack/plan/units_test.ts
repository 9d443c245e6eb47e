import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { formatRate, formatSize, parseDuration, parseRate, parseSize } from "./units.ts";
import { seeded } from "../../base/property_testing.ts";

describe("parseSize", () => {
  const cases = [
    [4096, 4096],
    ["4096", 4096],
    ["64MiB", 64 * 2 ** 20],
    ["64 MiB", 64 * 2 ** 20],
    ["1.5KiB", 1536],
    ["3B", 3],
    ["0.3KiB", undefined],
    ["64MB", undefined],
    ["MiB", undefined],
    ["-1", undefined],
    [-1, undefined],
    [1.5, undefined],
    ["99999999GiB", undefined],
    [true, undefined],
    [null, undefined],
    [[4096], undefined],
    ["4constructor", undefined],
  ] as const;
  for (const [value, bytes] of cases) {
    it(`${JSON.stringify(value)} is ${bytes ?? "no size"}`, () =>
      assert.equal(parseSize(value), bytes));
  }

  it("reads back what formatSize writes", () => {
    fc.assert(
      fc.property(fc.nat(), (bytes) => assert.equal(parseSize(formatSize(bytes)), bytes)),
      seeded(),
    );
  });
});

describe("parseRate", () => {
  it("reads decimal units and requires one", () => {
    assert.equal(parseRate("100Gbps"), 100e9);
    assert.equal(parseRate("2.5 Gbps"), 2.5e9);
    assert.equal(parseRate("100"), undefined);
    assert.equal(parseRate("100GB"), undefined);
  });
});

describe("formatRate", () => {
  it("writes what parseRate reads", () => {
    for (const text of ["1bps", "1500bps", "10Gbps", "2500Mbps", "1Tbps"]) {
      assert.equal(formatRate(parseRate(text)!), text);
    }
  });
});

describe("parseDuration", () => {
  it("requires a unit, except for 0", () => {
    assert.equal(parseDuration("300ns"), 300_000);
    assert.equal(parseDuration(0), 0);
    assert.equal(parseDuration(300), undefined);
    assert.equal(parseDuration("300"), undefined);
    assert.equal(parseDuration(undefined), undefined);
  });
});
