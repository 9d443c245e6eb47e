import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { notPlain } from "./report_data.ts";

describe("notPlain", () => {
  it("lets pass what every process reads alike", () => {
    for (
      const value of [
        undefined,
        null,
        1.5,
        NaN,
        "text",
        true,
        2n ** 63n,
        new Uint8Array(2),
        [1, [2, { three: null }]],
        { a: { b: undefined } },
        Object.create(null),
      ]
    ) assert.equal(notPlain(value), undefined);
  });

  it("names what is lost or changed on the way, and where it is", () => {
    class Tail {}
    const itself: Record<string, unknown> = {};
    itself.me = itself;
    assert.equal(notPlain(() => 1), "a function");
    assert.equal(notPlain({ a: [0, Symbol("x")] }), "a symbol at .a[1]");
    assert.equal(notPlain({ like: /x/ }), "a RegExp at .like");
    assert.equal(notPlain([{ found: new Map() }]), "a Map at [0].found");
    assert.equal(notPlain({ tail: new Tail() }), "a Tail at .tail");
    assert.equal(notPlain({ va: 2n ** 64n }), "a bigint of more than 64 bits at .va");
    assert.match(notPlain(itself)!, /more than 64 times/);
  });
});
