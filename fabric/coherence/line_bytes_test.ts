import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { BYTE_CONTENTS } from "./line_bytes.ts";
import { WHOLE_LINE } from "../wire/host_bus/line_change.ts";

const old = Uint8Array.from({ length: 64 }, (_, i) => i);
const bytes = Uint8Array.from({ length: 64 }, (_, i) => 0x80 + i);

describe("BYTE_CONTENTS.apply", () => {
  it("writes the bytes whose bit is in the mask, wherever the range begins and ends", () => {
    for (let from = 0; from < 64; from++) {
      for (let to = from + 1; to <= 64; to++) {
        const mask = ((1n << BigInt(to - from)) - 1n) << BigInt(from);
        const expected = old.slice();
        expected.set(bytes.subarray(from, to), from);
        const changed = BYTE_CONTENTS.apply(old, { kind: "write", mask, bytes });
        assert.deepEqual(changed, expected, `bytes ${from} to ${to}`);
      }
    }
    assert.deepEqual(old, Uint8Array.from({ length: 64 }, (_, i) => i), "the old line stays");
  });

  it("needs nothing of what was there for a whole line, whose bytes it copies", () => {
    const line = bytes.slice();
    const changed = BYTE_CONTENTS.apply("lost", { kind: "write", mask: WHOLE_LINE, bytes: line });
    line[0] = 1;
    assert.deepEqual(changed, bytes);
    assert.equal(BYTE_CONTENTS.apply("lost", { kind: "write", mask: 1n, bytes }), null);
  });

  it("adds and swaps the 8 bytes at an offset", () => {
    const added = BYTE_CONTENTS.apply(old, { kind: "add", offset: 56, operand: 1n }) as Uint8Array;
    assert.deepEqual([...added.subarray(55)], [55, 57, 57, 58, 59, 60, 61, 62, 63]);
    const compare = 0x0706050403020100n;
    const swap = { kind: "compare-swap", offset: 0, compare, swap: 7n } as const;
    const swapped = BYTE_CONTENTS.apply(old, swap) as Uint8Array;
    assert.deepEqual([...swapped.subarray(0, 9)], [7, 0, 0, 0, 0, 0, 0, 0, 8]);
    assert.deepEqual(BYTE_CONTENTS.apply(old, { ...swap, compare: 1n }), old);
  });
});
