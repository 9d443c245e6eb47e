import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import { pattern } from "../testing/host_testing.ts";
import { Imc } from "./imc.ts";
import { SparseBytes } from "./sparse_bytes.ts";

/** 256 B at 1 Tb/s. */
const BLOCK_PS = 2048;

describe("Imc", () => {
  let medium: SparseBytes;
  let imc: Imc;

  beforeEach(() => {
    medium = new SparseBytes(1 << 16);
    imc = new Imc({ medium, lines: 4, bitsPerSecond: 1e12, blockBytes: 256 });
    imc.advance(1000);
  });

  function read(offset: number, length: number): number[] {
    const bytes = new Uint8Array(length);
    imc.read(offset, bytes);
    return [...bytes];
  }

  function onMedium(offset: number, length: number): number[] {
    const bytes = new Uint8Array(length);
    medium.read(offset, bytes);
    return [...bytes];
  }

  it("P-01 (in part): a read finds accepted bytes before the medium has them", () => {
    imc.accept(60, pattern(8));
    assert.deepEqual(read(58, 12), [0, 0, ...pattern(8), 0, 0]);
    assert.deepEqual(onMedium(58, 12), Array(12).fill(0));
    assert.equal(imc.pending, 2);
    imc.advance(1000 + BLOCK_PS);
    assert.deepEqual(onMedium(60, 8), [...pattern(8)]);
    assert.equal(imc.pending, 0);
    assert.deepEqual(read(60, 8), [...pattern(8)]);
  });

  it("keeps the rest of a line of which only a part is written", () => {
    medium.write(0, pattern(64, 1));
    imc.accept(8, pattern(8, 2));
    imc.accept(24, pattern(8, 3));
    assert.equal(imc.pending, 1, "one line, written twice");
    const expected = pattern(64, 1);
    expected.set(pattern(8, 2), 8);
    expected.set(pattern(8, 3), 24);
    assert.deepEqual(read(0, 64), [...expected]);
    imc.advance(1e9);
    assert.deepEqual(onMedium(0, 64), [...expected]);
  });

  it("has no room when full, and says when it will", () => {
    for (let block = 0; block < 4; block++) imc.accept(block * 256, pattern(64));
    assert.equal(imc.freeAt(1), 1000 + BLOCK_PS);
    assert.equal(imc.freeAt(3), 1000 + 3 * BLOCK_PS);
    assert.throws(() => imc.accept(4096, pattern(64)), /full/);
    imc.advance(1000 + BLOCK_PS);
    assert.equal(imc.freeAt(1), 1000 + BLOCK_PS, "now");
    imc.accept(4096, pattern(64));
    assert.equal(imc.pendingMax, 4);
    assert.throws(() => imc.freeAt(5), /never fit/);
  });

  it("writes lines of one block that follow each other as one block", () => {
    imc.accept(0, pattern(256));
    assert.equal(imc.freeAt(4), 1000 + BLOCK_PS);
    imc.advance(1000 + BLOCK_PS);
    assert.equal(imc.pending, 0);
    for (const offset of [256, 0, 320, 64]) imc.accept(offset, pattern(64));
    assert.equal(imc.freeAt(4), 1000 + 5 * BLOCK_PS, "four blocks");
  });

  it("has room at once where the medium is done with a block as soon as it comes", () => {
    imc.accept(0, pattern(64));
    imc.advance(5000);
    for (const offset of [0, 64, 128, 192]) imc.accept(offset, pattern(64));
    assert.equal(imc.freeAt(4), 5000);
    imc.accept(0, pattern(256));
  });

  it("takes an evicted line even when full, in order with what is pending for it", () => {
    for (let block = 0; block < 4; block++) imc.accept(block * 256, pattern(64, 1));
    imc.acceptEvicted(0, pattern(64, 2));
    imc.acceptEvicted(4096, pattern(64, 3));
    assert.equal(imc.overflows, 1);
    assert.deepEqual([imc.accepted, imc.combined, imc.acceptedBytes], [6, 1, 6 * 64]);
    imc.advance(1e9);
    assert.deepEqual(onMedium(0, 64), [...pattern(64, 2)]);
    assert.deepEqual(onMedium(4096, 64), [...pattern(64, 3)]);
  });

  it("V-03: a range is on the medium when its last line is, whatever is pending beside it", () => {
    for (let block = 0; block < 3; block++) imc.accept(block * 256 + 64, pattern(64));
    assert.equal(imc.drainedAt(256 + 64, 64), 1000 + 2 * BLOCK_PS);
    assert.equal(imc.drainedAt(256 + 127, 1), 1000 + 2 * BLOCK_PS);
    assert.equal(imc.drainedAt(0, 1024), 1000 + 3 * BLOCK_PS);
    assert.equal(imc.drainedAt(256, 64), 1000, "the line behind the range");
    assert.equal(imc.drainedAt(256 + 128, 64), 1000, "the line before it");
    imc.advance(1000 + 2 * BLOCK_PS);
    assert.equal(imc.drainedAt(256 + 64, 64), 1000 + 2 * BLOCK_PS, "now");
  });

  it("an eviction past a full queue delays what comes after it", () => {
    for (let block = 0; block < 4; block++) imc.accept(block * 256, pattern(64));
    imc.acceptEvicted(4096, pattern(64));
    imc.advance(1000 + BLOCK_PS);
    imc.accept(8192, pattern(64));
    assert.equal(imc.freeAt(4), 1000 + 6 * BLOCK_PS);
  });
});
