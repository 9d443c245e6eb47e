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

/** What {@link ScmModule} does with writes, as lists. */
class Naive {
  filling: { block: number; lines: Set<number> }[] = [];
  /** Every block ever queued for the medium. */
  started: { block: number; doneAt: number }[] = [];
  evicted = 0;
  now = 0;
  readonly #capacity: number;

  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get partial(): number {
    return this.evicted + this.filling.length;
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
      }
      found.lines.add(offset);
      this.filling = this.filling.filter((each) => each !== found);
      if (found.lines.size === 4) this.#start(block, at + LINE_PS);
      else this.filling.push(found);
    }
    return this.now = at + LINE_PS;
  }

  #roomAt(at: number): number {
    const busy = this.started.filter(({ doneAt }) => doneAt > at);
    if (this.filling.length + busy.length < this.#capacity) return at;
    if (busy.length === 0) {
      this.evicted++;
      return this.#start(this.filling.shift()!.block, at);
    }
    return busy[0]!.doneAt;
  }

  #start(block: number, at: number): number {
    const doneAt = Math.max(at, this.started.at(-1)?.doneAt ?? 0) + WRITE_PS;
    this.started.push({ block, doneAt });
    return doneAt;
  }
}

describe("ScmModule, read", () => {
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
