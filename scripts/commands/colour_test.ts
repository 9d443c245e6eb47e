import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { painted } from "./colour.ts";

const TEXT = "ok   survives\nFAIL ends: ok it is not\nokay\nbook ok";
const ON = { isTerminal: true, noColor: undefined, term: "xterm" };

describe("painted", () => {
  it("paints ok and FAIL at the beginning of a line, and nothing else", () => {
    const wanted = "\x1b[32mok\x1b[39m   survives\n\x1b[31mFAIL\x1b[39m ends: ok it is not\n";
    assert.equal(painted(TEXT, ON), `${wanted}okay\nbook ok`);
  });

  it("leaves a text as it is on no terminal, with NO_COLOR, and on a dumb terminal", () => {
    assert.equal(painted(TEXT, { ...ON, isTerminal: false }), TEXT);
    assert.equal(painted(TEXT, { ...ON, noColor: "1" }), TEXT);
    assert.equal(painted(TEXT, { ...ON, noColor: "0" }), TEXT);
    assert.equal(painted(TEXT, { ...ON, term: "dumb" }), TEXT);
  });

  it("takes an empty NO_COLOR as none", () => {
    assert.notEqual(painted(TEXT, { ...ON, noColor: "" }), TEXT);
  });
});
