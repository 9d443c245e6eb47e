import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { XP_BLOCKS, XpBuffer } from "./xp_buffer.ts";
import { seeded } from "../../../fabric/base/property_testing.ts";

/** Bytes that the medium is written for each that came in. */
function amplification(offsets: Iterable<number>): number {
  const buffer = new XpBuffer(256);
  for (const offset of offsets) buffer.take(offset);
  return buffer.bytesOut / (buffer.lines * 64);
}

function* strided(count: number, stride: number): Iterable<number> {
  for (let i = 0; i < count; i++) yield i * stride;
}

/** What {@link XpBuffer} is to do, as simply as can be said. */
class Naive {
  blocks: { block: number; lines: Set<number> }[] = [];
  out = 0;
  partial = 0;

  take(offset: number, capacity: number): void {
    const block = Math.floor(offset / 256);
    const found = this.blocks.find((each) => each.block === block) ??
      { block, lines: new Set<number>() };
    found.lines.add(offset);
    this.blocks = [...this.blocks.filter((each) => each !== found), found];
    if (this.blocks.length > capacity) this.#write(this.blocks.shift()!.lines.size);
  }

  end(): this {
    for (const { lines } of this.blocks) this.#write(lines.size);
    return this;
  }

  #write(lines: number): void {
    this.out++;
    if (lines < 4) this.partial++;
  }
}

describe("XpBuffer", () => {
  it("P-01 (in part): lines that follow each other cost the medium what came in", () => {
    assert.equal(amplification(strided(4096, 64)), 1);
  });

  it("P-01 (in part): a line of each block costs a block, and a read of the other lines", () => {
    assert.equal(amplification(strided(4096, 256)), 4);
    const buffer = new XpBuffer(256);
    for (const offset of strided(100, 512)) buffer.take(offset);
    assert.deepEqual([buffer.blocksOut, buffer.readModifyWrites], [100, 100]);
  });

  it("gathers lines that come in any order while there is room, and not beyond", () => {
    const interleaved = (blocks: number) =>
      [0, 64, 128, 192].flatMap((line) => [...strided(blocks, 256)].map((block) => block + line));
    assert.equal(amplification(interleaved(XP_BLOCKS)), 1);
    assert.equal(amplification(interleaved(XP_BLOCKS + 1)), 4);
  });

  it("counts like a list of blocks in the order of their last line", () => {
    const offsets = fc.array(fc.nat(40).map((line) => line * 64), { maxLength: 200 });
    fc.assert(
      fc.property(offsets, fc.integer({ min: 1, max: 6 }), (list, capacity) => {
        const buffer = new XpBuffer(256, capacity), naive = new Naive();
        for (const offset of list) {
          buffer.take(offset);
          naive.take(offset, capacity);
        }
        naive.end();
        assert.deepEqual([buffer.blocksOut, buffer.readModifyWrites], [naive.out, naive.partial]);
        assert.equal(buffer.lines, list.length);
      }),
      seeded(),
    );
  });
});
