import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decode, encode } from "../../../fabric/bus/codec.ts";
import { notPlain, REPORT_LIMITS, reported } from "./report_data.ts";

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
    assert.match(notPlain(itself)!, /^an object in an object more than 24 times$/);
  });
});

/** A list in a list, so many times. */
function nested(depth: number): unknown {
  let value: unknown = 1;
  for (let i = 0; i < depth; i++) value = [value];
  return value;
}

describe("reported", () => {
  it("takes what is just within the limits, which a final reply carries", () => {
    const { depth, bytes, topicLength } = REPORT_LIMITS;
    const value = nested(depth);
    reported("x".repeat(topicLength), value);
    const reply = { partition: "a", reports: [{ time: 1, node: "a", topic: "x", value }] };
    assert.deepEqual(decode(encode(reply)), reply);
    reported("result", new Uint8Array(bytes - 5));
    reported("output", { path: "x", bytes: new Uint8Array(2 * bytes) });
  });

  it("P-41: is a copy, so that what is reported is what was there when it was reported", () => {
    const latencies = [5, 6], bytes = Uint8Array.of(1, 2);
    const told = reported("result", { latencies, bytes, left: undefined, va: 2n ** 60n });
    latencies.push(7);
    bytes.fill(9);
    const then = { latencies: [5, 6], bytes: Uint8Array.of(1, 2), left: undefined, va: 2n ** 60n };
    assert.deepEqual(told, then);
  });

  it("refuses what is deeper, longer, nothing, or without a topic, and says what was expected", () => {
    const refused = (topic: unknown, value: unknown, text: RegExp) =>
      assert.throws(() => reported(topic, value), text);
    refused("result", nested(REPORT_LIMITS.depth + 1), /found an object in .* more than 24 times/);
    refused(
      "result",
      new Uint8Array(REPORT_LIMITS.bytes),
      /found 4194309 B, expected at most 4194304 B/,
    );
    refused("result", undefined, /"result": found undefined, expected plain data/);
    refused(Symbol("x"), 1, /found a symbol as topic, expected a text of 1 to 64 characters/);
    refused("", 1, /found "" as topic/);
    for (const topic of ["program-ended", "program-failed", "unfinished", "rnic-event", "held"]) {
      refused(
        topic,
        {},
        /found topic "[\w-]+", expected another topic: the host and its card report/,
      );
    }
  });
});
