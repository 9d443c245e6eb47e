import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { BUFFER_BLOCKS, ScmModule } from "./scm_module.ts";

/** 256 B in 40 and in 120 ps. */
const READ_PS = 40, WRITE_PS = 120, LINE_PS = 3, MEDIUM_PS = 180;
const PLAN = {
  readBitsPerSecond: 2048 / READ_PS * 1e12,
  writeBitsPerSecond: 2048 / WRITE_PS * 1e12,
  linePs: LINE_PS,
  mediumPs: MEDIUM_PS,
};

/** Lines one after the other, each as soon as the module has the one before. @returns when it has the last. */
function write(module: ScmModule, offsets: Iterable<number>, from = 0): number {
  let at = from;
  for (const offset of offsets) at = module.take(offset, at);
  return at;
}

function* strided(count: number, stride: number, first = 0): Iterable<number> {
  for (let i = 0; i < count; i++) yield first + i * stride;
}

/** Bytes that the medium is written for each that came in. */
function amplification(offsets: Iterable<number>): number {
  const module = new ScmModule(PLAN);
  write(module, offsets);
  return module.blocksOut * 256 / (module.lines * 64);
}

describe("ScmModule, written", () => {
  it("P-01 (in part): lines that follow each other cost the medium what came in, a line of each block four times it", () => {
    assert.equal(amplification(strided(4096, 64)), 1);
    assert.equal(amplification(strided(4096, 256)), 4);
    const module = new ScmModule(PLAN);
    write(module, strided(100, 512));
    assert.deepEqual([module.blocksOut, module.readModifyWrites], [100, 100]);
  });

  it("gathers lines that come in any order while there is room, and not beyond", () => {
    const interleaved = (blocks: number) =>
      [0, 64, 128, 192].flatMap((line) => [...strided(blocks, 256)].map((block) => block + line));
    assert.equal(amplification(interleaved(BUFFER_BLOCKS)), 1);
    assert.equal(amplification(interleaved(BUFFER_BLOCKS + 1)), 4);
  });

  it("takes lines at the interface's rate until the buffer is full, then at the medium's", () => {
    const module = new ScmModule(PLAN), lines = 4 * BUFFER_BLOCKS;
    assert.equal(write(module, strided(lines, 64)), lines * LINE_PS);
    const from = write(module, strided(4000, 64, lines * 64));
    const to = write(module, strided(4000, 64, lines * 64 + 256_000), from);
    assert.ok(Math.abs((to - from) / (1000 * WRITE_PS) - 1) < 0.01, `${to - from} ps`);
  });

  it("amplified writes cost the medium's time: a line of each block goes at a quarter of the rate", () => {
    const rates = [64, 256].map((stride) => {
      const module = new ScmModule(PLAN);
      const from = write(module, strided(4000, stride));
      return write(module, strided(4000, stride, 4000 * stride), from) - from;
    });
    const more = 4 * (WRITE_PS + LINE_PS) / WRITE_PS;
    assert.ok(Math.abs(rates[1]! / rates[0]! - more) < 0.05, rates.join());
  });

  it("more lines of a block that the medium is at wait until it has it, those of one that is queued join", () => {
    const module = new ScmModule(PLAN);
    const at = write(module, strided(8, 64));
    assert.equal(at, 8 * LINE_PS);
    assert.equal(module.take(256, at), at + LINE_PS, "the second block is queued");
    assert.equal(module.blocksOut, 2);
    const doneAt = 4 * LINE_PS + WRITE_PS;
    assert.equal(module.take(0, at), doneAt + LINE_PS);
    assert.equal(module.blocksOut, 3);
  });

  it("counts as many blocks as lists of filling and queued blocks do, and never goes back in time", () => {
    const offsets = fc.array(fc.nat(40).map((line) => line * 64), { maxLength: 300 });
    fc.assert(
      fc.property(offsets, fc.integer({ min: 1, max: 6 }), (list, capacity) => {
        const module = new ScmModule(PLAN, capacity), naive = new Naive(capacity);
        let at = 0;
        for (const offset of list) {
          const taken = module.take(offset, at);
          assert.ok(taken > at);
          assert.equal(taken, naive.take(offset, at));
          at = taken;
        }
        assert.deepEqual(
          [module.blocksOut, module.readModifyWrites, module.lines],
          [naive.started.length + naive.filling.length, naive.partial, list.length],
        );
      }),
      seeded(),
    );
  });
});

/** What {@link ScmModule} does, as lists. */
class Naive {
  filling: { block: number; lines: Set<number> }[] = [];
  /** Every block ever queued for the medium. */
  started: { block: number; doneAt: number }[] = [];
  /** Those whose room is not used again. */
  writing: { block: number; doneAt: number }[] = [];
  evicted = 0;
  now = 0;
  /** Blocks that were read, or read ahead, oldest first. */
  buffered: { block: number; at: number }[] = [];
  /** When the medium has done what it was given to write, and to read; and what is to be read ahead. */
  writesUntil = 0;
  readsUntil = 0;
  aheadUntil = 0;
  run: number[] = [];
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get partial(): number {
    return this.evicted + this.filling.length;
  }

  readableAt(offset: number, at: number): number {
    const block = Math.floor(offset / 256), readable = this.#readable(block, at);
    if (block === this.run.at(-1)) return readable;
    this.run = block - 1 === this.run.at(-1) ? [...this.run, block] : [block];
    if (this.run.length < 2) return readable;
    this.aheadUntil = Math.max(this.aheadUntil, this.readsUntil, at);
    for (let next = block + 1; next <= block + Math.min(2 * this.run.length, 16); next++) {
      const isKnown = [...this.filling, ...this.writing, ...this.buffered].some((each) =>
        each.block === next
      );
      if (isKnown) continue;
      this.#keep(next, this.aheadUntil + MEDIUM_PS);
      this.aheadUntil += READ_PS;
    }
    return readable;
  }

  #readable(block: number, at: number): number {
    const writing = this.started.findLast((each) => each.block === block);
    if (this.filling.some((each) => each.block === block)) return at;
    if (writing !== undefined && writing.doneAt > at) {
      return writing.doneAt - WRITE_PS > at ? at : writing.doneAt;
    }
    // Behind the rest of the write under way, and what was asked for before.
    const rest = Math.max(0, this.writesUntil - at) % WRITE_PS;
    const from = Math.max(at + rest, this.readsUntil), readable = from + MEDIUM_PS;
    const known = this.buffered.find((each) => each.block === block);
    if (known !== undefined && known.at <= readable) return Math.max(at, known.at);
    this.readsUntil = from + READ_PS;
    this.writesUntil = Math.max(this.writesUntil, at) + READ_PS;
    this.aheadUntil = Math.max(this.aheadUntil + READ_PS, this.readsUntil);
    this.#keep(block, readable);
    return readable;
  }

  #keep(block: number, at: number): void {
    const known = this.buffered.find((each) => each.block === block);
    if (known !== undefined) known.at = at;
    else this.buffered = [...this.buffered, { block, at }].slice(-BUFFER_BLOCKS);
  }

  take(offset: number, from: number): number {
    const block = Math.floor(offset / 256);
    let at = Math.max(from, this.now);
    const before = this.started.findLast((each) => each.block === block);
    if (before === undefined || at >= before.doneAt - WRITE_PS) {
      let found = this.filling.find((each) => each.block === block);
      if (found === undefined) {
        at = this.#roomAt(Math.max(at, before?.doneAt ?? 0));
        found = { block, lines: new Set() };
        this.buffered = this.buffered.filter((each) => each.block !== block);
      }
      found.lines.add(offset);
      this.filling = this.filling.filter((each) => each !== found);
      if (found.lines.size === 4) this.#start(block, at + LINE_PS);
      else this.filling.push(found);
    }
    return this.now = at + LINE_PS;
  }

  #roomAt(at: number): number {
    const busy = this.writing = this.#busy(at);
    if (this.filling.length + busy.length < this.#capacity) return at;
    if (busy.length === 0) {
      this.evicted++;
      const doneAt = this.#start(this.filling.shift()!.block, at);
      this.writing = [];
      return doneAt;
    }
    this.writing = busy.slice(1);
    return busy[0]!.doneAt;
  }

  /** Only the last time that a block was queued counts. */
  #busy(at: number) {
    return this.started.filter(({ block, doneAt }, i) =>
      doneAt > at && !this.started.slice(i + 1).some((later) => later.block === block)
    );
  }

  #start(block: number, at: number): number {
    const doneAt = Math.max(at, this.writesUntil) + WRITE_PS;
    this.writesUntil = doneAt;
    this.started.push({ block, doneAt });
    this.writing = [...this.writing.filter((each) => each.block !== block), { block, doneAt }];
    return doneAt;
  }
}

describe("ScmModule, read", () => {
  it("reads and writes in any order take the time that lists of blocks say", () => {
    const step = fc.record({
      isRead: fc.boolean(),
      /** The next block, or any. */
      block: fc.oneof(fc.constant(-1), fc.constant(-1), fc.nat(30), fc.nat(1000)),
      line: fc.nat(3),
      after: fc.constantFrom(0, 0, 10, WRITE_PS, 700),
    });
    let ahead = 0;
    fc.assert(
      fc.property(
        fc.array(step, { minLength: 20, maxLength: 200, size: "max" }),
        fc.integer({ min: 1, max: 6 }),
        (steps, capacity) => {
          const module = new ScmModule(PLAN, capacity), naive = new Naive(capacity);
          let at = 0, last = 0;
          for (const { isRead, block, line, after } of steps) {
            at += after;
            last = block < 0 ? last + 1 : block;
            const offset = last * 256 + line * 64;
            if (isRead) {
              assert.equal(module.readableAt(offset, at), naive.readableAt(offset, at));
            } else {
              const from = at;
              at = naive.take(offset, from);
              assert.equal(module.take(offset, from), at);
            }
          }
          ahead = Math.max(ahead, naive.buffered.length);
          assert.equal(module.blocksOut, naive.started.length + naive.filling.length);
          assert.equal(module.readModifyWrites, naive.partial);
        },
      ),
      seeded(),
    );
    assert.equal(ahead, BUFFER_BLOCKS, "the oldest were forgotten");
  });

  it("a block on the medium, one that is buffered and one that is being written: three times", () => {
    const module = new ScmModule(PLAN);
    assert.equal(module.readableAt(4096, 1000), 1000 + MEDIUM_PS, "on the medium");
    assert.equal(module.readableAt(4096 + 192, 5000), 5000, "buffered: read before");
    const at = module.take(8192, 6000);
    assert.equal(module.readableAt(8192, at), at, "buffered: filling");
    const full = write(module, [8192 + 64, 8192 + 128, 8192 + 192], at);
    assert.equal(module.readableAt(8192, full), full + WRITE_PS, "being written");
    const later = full + WRITE_PS + 1000;
    assert.equal(module.readableAt(8192, later), later + MEDIUM_PS, "on the medium");
  });

  it("a block that waits for the medium is read from the buffer, until its turn comes", () => {
    const module = new ScmModule(PLAN);
    const at = write(module, strided(8, 64));
    assert.equal(module.readableAt(256, at), at);
    const begun = 4 * LINE_PS + WRITE_PS + 1;
    assert.equal(module.readableAt(256, begun), 4 * LINE_PS + 2 * WRITE_PS);
  });

  it("V-03: what is asked for of the medium is written first, whole or not", () => {
    const module = new ScmModule(PLAN);
    const at = write(module, [0, 256, 320]);
    assert.equal(module.writtenAt(256, at), at + WRITE_PS);
    assert.equal(module.writtenAt(0, at), at + 2 * WRITE_PS);
    assert.equal(module.writtenAt(4096, at), at);
    assert.deepEqual([module.blocksOut, module.readModifyWrites], [2, 2]);
    const later = at + 3 * WRITE_PS;
    assert.equal(module.readableAt(256, later), later + MEDIUM_PS);
  });

  it("a block that is written again is no longer what was read", () => {
    const module = new ScmModule(PLAN);
    module.readableAt(0, 0);
    write(module, strided(4, 64), 1000);
    assert.equal(module.readableAt(0, 9000), 9000 + MEDIUM_PS);
  });

  it("reads and writes share the medium", () => {
    const alone = new ScmModule(PLAN), shared = new ScmModule(PLAN);
    const lines = 8000;
    const aloneAt = write(alone, strided(lines, 64));
    let at = 0;
    for (const offset of strided(lines, 64)) {
      at = shared.take(offset, at);
      if (offset % 1024 === 0) shared.readableAt(2 ** 30 + offset * 97, at);
    }
    const reads = lines * 64 / 1024;
    const more = (at - aloneAt) / (reads * READ_PS);
    assert.ok(more > 0.9 && more < 1.1, `${more} of the time of ${reads} reads`);
    const queue = new ScmModule(PLAN);
    for (let i = 0; i < 10; i++) {
      assert.equal(queue.readableAt(i * 4096, 0), i * READ_PS + MEDIUM_PS, "one after the other");
    }
    const busy = new ScmModule(PLAN);
    const full = write(busy, strided(4, 64));
    assert.equal(busy.readableAt(4096, full + 20), full + WRITE_PS + MEDIUM_PS, "behind a write");
  });

  it("a run is read ahead: at the medium's rate, each block buffered when it is asked for", () => {
    const module = new ScmModule(PLAN);
    let at = 0, waits = 0;
    for (let block = 0; block < 200; block++) {
      const readable = module.readableAt(block * 256, at);
      waits += block > 10 && readable > at ? 1 : 0;
      at = readable + READ_PS;
    }
    assert.equal(waits, 0);
    let random = 0;
    for (let i = 0; i < 20; i++) {
      random += module.readableAt(2 ** 20 + i * 512, at) > at ? 1 : 0;
      at += 1000;
    }
    assert.equal(random, 20, "no run, no read ahead");
  });

  it("read ahead takes what demanded reads leave of the medium", () => {
    const module = new ScmModule(PLAN);
    for (let block = 0; block < 2; block++) module.readableAt(block * 256, block);
    const elsewhere = module.readableAt(2 ** 20, 2);
    assert.equal(elsewhere, 2 * READ_PS + MEDIUM_PS, "behind the reads, before what is read ahead");
  });
});
