import { strictEqual as equal, throws } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { countOption, microsecondsOption, textOption, wordOption } from "./options.ts";

describe("options", () => {
  it("read numbers, sizes, times and words, with defaults", () => {
    const bounds = { least: 1, otherwise: 4096 };
    equal(countOption({}, "depth", bounds), 4096);
    equal(countOption({ depth: "4KiB" }, "depth", bounds), 4096);
    equal(countOption({ depth: "2 MiB" }, "depth", bounds), 2 << 20);
    equal(microsecondsOption({ pauseUs: 1.5 }, "pauseUs", 3), 1_500_000);
    equal(textOption({ to: "b" }, "to"), "b");
    equal(wordOption({}, "way", { words: ["poll", "interrupt"], otherwise: "poll" }), "poll");
  });

  it("name the option and what was expected", () => {
    const bounds = { least: 1, otherwise: 1 };
    throws(
      () => countOption({ depth: 0 }, "depth", bounds),
      /depth must be .* ≥ 1, below 2\^53: it is 0/,
    );
    throws(() => countOption({ depth: "4kb" }, "depth", bounds), /depth/);
    throws(() => textOption({}, "to"), /to must be a text/);
    throws(() => wordOption({ way: "x" }, "way", { words: ["poll"] }), /way must be one of poll/);
    throws(() => microsecondsOption({ t: -1 }, "t", 0), /t must be a number of microseconds/);
  });
});
