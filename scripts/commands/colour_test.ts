import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { painted } from "./colour.ts";

describe("painted", () => {
  it("paints ok and FAIL at the beginning of a line, and nothing else", () => {
    const text = "ok   survives\nFAIL ends: ok it is not\nokay\nbook ok";
    const wanted = "\x1b[32mok\x1b[39m   survives\n\x1b[31mFAIL\x1b[39m ends: ok it is not\n";
    assert.equal(painted(text, true), `${wanted}okay\nbook ok`);
    assert.equal(painted(text, false), text);
  });
});
