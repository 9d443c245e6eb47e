import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { seeded } from "./property_testing.ts";
import { textOf } from "./text_table.ts";

const encoder = new TextEncoder();

describe("textOf", () => {
  it("decodes any part of any bytes, also where others with the same place in the table came before", () => {
    fc.assert(
      fc.property(
        fc.string({ unit: "grapheme", maxLength: 300 }),
        fc.uint8Array({ maxLength: 8 }),
        (text, before) => {
          const bytes = encoder.encode(text);
          const within = new Uint8Array([...before, ...bytes, 7]);
          const from = before.length, to = from + bytes.length;
          for (let i = 0; i < 2; i++) assert.equal(textOf(within, from, to), text);
        },
      ),
      seeded(),
    );
    for (const text of ["\ufeffname", "\ufeff".repeat(300)]) {
      const bytes = encoder.encode(text);
      assert.equal(textOf(bytes, 0, bytes.length), text);
    }
    for (let i = 0; i < 20_000; i++) {
      const bytes = encoder.encode(`node-${i}`);
      assert.equal(textOf(bytes, 0, bytes.length), `node-${i}`);
    }
  });

  it("keeps nothing of the bytes that it was given, and no hash for a text", () => {
    // Both have the same hash.
    const bytes = encoder.encode("Aa");
    assert.equal(textOf(bytes, 0, 2), "Aa");
    bytes.set(encoder.encode("BB"));
    assert.equal(textOf(bytes, 0, 2), "BB");
    assert.equal(textOf(encoder.encode("Aa"), 0, 2), "Aa");
  });
});
