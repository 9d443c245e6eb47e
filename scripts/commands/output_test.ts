import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { visible } from "./output.ts";

describe("visible", () => {
  it("shows what a terminal would obey, and leaves lines and colours", () => {
    assert.equal(visible("\x1b]0;title\x07\x9b31m\r\x7f"), "\\x1b]0;title\\x07\\x9b31m\\x0d\\x7f");
    assert.equal(visible("a\tb\n\x1b[32mok\x1b[0m é"), "a\tb\n\x1b[32mok\x1b[0m é");
  });
});
