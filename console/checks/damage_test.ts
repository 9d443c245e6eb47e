import { equal, ok } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import { isDamaged } from "./damage.ts";
import { type NotedWrite, orderOf, partOf, UNIT_BYTES } from "./values.ts";

/** Writes to parts of one unit, posted one after the other; those with a promise are visible before the next one. */
function drawWrites(rng: Rng): NotedWrite[] {
  return Array.from({ length: 1 + rng.below(6) }, (_, id): NotedWrite => {
    const from = rng.below(UNIT_BYTES), to = from + 1 + rng.below(UNIT_BYTES - from);
    const at = (order: number) => ({ time: order, node: "a", order });
    const isPromised = rng.below(3) === 0;
    return {
      ...{ name: `write ${id}`, on: "b", from, to, line: undefined, after: [] },
      bytes: Uint8Array.from({ length: to - from }, () => rng.below(256)),
      issued: at(2 * id),
      visible: isPromised ? at(2 * id + 1) : undefined,
      promised: isPromised ? at(2 * id + 1) : undefined,
    };
  });
}

/** What the unit may be after a run of them: each in its place or later, but for a promise, and each with flips or none. */
function drawFound(rng: Rng, { writes, faults }: { writes: NotedWrite[]; faults: number }) {
  const found = new Uint8Array(UNIT_BYTES), late: NotedWrite[] = [];
  let isDamagedAtAll = false;
  const apply = (write: NotedWrite) => {
    const { begin, bytes } = partOf(write, 0), data = bytes.slice();
    const flips = write.promised === undefined ? rng.below(faults + 1) : 0;
    for (let i = 0; i < flips; i++) data[rng.below(data.length)]! ^= 1 << rng.below(8);
    isDamagedAtAll ||= flips > 0;
    found.set(data, begin);
  };
  for (const write of writes) {
    if (write.promised === undefined && rng.below(2) === 0) late.push(write);
    else apply(write);
  }
  for (const write of late) if (rng.below(2) === 0) apply(write);
  return { found, isDamagedAtAll };
}

describe("isDamaged", () => {
  it("V-08: allows whatever faults can make of writes without a promise", () => {
    const rng = rngFor(8, "damaged writes");
    let seen = 0;
    for (let round = 0; round < 2_000; round++) {
      const writes = drawWrites(rng), faults = 1 + rng.below(2);
      const { found, isDamagedAtAll } = drawFound(rng, { writes, faults });
      if (!isDamagedAtAll) continue;
      seen++;
      ok(
        isDamaged({ faults, stuck: [] }, 0, { found, order: orderOf(writes) }),
        JSON.stringify({ writes, found, faults }),
      );
    }
    ok(seen > 500);
  });

  it("V-08: allows no flip of a promise, of bytes that none wrote, and no more than there are faults", () => {
    const write = (more: Partial<NotedWrite>): NotedWrite => ({
      ...{ name: "write", on: "b", from: 0, to: 4, bytes: new Uint8Array(4).fill(0x11) },
      ...{ issued: { time: 0, node: "a", order: 0 }, line: undefined, after: [] },
      ...{ visible: undefined, promised: undefined, ...more },
    });
    const found = (bytes: readonly number[]) => Uint8Array.of(0x11, 0x11, 0x11, 0x11, ...bytes);
    const allows = (bytes: Uint8Array, writes: readonly NotedWrite[]) =>
      isDamaged({ faults: 1, stuck: [] }, 0, { found: bytes, order: orderOf(writes) });
    const flipped = found([0, 0, 0, 0]);
    flipped[2]! ^= 0x10;
    equal(allows(flipped, [write({})]), true);
    const promised = { time: 1, node: "a", order: 1 };
    equal(allows(flipped, [write({ visible: promised, promised })]), false);
    equal(allows(found([1, 0, 0, 0]), [write({})]), false);
    flipped[0]! ^= 0x70;
    equal(allows(flipped, [write({})]), false);
  });

  it("V-08: tells of a unit with tens of thousands of writes to parts of it", () => {
    const rng = rngFor(9, "many parts");
    const writes = Array.from({ length: 30_000 }, (_, id): NotedWrite => {
      const from = id % UNIT_BYTES;
      return {
        ...{ name: `write ${id}`, on: "b", from, to: from + 1, line: undefined, after: [] },
        bytes: Uint8Array.of(rng.below(100)),
        issued: { time: id, node: "a", order: id },
        ...{ visible: undefined, promised: undefined },
      };
    });
    const order = orderOf(writes);
    const of = (found: Uint8Array) => isDamaged({ faults: 1, stuck: [] }, 0, { found, order });
    equal(of(new Uint8Array(UNIT_BYTES).fill(0x80 | 3)), true, "a bit of each write");
    equal(of(new Uint8Array(UNIT_BYTES).fill(0xf8)), false);
  });
});
