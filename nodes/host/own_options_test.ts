import { strictEqual as equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sizeOption, timeOption } from "./own_options.ts";

describe("options of own programs", () => {
  it("sizeOption reads bytes with and without a unit, and names the option that is none", () => {
    const options = { size: "64KiB", count: 3, wrong: "64kb", half: "0.3B" };
    equal(sizeOption(options, "size"), 65_536);
    equal(sizeOption(options, "count"), 3);
    equal(sizeOption(options, "other", 7), 7);
    equal(sizeOption(options, "size", 7), 65_536);
    throws(
      () => sizeOption(options, "wrong"),
      /^TypeError: Option wrong must be a size, like 64KiB: it is "64kb"$/,
    );
    throws(() => sizeOption(options, "half"), /it is "0.3B"/);
    throws(() => sizeOption(options, "other"), /it is not given/);
  });

  it("timeOption reads picoseconds of a time with its unit, and names the option that is none", () => {
    const options = { every: "10us", never: 0, bare: 10 };
    equal(timeOption(options, "every"), 10_000_000);
    equal(timeOption(options, "never"), 0);
    equal(timeOption(options, "other", 5), 5);
    throws(
      () => timeOption(options, "bare"),
      /^TypeError: Option bare must be a time, like 10us: it is 10$/,
    );
    throws(() => timeOption(options, "other"), /it is not given/);
  });
});
