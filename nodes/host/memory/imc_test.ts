import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { pattern } from "../testing/host_testing.ts";
import { Imc } from "./imc.ts";
import { SparseBytes } from "./sparse_bytes.ts";
import type { MemoryModule } from "./wpq.ts";

const LINE_PS = 100, CHANNELS = 3, INTERLEAVE = 256, LINES = 8;

/** A module that notes where its lines are, and takes one every {@link LINE_PS}. */
class Slow implements MemoryModule {
  readonly taken: number[] = [];
  #freeAt = 0;

  take(offset: number, from: number): number {
    this.taken.push(offset);
    return this.#freeAt = Math.max(this.#freeAt, from) + LINE_PS;
  }
}

describe("Imc", () => {
  let medium: SparseBytes;
  let modules: Slow[];
  let imc: Imc;

  beforeEach(() => {
    medium = new SparseBytes(1 << 16);
    modules = Array.from({ length: CHANNELS }, () => new Slow());
    imc = new Imc({ medium, modules, interleaveBytes: INTERLEAVE, lines: LINES });
    imc.advance(1000);
  });

  it("gives each channel every third unit, which lie together in its module", () => {
    for (let unit = 0; unit < 7; unit++) imc.accept(unit * INTERLEAVE, pattern(64));
    assert.deepEqual(modules.map(({ taken }) => taken), [
      [0, INTERLEAVE, 2 * INTERLEAVE],
      [0, INTERLEAVE],
      [0, INTERLEAVE],
    ]);
    assert.deepEqual(imc.placeOf(4 * INTERLEAVE + 8), { channel: 1, inModule: INTERLEAVE + 8 });
  });

  it("has room in one channel while another's queue is full", () => {
    imc.accept(0, pattern(256));
    imc.accept(CHANNELS * INTERLEAVE, pattern(256));
    assert.equal(imc.freeAt(0, 64), 1000 + LINE_PS);
    assert.equal(imc.freeAt(INTERLEAVE, 256), 1000);
    assert.equal(imc.freeAt(INTERLEAVE - 64, 128), 1000 + LINE_PS, "a range of both");
    assert.equal(imc.pendingMax, LINES);
  });

  it("V-03: a range is with the modules when each of its channels has no line of it", () => {
    imc.accept(0, pattern(512));
    assert.equal(imc.drainedAt(0, 256), 1000 + 4 * LINE_PS);
    assert.equal(imc.drainedAt(192, 128), 1000 + 4 * LINE_PS);
    assert.equal(imc.drainedAt(INTERLEAVE, 64), 1000 + LINE_PS);
    assert.equal(imc.drainedAt(2 * INTERLEAVE, 64), 1000);
  });

  it("P-01 (in part): loses no byte of what comes over all channels, read before and after it drains", () => {
    const write = fc.record({
      offset: fc.nat(4000),
      length: fc.integer({ min: 1, max: 600 }),
      isEvicted: fc.boolean(),
      after: fc.constantFrom(0, LINE_PS, 5 * LINE_PS),
    });
    fc.assert(
      fc.property(fc.array(write, { maxLength: 60 }), (writes) => {
        const medium = new SparseBytes(8192), expected = new Uint8Array(8192);
        const modules = Array.from({ length: CHANNELS }, () => new Slow());
        const imc = new Imc({ medium, modules, interleaveBytes: INTERLEAVE, lines: LINES });
        let now = 0, salt = 0;
        for (const { offset, length, isEvicted, after } of writes) {
          imc.advance(now += after);
          const at = isEvicted ? offset - offset % 64 : offset;
          const bytes = pattern(isEvicted ? 64 : length, ++salt);
          if (isEvicted) imc.acceptEvicted(at, bytes);
          else {
            imc.advance(now = Math.max(now, imc.freeAt(at, length)));
            imc.accept(at, bytes);
          }
          expected.set(bytes, at);
          const seen = new Uint8Array(8192), part = new Uint8Array(100);
          imc.read(0, seen);
          imc.read(at, part);
          assert.deepEqual(seen, expected);
          assert.deepEqual(part, expected.slice(at, at + 100));
        }
        const lastAt = imc.drainedAt(0, 8192);
        imc.advance(lastAt);
        const there = new Uint8Array(8192);
        medium.read(0, there);
        assert.deepEqual(there, expected);
        assert.equal(imc.pending, 0);
      }),
      seeded({ numRuns: 60 }),
    );
  });
});
