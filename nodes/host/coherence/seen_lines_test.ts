import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { SeenLines } from "./seen_lines.ts";

describe("SeenLines", () => {
  it("has what was set last, a copy of it", () => {
    const seen = new SeenLines(), line = Uint8Array.of(1, 2);
    seen.set(3, line);
    line[0] = 9;
    assert.deepEqual(seen.get(3), Uint8Array.of(1, 2));
    seen.set(3, Uint8Array.of(5, 6));
    assert.deepEqual(seen.get(3), Uint8Array.of(5, 6));
    seen.delete(3);
    assert.equal(seen.get(3), undefined);
    assert.equal(seen.get(4), undefined);
  });

  it("keeps the last 256 lines, and 512 at most", () => {
    const seen = new SeenLines();
    for (let line = 0; line < 2_000; line++) seen.set(line, Uint8Array.of(line & 0xff));
    const kept = Array.from({ length: 2_000 }, (_, line) => line).filter((line) => seen.get(line));
    assert.ok(kept.length >= 256 && kept.length <= 512, `${kept.length} lines`);
    assert.deepEqual(kept, kept.map((_, i) => 2_000 - kept.length + i), "the last ones");
    assert.deepEqual(seen.get(1_999), Uint8Array.of(1_999 & 0xff));
  });

  it("does not find old bytes of a line that was set again, or deleted", () => {
    const seen = new SeenLines();
    seen.set(1, Uint8Array.of(1));
    seen.set(2, Uint8Array.of(1));
    for (let line = 1_000; line < 1_256; line++) seen.set(line, Uint8Array.of(0));
    assert.deepEqual(seen.get(1), Uint8Array.of(1), "among the older ones");
    seen.set(1, Uint8Array.of(2));
    seen.delete(2);
    assert.deepEqual(seen.get(1), Uint8Array.of(2));
    assert.equal(seen.get(2), undefined);
    seen.delete(1);
    assert.equal(seen.get(1), undefined);
  });
});
