import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { DurableRecord } from "./durable_record.ts";
import type { MemoryLog } from "./memory_log.ts";
import { stickTo } from "./scm.ts";
import { SparseBytes } from "./sparse_bytes.ts";

const filled = (value: number, length = 4) => new Uint8Array(length).fill(value);

/** What a power failure leaves of the first bytes, by all that is on record so far. */
class Survivors {
  readonly record = new DurableRecord(new SparseBytes(64));
  readonly #bytes = filled(0, 6);

  get bytes(): number[] {
    for (const { offset, data } of this.record.take()) this.#bytes.set(data, offset);
    return [...this.#bytes];
  }
}

describe("posted bytes that survive in two IIOs", () => {
  const one = filled(1), two = filled(2);

  it("reach memory in any case: what comes there before them is under them", () => {
    const found = new Survivors(), { record } = found;
    record.addPosted(0, one, 0);
    same(found.bytes, [1, 1, 1, 1, 0, 0]);
    record.add(2, filled(9));
    same(found.bytes, [1, 1, 1, 1, 9, 9]);
    record.postedLeft(0, one, 0);
    record.add(2, filled(9));
    same(found.bytes, [1, 1, 9, 9, 9, 9]);
  });

  it("have the order in which they reach memory, whichever was there first", () => {
    for (const first of [0, 1] as const) {
      const found = new Survivors(), { record } = found, last = 1 - first;
      record.addPosted(0, one, 0);
      record.addPosted(0, two, 1);
      const left = [one, two];
      record.postedLeft(0, left[first]!, first);
      record.postedLeft(0, left[last]!, last);
      same(found.bytes, [...left[last]!, 0, 0], `${first} is the first one`);
    }
  });

  it("are on record at each time as memory will have them, with what is still to come over it", () => {
    const found = new Survivors(), { record } = found;
    record.addPosted(0, one, 0);
    record.addPosted(2, two, 1);
    record.postedLeft(2, two, 1);
    const memory = Uint8Array.of(0, 0, 2, 2, 2, 2);
    record.overlayPosted(0, memory);
    same([...memory], [1, 1, 1, 1, 2, 2]);
    record.postedLeft(0, one, 0);
    same(found.bytes, [...memory]);
  });

  it("are above what comes there before them, in whichever IIO they are", () => {
    for (const stack of [0, 1, 2]) {
      const found = new Survivors(), { record } = found;
      record.addPosted(1, two, stack);
      record.add(0, filled(9, 6));
      same(found.bytes, [9, 2, 2, 2, 2, 9], `${stack}`);
      same(record.posted, 1);
      record.postedLeft(1, two, stack);
      same(record.posted, 0);
      record.add(0, filled(9, 6));
      same(found.bytes, [9, 9, 9, 9, 9, 9]);
    }
  });
});

describe("a dirty line", () => {
  it("V-08: is told as the cells would hold it, as are bytes that survive", () => {
    const told: (readonly [kind: string, first: number])[] = [];
    const log: MemoryLog = {
      durable: (_, __, bytes) => void told.push(["durable", bytes[0]!]),
      dirty: (_, __, bytes) => void told.push(["dirty", bytes[0]!]),
      clean: () => {},
    };
    const stick = stickTo([{ offset: 0, bit: 0, value: 1 }])!;
    const record = new DurableRecord(new SparseBytes(64, undefined, stick), { log, stick });
    const line = filled(2, 64);
    record.dirty(0, line, 0xff);
    record.addLine(0, line);
    same(told, [["dirty", 3], ["durable", 3]]);
    same(line[0], 2, "the cache has what was stored");
  });
});
