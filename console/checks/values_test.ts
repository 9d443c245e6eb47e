import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import {
  type Instant,
  isBefore,
  maskOf,
  type NotedWrite,
  orderOf,
  partOf,
  reaches,
  UNIT_BYTES,
  WHOLE,
} from "./values.ts";

/** What the function promises, word for word: slow, for few writes. */
function definedFor(writes: readonly NotedWrite[], without?: NotedWrite): Set<string> {
  const parts = writes.filter((write) => write !== without).map((write) => partOf(write, 0));
  type Part = typeof parts[number];
  const isBelow = (write: NotedWrite, other: NotedWrite) => {
    if (write.line !== undefined && write.line === other.line) {
      return write.issued.order < other.issued.order;
    }
    return write.visible !== undefined && isBefore(write.visible, other.issued);
  };
  const applied = (part: Part, value: Uint8Array) => {
    const after = value.slice();
    after.set(part.bytes, part.begin);
    return after;
  };
  const settled: Part[] = [];
  let values = new Map([[keyOf(new Uint8Array(UNIT_BYTES)), new Uint8Array(UNIT_BYTES)]]);
  const close = () => {
    const onTop = parts.filter(({ write }) =>
      !settled.some((each) => each.write !== write && isBelow(write, each.write))
    );
    const open = [...values.values()];
    for (let value = open.pop(); value !== undefined; value = open.pop()) {
      for (const next of onTop.map((part) => applied(part, value!))) {
        if (values.has(keyOf(next))) continue;
        values.set(keyOf(next), next as Uint8Array<ArrayBuffer>);
        open.push(next);
      }
    }
  };
  for (const promise of parts.filter(({ write }) => write.promised !== undefined)) {
    close();
    const all = [...values.values()].map((value) => applied(promise, value));
    values = new Map(all.map((value) => [keyOf(value), value as Uint8Array<ArrayBuffer>]));
    settled.push(promise);
  }
  close();
  return new Set(values.keys());
}

const keyOf = (value: Uint8Array) => value.toHex();

/** Writes to one unit by two hosts, some on lines, some seen, some promised. Their notes are in order. */
function drawWrites(rng: Rng): NotedWrite[] {
  const count = 1 + rng.below(6), moments: { time: number; order: number }[] = [];
  let time = 0;
  for (let order = 0; order < 3 * count; order++) {
    time += rng.below(2);
    moments.push({ time, order });
  }
  const nodeOf = ["a", "b"], isWhole = rng.below(2) === 0;
  let next = 0;
  return Array.from({ length: count }, (_, id): NotedWrite => {
    next = Math.min(next + 1 + rng.below(2), moments.length - 1 - 2 * (count - id - 1));
    const node = nodeOf[rng.below(2)]!;
    const later = (): Instant => {
      const at = next + 1 + rng.below(moments.length - next);
      return { node, ...(moments[at] ?? { time: time + 1, order: 3 * count + id }) };
    };
    const from = isWhole || rng.below(3) === 0 ? 0 : 4 * rng.below(2) + rng.below(3);
    const length = from === 0 && isWhole ? 8 : 1 + rng.below(8 - from);
    const visible = rng.below(3) > 0 ? later() : undefined;
    return {
      ...{ name: `write ${id}`, on: "b", from, to: from + length },
      // Two writes may have the same bytes.
      bytes: new Uint8Array(length).fill(1 + rng.below(4)),
      issued: { node, ...moments[next]! },
      line: rng.below(2) === 0 ? `${node} ${rng.below(2)}` : undefined,
      visible,
      promised: visible !== undefined && rng.below(2) === 0 ? visible : undefined,
      after: [],
    };
  });
}

describe("reaches", () => {
  it("P-41: allows what its definition does, for any writes to eight bytes", () => {
    const rng = rngFor(32, "values of eight bytes");
    for (let round = 0; round < 500; round++) {
      const writes = drawWrites(rng), order = orderOf(writes), defined = definedFor(writes);
      const tried = [
        ...[...defined].map((key) => Uint8Array.fromHex(key)),
        ...Array.from({ length: 8 }, () => Uint8Array.from({ length: 8 }, () => rng.below(5))),
      ];
      for (const value of tried) {
        const needed = reaches(value, { unit: 0, order });
        equal(needed !== undefined, defined.has(keyOf(value)), JSON.stringify({ writes, value }));
        const begin = rng.below(8), end = begin + 1 + rng.below(8 - begin);
        const isPart = [...defined].some((key) =>
          keyOf(value.subarray(begin, end)) === key.slice(2 * begin, 2 * end)
        );
        const free = WHOLE & ~maskOf({ begin, end });
        equal(reaches(value, { unit: 0, order, free }) !== undefined, isPart);
        for (const without of writes) {
          if (without.promised !== undefined) continue;
          const isLeft = definedFor(writes, without).has(keyOf(value));
          equal(reaches(value, { unit: 0, order, without }) !== undefined, isLeft);
          if (needed !== undefined && !needed.has(without)) ok(isLeft, "it is not needed");
        }
      }
    }
  });
});
