import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CHUNK_BYTES, SparseBytes } from "./sparse_bytes.ts";

function read(memory: SparseBytes, offset: number, length: number): number[] {
  const bytes = new Uint8Array(length).fill(0xee);
  memory.read(offset, bytes);
  return [...bytes];
}

describe("SparseBytes", () => {
  it("reads zeros, and holds nothing, where nothing was written", () => {
    const memory = new SparseBytes(2 ** 36);
    assert.deepEqual(read(memory, 2 ** 36 - 3, 3), [0, 0, 0]);
    assert.equal(memory.residentBytes, 0);
  });

  it("keeps what is written across chunks", () => {
    const memory = new SparseBytes(3 * CHUNK_BYTES);
    memory.write(CHUNK_BYTES - 2, Uint8Array.of(1, 2, 3, 4));
    assert.deepEqual(read(memory, CHUNK_BYTES - 3, 6), [0, 1, 2, 3, 4, 0]);
    assert.equal(memory.residentBytes, 2 * CHUNK_BYTES);
  });

  it("begins with the image, and asks for each chunk once", () => {
    const asked: number[] = [];
    const memory = new SparseBytes(2 * CHUNK_BYTES + 10, (offset, length) => {
      asked.push(offset);
      return new Uint8Array(length).fill(offset === 0 ? 0 : 7);
    });
    assert.deepEqual(read(memory, 2 * CHUNK_BYTES + 8, 2), [7, 7]);
    memory.write(2 * CHUNK_BYTES, Uint8Array.of(9));
    assert.deepEqual(read(memory, 2 * CHUNK_BYTES, 2), [9, 7]);
    read(memory, 0, 1);
    assert.equal(memory.residentBytes, CHUNK_BYTES, "a chunk of zeros is not held");
    memory.write(3, Uint8Array.of(1));
    assert.deepEqual(read(memory, 2, 3), [0, 1, 0]);
    assert.deepEqual(asked, [2 * CHUNK_BYTES, 0]);
  });

  it("touch takes the image as it is now", () => {
    let value = 1;
    const memory = new SparseBytes(
      2 * CHUNK_BYTES,
      (_, length) => new Uint8Array(length).fill(value),
    );
    memory.touch(CHUNK_BYTES - 1, 1);
    value = 2;
    assert.deepEqual(read(memory, CHUNK_BYTES - 1, 2), [1, 2]);
  });

  it("touch takes the image of every chunk of the range, and of none beside it", () => {
    const asked: number[] = [];
    const memory = new SparseBytes(5 * CHUNK_BYTES, (offset, length) => {
      asked.push(offset / CHUNK_BYTES);
      return new Uint8Array(length).fill(7);
    });
    memory.touch(2 * CHUNK_BYTES - 1, CHUNK_BYTES + 2);
    assert.deepEqual(asked, [1, 2, 3]);
    memory.touch(0, 0);
    memory.touch(CHUNK_BYTES, CHUNK_BYTES);
    assert.deepEqual(asked, [1, 2, 3]);
  });

  it("refuses what is outside", () => {
    const memory = new SparseBytes(100);
    assert.throws(() => memory.write(99, Uint8Array.of(1, 2)), /100 B/);
    assert.throws(() => memory.read(-1, new Uint8Array(1)), /100 B/);
  });
});
