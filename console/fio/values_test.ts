import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  bytesValue,
  flagValue,
  percentilesValue,
  percentValue,
  rangeValue,
  TIME_MAX_PS,
  timeValue,
} from "./values.ts";

describe("bytesValue", () => {
  it("has fio's units: with kb_base 1024 those of SI and IEC stand for each other", () => {
    const rows = [
      ["4096", 4096, 4096],
      ["4k", 4000, 4096],
      ["4kb", 4000, 4096],
      ["4KiB", 4096, 4000],
      ["1m", 1_000_000, 1_048_576],
      ["1MiB", 1_048_576, 1_000_000],
      ["2g", 2e9, 2 ** 31],
      ["0x10", 16, 16],
      ["7b", 7, 7],
    ] as const;
    for (const [text, straight, compatible] of rows) {
      assert.equal(bytesValue(text, 1000), straight, text);
      assert.equal(bytesValue(text, 1024), compatible, text);
    }
  });

  it("refuses what is no number of bytes, or too large to count", () => {
    for (const text of ["", "k", "4x", "-4k", "4.5k", "4kk", "10000p"]) {
      assert.equal(bytesValue(text, 1000), undefined, text);
    }
  });
});

describe("timeValue", () => {
  it("has fio's words, and the unit of an option for a bare number", () => {
    assert.equal(timeValue("60", "s"), 60e12);
    assert.equal(timeValue("500", "ms"), 5e11);
    assert.equal(timeValue("3ms", "s"), 3e9);
    assert.equal(timeValue("7us", "s"), 7e6);
    assert.equal(timeValue("2m", "s"), 120e12);
    assert.equal(timeValue("1h", "s"), 3600e12);
  });

  it("is at most what a run can have, and undefined for other words", () => {
    assert.equal(timeValue("365d", "s"), TIME_MAX_PS);
    for (const text of ["", "5 weeks", "ms", "-1", "1.5s"]) {
      assert.equal(timeValue(text, "s"), undefined, text);
    }
  });
});

describe("other values", () => {
  it("are read by their rules, or undefined", () => {
    assert.deepEqual([percentValue("50%"), percentValue("0%"), percentValue("101%")], [
      50,
      undefined,
      undefined,
    ]);
    const flags = [undefined, "1", "0", "2", ""].map(flagValue);
    assert.deepEqual(flags, [true, true, false, undefined, undefined]);
    assert.deepEqual(rangeValue("4k-16k", 1024), { least: 4096, most: 16_384 });
    assert.deepEqual(rangeValue("16k:4k", 1024), { least: 4096, most: 16_384 });
    for (const text of ["512", "4k-", "1-2-3", "0-4k"]) {
      assert.equal(rangeValue(text, 1024), undefined);
    }
    assert.deepEqual(percentilesValue("99.9:50:99"), { list: [50, 99, 99.9], decimals: 1 });
    assert.deepEqual(percentilesValue("99.0:50.000")?.decimals, 3);
    for (const text of ["", "0", "101", "50:x"]) assert.equal(percentilesValue(text), undefined);
  });
});
