import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { pattern } from "../testing/host_testing.ts";
import { type MemoryModule, Wpq } from "./wpq.ts";
import { SparseBytes } from "./sparse_bytes.ts";

/** 256 B at 1 Tb/s. */
const BLOCK_PS = 2048;
const CAPACITY = 4, BYTES = 2048, BLOCK_BYTES = 256;

/** A module that takes a line of the block before at once, and any other after a block's time. */
function blocks(): MemoryModule {
  let busyUntil = 0, last = -1;
  return {
    take: (offset, from) => {
      const block = Math.floor(offset / BLOCK_BYTES);
      busyUntil = Math.max(busyUntil, from) + (block === last ? 0 : BLOCK_PS);
      last = block;
      return busyUntil;
    },
  };
}

function queueBefore(medium: SparseBytes): Wpq {
  return new Wpq({ medium, lines: CAPACITY, module: blocks(), inModule: (offset) => offset });
}

describe("Wpq", () => {
  let medium: SparseBytes;
  let queue: Wpq;

  beforeEach(() => {
    medium = new SparseBytes(1 << 16);
    queue = queueBefore(medium);
    queue.advance(1000);
  });

  function read(offset: number, length: number): number[] {
    const bytes = new Uint8Array(length);
    medium.read(offset, bytes);
    queue.overlay(offset, bytes);
    return [...bytes];
  }

  function onMedium(offset: number, length: number): number[] {
    const bytes = new Uint8Array(length);
    medium.read(offset, bytes);
    return [...bytes];
  }

  it("P-01 (in part): a read finds accepted bytes before the medium has them", () => {
    queue.accept(60, pattern(8));
    assert.deepEqual(read(58, 12), [0, 0, ...pattern(8), 0, 0]);
    assert.deepEqual(onMedium(58, 12), Array(12).fill(0));
    assert.equal(queue.pending, 2);
    queue.advance(1000 + BLOCK_PS);
    assert.deepEqual(onMedium(60, 8), [...pattern(8)]);
    assert.equal(queue.pending, 0);
    assert.deepEqual(read(60, 8), [...pattern(8)]);
  });

  it("keeps the rest of a line of which only a part is written", () => {
    medium.write(0, pattern(64, 1));
    queue.accept(8, pattern(8, 2));
    queue.accept(24, pattern(8, 3));
    assert.equal(queue.pending, 1, "one line, written twice");
    const expected = pattern(64, 1);
    expected.set(pattern(8, 2), 8);
    expected.set(pattern(8, 3), 24);
    assert.deepEqual(read(0, 64), [...expected]);
    queue.advance(1e9);
    assert.deepEqual(onMedium(0, 64), [...expected]);
  });

  it("has no room when full, and says when it will", () => {
    for (let block = 0; block < 4; block++) queue.accept(block * 256, pattern(64));
    assert.equal(queue.freeAt(1), 1000 + BLOCK_PS);
    assert.equal(queue.freeAt(3), 1000 + 3 * BLOCK_PS);
    assert.throws(() => queue.accept(4096, pattern(64)), /full/);
    queue.advance(1000 + BLOCK_PS);
    assert.equal(queue.freeAt(1), 1000 + BLOCK_PS, "now");
    queue.accept(4096, pattern(64));
    assert.equal(queue.pendingMax, 4);
    assert.throws(() => queue.freeAt(5), /never fit/);
  });

  it("writes lines of one block that follow each other as one block", () => {
    queue.accept(0, pattern(256));
    assert.equal(queue.freeAt(4), 1000 + BLOCK_PS);
    queue.advance(1000 + BLOCK_PS);
    assert.equal(queue.pending, 0);
    for (const offset of [256, 0, 320, 64]) queue.accept(offset, pattern(64));
    assert.equal(queue.freeAt(4), 1000 + 5 * BLOCK_PS, "four blocks");
  });

  it("has room at once where the medium is done with a block as soon as it comes", () => {
    queue.accept(0, pattern(64));
    queue.advance(5000);
    for (const offset of [0, 64, 128, 192]) queue.accept(offset, pattern(64));
    assert.equal(queue.freeAt(4), 5000);
    queue.accept(0, pattern(256));
  });

  it("takes an evicted line even when full, in order with what is pending for it", () => {
    for (let block = 0; block < 4; block++) queue.accept(block * 256, pattern(64, 1));
    queue.acceptEvicted(0, pattern(64, 2));
    queue.acceptEvicted(4096, pattern(64, 3));
    assert.equal(queue.overflows, 1);
    assert.deepEqual([queue.accepted, queue.combined], [6, 1]);
    queue.advance(1e9);
    assert.deepEqual(onMedium(0, 64), [...pattern(64, 2)]);
    assert.deepEqual(onMedium(4096, 64), [...pattern(64, 3)]);
  });

  it("V-03: a range is on the medium when its last line is, whatever is pending beside it", () => {
    for (let block = 0; block < 3; block++) queue.accept(block * 256 + 64, pattern(64));
    assert.equal(queue.drainedAt(256 + 64, 64), 1000 + 2 * BLOCK_PS);
    assert.equal(queue.drainedAt(256 + 127, 1), 1000 + 2 * BLOCK_PS);
    assert.equal(queue.drainedAt(0, 1024), 1000 + 3 * BLOCK_PS);
    assert.equal(queue.drainedAt(256, 64), 1000, "the line behind the range");
    assert.equal(queue.drainedAt(256 + 128, 64), 1000, "the line before it");
    queue.advance(1000 + 2 * BLOCK_PS);
    assert.equal(queue.drainedAt(256 + 64, 64), 1000 + 2 * BLOCK_PS, "now");
  });

  it("an eviction past a full queue delays what comes after it", () => {
    for (let block = 0; block < 4; block++) queue.accept(block * 256, pattern(64));
    queue.acceptEvicted(4096, pattern(64));
    queue.advance(1000 + BLOCK_PS);
    queue.accept(8192, pattern(64));
    assert.equal(queue.freeAt(4), 1000 + 6 * BLOCK_PS);
  });
});

/** What {@link Wpq} is to do, as simply as can be said: a list of lines in the order of coming. */
class Naive {
  readonly medium = new Uint8Array(BYTES);
  queue: { line: number; drainAt: number; readonly bytes: Uint8Array }[] = [];
  combined = 0;
  overflows = 0;
  now = 0;
  #busyUntil = 0;
  #lastBlock = -1;

  advance(now: number): void {
    this.now = now;
    for (const { line, bytes } of this.queue.filter(({ drainAt }) => drainAt <= now)) {
      this.medium.set(bytes, line);
    }
    this.queue = this.queue.filter(({ drainAt }) => drainAt > now);
  }

  /** Bytes of one line; past a full queue where it `isEvicted`. */
  put(offset: number, bytes: Uint8Array, isEvicted: boolean): void {
    const line = offset - offset % 64;
    const known = this.queue.find((each) => each.line === line);
    if (known !== undefined) {
      this.combined++;
      known.bytes.set(bytes, offset - line);
      return;
    }
    const drainAt = this.#occupy(line);
    if (isEvicted && this.queue.length === CAPACITY) {
      this.overflows++;
      this.medium.set(bytes, line);
      return;
    }
    const whole = this.medium.slice(line, line + 64);
    whole.set(bytes, offset - line);
    this.queue.push({ line, drainAt, bytes: whole });
  }

  #occupy(line: number): number {
    const block = Math.floor(line / BLOCK_BYTES);
    const isSame = block === this.#lastBlock;
    this.#lastBlock = block;
    return this.#busyUntil = Math.max(this.#busyUntil, this.now) + (isSame ? 0 : BLOCK_PS);
  }

  freeAt(lines: number): number {
    const excess = this.queue.length + lines - CAPACITY;
    return excess <= 0 ? this.now : this.queue[excess - 1]!.drainAt;
  }

  drainedAt(from: number, to: number): number {
    const inside = this.queue.filter(({ line }) => line < to && line + 64 > from);
    return Math.max(this.now, ...inside.map(({ drainAt }) => drainAt));
  }

  seen(): Uint8Array {
    const bytes = this.medium.slice();
    for (const { line, bytes: pending } of this.queue) bytes.set(pending, line);
    return bytes;
  }
}

describe("Wpq, whatever comes", () => {
  const operation = fc.record({
    kind: fc.constantFrom("accept", "accept", "evict", "wait"),
    /** Few lines, so that they meet; the queue goes round often. */
    offset: fc.oneof(fc.nat(BYTES - 129), fc.nat(500)),
    length: fc.integer({ min: 1, max: 128 }),
    after: fc.constantFrom(0, 0, BLOCK_PS / 2, BLOCK_PS, 3 * BLOCK_PS),
  });

  it("P-01, V-03: is a queue of lines in the order of coming, each once, with its time, that loses no byte", () => {
    let rounds = 0, full = 0;
    fc.assert(
      fc.property(fc.array(operation, { minLength: 30, maxLength: 80 }), (operations) => {
        const medium = new SparseBytes(BYTES), naive = new Naive();
        const queue = queueBefore(medium);
        const to = (now: number) => (queue.advance(now), naive.advance(now));
        to(1000);
        let salt = 0;
        for (const { kind, offset, length, after } of operations) {
          to(naive.now + after);
          if (kind === "evict") {
            const line = offset - offset % 64, bytes = pattern(64, ++salt);
            queue.acceptEvicted(line, bytes);
            naive.put(line, bytes, true);
          } else if (kind === "accept") {
            const bytes = pattern(length, ++salt);
            const lines = Math.floor((offset + length - 1) / 64) - Math.floor(offset / 64) + 1;
            assert.equal(queue.freeAt(lines), naive.freeAt(lines));
            to(naive.freeAt(lines));
            queue.accept(offset, bytes);
            for (let done = 0; done < length;) {
              const part = Math.min(64 - (offset + done) % 64, length - done);
              naive.put(offset + done, bytes.subarray(done, done + part), false);
              done += part;
            }
            rounds += lines;
          }
          if (naive.queue.length === CAPACITY) full++;
          assert.equal(queue.pending, naive.queue.length);
          assert.deepEqual([queue.combined, queue.overflows], [naive.combined, naive.overflows]);
          assert.equal(queue.drainedAt(offset, length), naive.drainedAt(offset, offset + length));
          const seen = new Uint8Array(BYTES), there = new Uint8Array(BYTES);
          medium.read(0, there);
          seen.set(there);
          queue.overlay(0, seen);
          assert.deepEqual(seen, naive.seen());
          assert.deepEqual(there, naive.medium);
        }
      }),
      seeded({ numRuns: 60 }),
    );
    assert.ok(rounds > 10 * CAPACITY && full > 100, `${rounds} lines, ${full} times full`);
  });
});
