import assert from "node:assert/strict";
import { beforeEach, describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { pattern } from "../testing/host_testing.ts";
import { LLC_EVICTIONS, type LlcEviction } from "../../../fabric/rack/plan/plan.ts";
import { Llc, overlayDirty, writeIntoCache } from "./llc.ts";

const CORE = { by: "core", fill: true } as const;
const DMA = { by: "dma", fill: true } as const;

describe("Llc", () => {
  let llc: Llc;
  let evicted: [line: number, first: number][];

  beforeEach(() => {
    evicted = [];
    // Two sets of four ways: even and odd lines.
    llc = new Llc({ bytes: 8 * LINE_BYTES, ways: 4, ddioWays: 2, evict: "lru" }, {
      lines: 1000,
      memory: {
        fetch: (line, target) => target.fill(line),
        evict: (line, bytes) => void evicted.push([line, bytes[0]!]),
      },
    });
  });

  function touch(line: number, how: typeof CORE | typeof DMA = CORE): number {
    const slot = llc.access(line, how);
    llc.markDirty(slot);
    return slot;
  }

  it("fetches a line that it misses, and finds it again", () => {
    const slot = llc.access(6, CORE);
    assert.deepEqual([...llc.bytes(slot)], Array(LINE_BYTES).fill(6));
    assert.equal(llc.access(6, CORE), slot);
    assert.deepEqual([llc.hits, llc.misses], [1, 1]);
    assert.equal(llc.find(8), -1);
  });

  it("P-04: writes the least recently used line of a full set back, and only if it is dirty", () => {
    for (const line of [0, 2, 4, 6]) touch(line);
    llc.access(0, CORE);
    touch(8);
    assert.deepEqual(evicted, [[2, 2]]);
    llc.markClean(llc.find(4));
    touch(10);
    assert.deepEqual(evicted, [[2, 2]], "a clean line goes without a trace");
    assert.equal(llc.evictions, 1);
    assert.equal(llc.find(4), -1);
    assert.ok(llc.find(1) < 0 && llc.find(0) >= 0);
  });

  it("P-04: may give up any line of a full set, by its own seeded draw, within the ways allowed", () => {
    const orders = [1, 1, 2].map((seed) => {
      const order: number[] = [];
      const random = rngFor(seed, "llc");
      const drawn = new Llc({
        bytes: 8 * LINE_BYTES,
        ways: 4,
        ddioWays: 2,
        evict: "random",
        random,
      }, {
        lines: 1000,
        memory: { fetch: () => {}, evict: (line) => void order.push(line) },
      });
      for (let line = 0; line < 400; line += 2) drawn.markDirty(drawn.access(line, CORE));
      assert.equal(order.length, 200 - 4, "free slots are taken first");
      for (const line of [1, 3, 5, 7]) drawn.markDirty(drawn.access(line, CORE));
      const allowed = new Set([drawn.find(1), drawn.find(3)]);
      for (let line = 9; line < 200; line += 2) {
        assert.ok(allowed.has(drawn.access(line, DMA)), "DDIO has the first two ways");
      }
      return order;
    });
    assert.deepEqual(orders[0], orders[1]);
    assert.notDeepEqual(orders[0], orders[2]);
    const inOrder = orders[0]!.slice(0, 40).map((line, i) => line === 2 * i);
    assert.ok(inOrder.includes(false), "not in the order of their use");
  });

  it("P-02 (in part): DDIO allocates in its ways only, and leaves the cores' lines alone", () => {
    for (const line of [0, 2, 4, 6]) touch(line, DMA);
    assert.deepEqual(evicted.map(([line]) => line), [0, 2]);
    touch(8);
    touch(10);
    touch(12, DMA);
    assert.deepEqual(evicted.map(([line]) => line), [0, 2, 4], "two ways were free for the cores");
    assert.ok(llc.find(8) >= 0 && llc.find(10) >= 0);
  });

  it("P-02 (in part): DDIO updates a line in place in whichever way it is", () => {
    for (const line of [0, 2, 4, 6]) touch(line);
    const slot = llc.find(6);
    assert.equal(touch(6, DMA), slot);
    assert.deepEqual(evicted, []);
  });

  it("remove forgets a line and its dirt", () => {
    touch(4);
    llc.remove(llc.find(4));
    assert.equal(llc.find(4), -1);
    assert.ok(llc.isAbsent(0, 63));
    for (let slot = 0; slot < 8; slot++) assert.ok(!llc.isDirty(slot));
    assert.throws(() => llc.remove(0), /empty/);
  });

  it("isAbsent is true only where no line of the range is cached", () => {
    assert.ok(llc.isAbsent(0, 999));
    touch(100);
    assert.ok(!llc.isAbsent(100, 100));
    assert.ok(!llc.isAbsent(0, 999));
    assert.ok(llc.isAbsent(128, 999));
  });

  it("gives every slot bytes of its own", () => {
    const places = new Set(Array.from({ length: 8 }, (_, slot) => llc.at(slot)));
    assert.deepEqual(
      [...places].sort((x, y) => x - y),
      Array.from({ length: 8 }, (_, i) => i * 64),
    );
  });
});

describe("Llc, pseudo-LRU over a hashed index", () => {
  const WAYS = 4, SETS = 64;
  let evicted: number[];
  let llc: Llc;

  beforeEach(() => {
    evicted = [];
    llc = new Llc({ bytes: SETS * WAYS * LINE_BYTES, ways: WAYS, ddioWays: 2 }, {
      lines: 100_000,
      memory: { fetch: (_, target) => target.fill(0), evict: (line) => void evicted.push(line) },
    });
  });

  function stream(lines: number, how: typeof CORE | typeof DMA): void {
    for (let line = 0; line < lines; line++) llc.markDirty(llc.access(line, how));
  }

  /** Lines of one set, found by what evicts what. */
  function ofOneSet(count: number): number[] {
    const set = Math.floor(llc.access(0, CORE) / WAYS), lines = [0];
    for (let line = 1; lines.length < count; line++) {
      const slot = llc.access(line, CORE);
      if (Math.floor(slot / WAYS) === set) lines.push(line);
      llc.remove(slot);
    }
    llc.remove(llc.find(0));
    return lines;
  }

  it("P-04: gives up the first line that was not used since all were", () => {
    const [a, b, c, d, e, f] = ofOneSet(6) as [number, number, number, number, number, number];
    for (const line of [a, b, c, d]) llc.markDirty(llc.access(line, CORE));
    // With d all four were used, so that only d counts as used since.
    llc.access(a, CORE);
    llc.markDirty(llc.access(e, CORE));
    assert.deepEqual(evicted, [b]);
    llc.markDirty(llc.access(f, CORE));
    assert.deepEqual(evicted, [b, c], "with e, a and d: all but c were used");
    assert.ok(llc.find(a) >= 0 && llc.find(d) >= 0);
  });

  it("P-02 (in part): DDIO takes turns in its own ways, whatever the cores use", () => {
    const [a, b, c, d, ...more] = ofOneSet(8);
    for (const line of [a!, b!]) llc.markDirty(llc.access(line, DMA));
    for (const line of [c!, d!]) llc.access(line, CORE);
    for (const line of more) llc.markDirty(llc.access(line, DMA));
    assert.equal(evicted.length, more.length);
    assert.ok(llc.find(c!) >= 0 && llc.find(d!) >= 0);
  });

  it("P-04: what streams through DDIO's ways comes out in another order, each line once", () => {
    stream(2000, DMA);
    assert.equal(new Set(evicted).size, evicted.length);
    assert.ok(evicted.length > 2000 - 2 * SETS - 1);
    const next = evicted.filter((line, i) => line === evicted[i - 1]! + 1).length;
    assert.ok(next < evicted.length / 20, `${next} of ${evicted.length} follow each other`);
  });

  it("spreads a range over all sets, evenly", () => {
    const count = new Array(SETS).fill(0);
    for (let line = 0; line < 100 * SETS; line++) {
      const slot = llc.access(line, CORE);
      count[Math.floor(slot / WAYS)]++;
      llc.remove(slot);
    }
    assert.ok(Math.min(...count) > 50 && Math.max(...count) < 150, count.join());
  });

  it("keeps every byte of a write of many lines, some of which evict others of it", () => {
    const memory = new Uint8Array(64 * LINE_BYTES);
    const small = new Llc({ bytes: 8 * LINE_BYTES, ways: 4, ddioWays: 2 }, {
      lines: 64,
      memory: {
        fetch: (line, target) => target.set(memory.subarray(line * 64, line * 64 + 64)),
        evict: (line, bytes) => memory.set(bytes, line * 64),
      },
    });
    const bytes = pattern(40 * LINE_BYTES - 30);
    writeIntoCache(small, { line: 3, inLine: 10 }, { bytes, by: "dma" });
    const seen = memory.slice(3 * 64 + 10, 3 * 64 + 10 + bytes.length);
    overlayDirty(small, { line: 3, inLine: 10 }, seen);
    assert.deepEqual(seen, bytes);
  });
});

type By = "core" | "dma";
type Way = {
  line: number;
  bytes: Uint8Array;
  dirtyBy: By | undefined;
  isUsed: boolean;
  at: number;
};

/** What {@link Llc} does, as a list of ways for each set; which set a line has, it is told. */
class Model {
  readonly memory = new Uint8Array(LINES * LINE_BYTES);
  readonly written: number[] = [];
  hits = 0;
  misses = 0;
  readonly #sets: (Way | undefined)[][];
  readonly #evict: LlcEviction;
  readonly #random: Rng;
  #clock = 0;

  constructor(sets: number, evict: LlcEviction, random: Rng) {
    this.#sets = Array.from({ length: sets }, () => new Array(WAYS).fill(undefined));
    this.#evict = evict;
    this.#random = random;
  }

  get ways(): (Way | undefined)[] {
    return this.#sets.flat();
  }

  find(line: number): Way | undefined {
    return this.ways.find((way) => way?.line === line);
  }

  /** @returns the way's place in its set. */
  access(line: number, set: number, { by, fill }: { by: By; fill: boolean }): number {
    const ways = this.#sets[set]!;
    let place = ways.findIndex((way) => way?.line === line);
    if (place >= 0) this.hits++;
    else {
      this.misses++;
      place = this.#room(ways, by === "core" ? WAYS : DDIO_WAYS);
      const before = ways[place];
      if (before?.dirtyBy !== undefined) {
        this.written.push(before.line);
        this.memory.set(before.bytes, before.line * LINE_BYTES);
      }
      const bytes = before?.bytes.slice() ?? new Uint8Array(LINE_BYTES);
      if (fill) bytes.set(this.memory.subarray(line * LINE_BYTES, (line + 1) * LINE_BYTES));
      ways[place] = { line, bytes, dirtyBy: undefined, isUsed: false, at: 0 };
    }
    const way = ways[place]!;
    way.at = ++this.#clock;
    // Once all were used, the last one is the only one that was used since.
    if (ways.every((each) => each === way || each?.isUsed)) {
      for (const each of ways) each!.isUsed = each!.isUsed && way.isUsed;
    }
    way.isUsed = true;
    return place;
  }

  #room(ways: (Way | undefined)[], allowed: number): number {
    const own = ways.slice(0, allowed), free = own.indexOf(undefined);
    if (free >= 0) return free;
    if (this.#evict === "random") return this.#random.below(allowed);
    if (this.#evict === "lru") {
      const oldest = Math.min(...own.map((way) => way!.at));
      return own.findIndex((way) => way!.at === oldest);
    }
    if (own.every((way) => way!.isUsed)) { for (const way of own) way!.isUsed = false; }
    return own.findIndex((way) => !way!.isUsed);
  }

  remove(line: number): void {
    for (const ways of this.#sets) {
      const place = ways.findIndex((way) => way?.line === line);
      if (place >= 0) ways[place] = undefined;
    }
  }

  /** Memory with what is dirty over it. */
  seen(): Uint8Array {
    const bytes = this.memory.slice();
    for (const way of this.ways) {
      if (way?.dirtyBy !== undefined) bytes.set(way.bytes, way.line * LINE_BYTES);
    }
    return bytes;
  }

  /** No line of the groups of 64 that [from, to] touches is cached. */
  isAbsent(from: number, to: number): boolean {
    const group = (line: number) => Math.floor(line / 64);
    return !this.ways.some((way) =>
      way !== undefined && group(way.line) >= group(from) && group(way.line) <= group(to)
    );
  }
}

const LINES = 200, WAYS = 4, DDIO_WAYS = 2;

describe("Llc, whatever comes", () => {
  const line = fc.oneof(fc.nat(7), fc.nat(LINES - 5)), by = fc.constantFrom<By>("core", "dma");
  const step = fc.record({
    ...{ kind: fc.constantFrom("write", "write", "read", "clean", "remove"), line, by },
    inLine: fc.oneof(fc.constant(0), fc.nat(63)),
    length: fc.oneof(fc.constant(LINE_BYTES), fc.nat(200)),
  });

  for (const evict of LLC_EVICTIONS) {
    for (const sets of [1, 2, 3]) {
      it(`P-02, P-04: ${evict} in ${sets} sets is a list of ways that loses no byte`, () => {
        fc.assert(
          fc.property(fc.array(step, { minLength: 20, maxLength: 80 }), (steps) => {
            const model = new Model(sets, evict, rngFor(3, "llc")), written: number[] = [];
            const memory = new Uint8Array(LINES * LINE_BYTES);
            const at = (line: number) => line * LINE_BYTES;
            const llc = new Llc(
              {
                ...{ bytes: sets * WAYS * LINE_BYTES + 10, ways: WAYS, ddioWays: DDIO_WAYS, evict },
                ...(evict === "random" && { random: rngFor(3, "llc") }),
              },
              {
                lines: LINES,
                memory: {
                  fetch: (line, target) => target.set(memory.subarray(at(line), at(line + 1))),
                  evict: (line, bytes) => {
                    written.push(line);
                    memory.set(bytes, at(line));
                  },
                },
              },
            );
            assert.equal(llc.sets, sets);
            // The index is a hash of the line, which an empty cache shows.
            const setOf = Array.from({ length: LINES }, (_, line) => {
              const slot = llc.access(line, CORE);
              llc.remove(slot);
              return evict === "plru" ? Math.floor(slot / WAYS) : line % sets;
            });
            llc.misses = 0;
            let salt = 0;
            for (const each of steps) {
              if (each.kind === "clean" || each.kind === "remove") {
                const slot = llc.find(each.line), way = model.find(each.line);
                if (slot < 0) continue;
                if (each.kind === "clean") {
                  llc.markClean(slot);
                  way!.dirtyBy = undefined;
                } else {
                  llc.remove(slot);
                  model.remove(each.line);
                }
              } else if (each.kind === "read") {
                const { line, by } = each, mode = { by, fill: true };
                const place = model.access(line, setOf[line]!, mode);
                assert.equal(llc.access(line, mode), setOf[line]! * WAYS + place, "its slot");
              } else {
                const { line: first, by, inLine, length } = each;
                const bytes = pattern(length, ++salt);
                writeIntoCache(llc, { line: first, inLine }, { bytes, by });
                for (let done = 0; done < length;) {
                  const line = first + Math.floor((inLine + done) / LINE_BYTES);
                  const from = (inLine + done) % LINE_BYTES;
                  const part = bytes.subarray(done, done + LINE_BYTES - from);
                  const fill = part.length < LINE_BYTES;
                  model.access(line, setOf[line]!, { by, fill });
                  const way = model.find(line)!;
                  way.bytes.set(part, from);
                  way.dirtyBy = by;
                  done += part.length;
                }
              }
              assert.deepEqual(written, model.written, "written back, in this order");
              assert.deepEqual(
                [llc.hits, llc.misses, llc.evictions],
                [model.hits, model.misses, written.length],
              );
              for (const [slot, way] of model.ways.entries()) {
                if (way === undefined) {
                  assert.ok(!llc.isDirty(slot));
                  continue;
                }
                assert.equal(llc.find(way.line), slot);
                assert.deepEqual(llc.bytes(slot), way.bytes);
                assert.equal(llc.isDirty(slot), way.dirtyBy !== undefined);
                assert.equal(llc.isOfDevice(slot), way.dirtyBy === "dma");
              }
              const dirty = model.ways.flatMap((way) => way?.dirtyBy ? [way.line] : []);
              assert.deepEqual(llc.dirtyLines(), dirty);
              assert.equal(llc.find(LINES - 1), model.find(LINES - 1) ? llc.find(LINES - 1) : -1);
              const { line } = each,
                from = at(line) + salt % 64,
                to = Math.min(from + 150, at(LINES));
              const part = memory.slice(from, to);
              overlayDirty(llc, { line, inLine: salt % 64 }, part);
              assert.deepEqual(part, model.seen().slice(from, to));
              for (const end of [line, Math.min(line + 64, LINES - 1)]) {
                assert.equal(llc.isAbsent(line, end), model.isAbsent(line, end));
              }
            }
            const all = memory.slice();
            overlayDirty(llc, { line: 0, inLine: 0 }, all);
            assert.deepEqual(all, model.seen());
          }),
          seeded({ numRuns: 30 }),
        );
      });
    }
  }
});
