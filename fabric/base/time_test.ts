import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { formatTime, NEVER, parseTime, transferTime } from "./time.ts";

describe("parseTime", () => {
  it("reads a number with a unit as whole picoseconds", () => {
    assert.equal(parseTime("40us"), 40_000_000);
    assert.equal(parseTime("1.5 ns"), 1_500);
    assert.equal(parseTime("7ps"), 7);
    assert.equal(parseTime("7.0ps"), 7);
    assert.equal(parseTime("0.001ns"), 1);
    assert.equal(parseTime("1.123456789012s"), 1_123_456_789_012);
    assert.equal(parseTime("2s"), 2_000_000_000_000);
  });

  it("refuses what has no unit, another unit, a sign or no exact number", () => {
    for (
      const text of ["40", "us", "-1us", "4 weeks", "1e3ns", "99999999s", "1.5ps", "0.0001ns", "."]
    ) {
      assert.equal(parseTime(text), undefined, text);
    }
  });
});

describe("formatTime", () => {
  it("takes the largest unit in which the number is at least one", () => {
    assert.equal(formatTime(1_234_567), "1.235 us");
    assert.equal(formatTime(999), "999 ps");
    assert.equal(formatTime(0), "0 ps");
    assert.equal(formatTime(NEVER), "never");
  });
});

describe("transferTime", () => {
  it("is never shorter than the rate allows", () => {
    assert.equal(transferTime(64, 100e9), 5_120);
    assert.equal(transferTime(1, 3), Math.ceil(8e12 / 3));
  });
});
