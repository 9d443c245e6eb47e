import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { logLineText, logText } from "./log_text.ts";

describe("logText", () => {
  it("shows texts as they are, and other values as one would write them", () => {
    const circular: Record<string, unknown> = { rkey: 0x12n };
    circular["self"] = circular;
    assert.equal(
      logText(["at", 5, { status: "SUCCESS", list: [1, undefined, null] }, true]),
      'at 5 { status: "SUCCESS", list: [1, undefined, null] } true',
    );
    assert.equal(logText([circular]), "{ rkey: 18n, self: [circular] }");
    assert.equal(logText([Uint8Array.of(1, 255), new Map([["a", 1]])]), '2 B 01ff [["a", 1]]');
    assert.equal(logText([function post() {}, {}]), "function post {}");
    assert.match(logText([new Error("lost")]), /^Error: lost\n +at /);
  });

  it("cuts what is too long", () => {
    assert.equal(logText(["x".repeat(20_000)]).length, 16_385);
    assert.match(logText([new Uint8Array(100)]), /^100 B (00){64}…$/);
  });
});

describe("logLineText", () => {
  it("has the host and its virtual time in front", () => {
    const line = { program: "p", at: 12_345_000, text: "hello" };
    assert.equal(logLineText("a", line), "[a 12.345 us] hello");
  });
});
