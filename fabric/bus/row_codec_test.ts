import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { plainData, seeded } from "../base/property_testing.ts";
import { NEVER } from "../base/time.ts";
import { decodeSealed, DEPTH_MAX, encodeSealed, seal, SEAL_BYTES } from "./codec.ts";
import {
  count,
  flag,
  int,
  listOf,
  orNull,
  plain,
  rowOf,
  sealedBytesOf,
  text,
  time,
  tupleOf,
} from "./row_codec.ts";

const anything = sealedBytesOf(plain<unknown>((value) => value !== undefined));

const row = sealedBytesOf(rowOf({
  id: count,
  delta: int,
  at: time,
  name: text,
  isUp: flag,
  peers: listOf(tupleOf<readonly [name: string, count: number]>(text, count)),
  taken: orNull(listOf(count)),
}));
type Row = NonNullable<ReturnType<typeof row.fromBytes>>;

const rows: fc.Arbitrary<Row> = fc.record({
  id: fc.maxSafeNat(),
  delta: fc.maxSafeInteger(),
  at: fc.oneof(fc.maxSafeNat(), fc.constant(NEVER)),
  name: fc.string({ maxLength: 300, unit: "grapheme" }),
  isUp: fc.boolean(),
  peers: fc.array(fc.tuple(fc.string(), fc.nat())),
  taken: fc.option(fc.array(fc.nat())),
}, { noNullPrototype: true });

/** Bytes with their seal behind them. */
function sealed(bytes: readonly number[]): Uint8Array {
  const message = new Uint8Array(bytes.length + SEAL_BYTES);
  message.set(bytes);
  seal(message);
  return message;
}

describe("a format's bytes", () => {
  it("bring back every message, and are those of its row", () => {
    fc.assert(
      fc.property(rows, (message) => {
        const bytes = row.toBytes(message);
        assert.deepEqual(row.fromBytes(bytes), message);
        assert.deepEqual(decodeSealed(bytes), Object.values(message));
        assert.deepEqual(row.fromBytes(encodeSealed(Object.values(message))), message);
      }),
      seeded(),
    );
  });

  it("have heads as short as CBOR has them, and numbers beyond 32 bits as floats", () => {
    const heads = sealedBytesOf(listOf(int));
    for (const n of [0, 23, 24, 255, 256, 65_535, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1]) {
      for (const value of [n, -1 - n].filter(Number.isSafeInteger)) {
        assert.deepEqual(heads.toBytes([value]), encodeSealed([value]), `${value}`);
        assert.deepEqual(heads.fromBytes(heads.toBytes([value])), [value]);
      }
    }
    assert.deepEqual(sealedBytesOf(time).toBytes(NEVER), encodeSealed(NEVER));
  });

  it("leave earlier messages as they are, also beyond a slab and behind one that failed", () => {
    const messages = Array.from({ length: 3_000 }, (_, i) => [i, "x".repeat(i % 100)]);
    const bytes = messages.map((message, i) => {
      if (i % 100 === 0) assert.throws(() => anything.toBytes(["half", () => 1]));
      return anything.toBytes(message);
    });
    bytes.push(anything.toBytes(new Uint8Array(1 << 20).fill(7)), anything.toBytes("after it"));
    assert.deepEqual(bytes.slice(0, 3_000).map(anything.fromBytes), messages);
    assert.deepEqual(anything.fromBytes(bytes[3_000]!), new Uint8Array(1 << 20).fill(7));
    assert.equal(anything.fromBytes(bytes[3_001]!), "after it");
  });

  it("are read from any place of a larger buffer, and bytes in them are views", () => {
    const bytes = anything.toBytes([2 ** 40, Uint8Array.of(9, 8), "ü"]);
    const larger = new Uint8Array(bytes.length + 20).fill(0xff);
    larger.set(bytes, 7);
    const read = anything.fromBytes(larger.subarray(7, 7 + bytes.length)) as [number, Uint8Array];
    assert.deepEqual(read, [2 ** 40, Uint8Array.of(9, 8), "ü"]);
    assert.equal(read[1].buffer, larger.buffer);
  });

  it("of plain data are those of encodeSealed in what they say", () => {
    fc.assert(
      fc.property(plainData, (value) => {
        const bytes = anything.toBytes(value);
        assert.deepEqual(anything.fromBytes(bytes), value);
        assert.deepEqual(decodeSealed(bytes), value);
        assert.deepEqual(anything.fromBytes(encodeSealed(value)), value);
      }),
      seeded(),
    );
  });

  it("are refused with a bit turned over, whichever, and with their end cut off", () => {
    const bytes = row.toBytes({
      ...{ id: 181_651, delta: -3, at: NEVER, name: "a-rnic", isUp: true },
      ...{ peers: [["tor", 4]], taken: null },
    });
    for (let bit = 0; bit < 8 * bytes.length; bit++) {
      const changed = bytes.slice();
      changed[bit >> 3]! ^= 1 << (bit & 7);
      assert.equal(row.fromBytes(changed), undefined, `bit ${bit}`);
    }
    for (let length = 0; length < bytes.length; length++) {
      assert.equal(row.fromBytes(bytes.subarray(0, length)), undefined);
    }
  });

  it("are refused where they are another shape than the format, or not all", () => {
    const good: unknown[] = [1, -1, NEVER, "a", true, [["b", 2]], [3]];
    assert.notEqual(row.fromBytes(encodeSealed(good)), undefined);
    const wrong: readonly unknown[] = [-1, 0.5, "x", null, {}, [], [[]], true, NaN, -NEVER];
    const fits: Readonly<Record<number, readonly unknown[]>> = {
      1: [-1],
      3: ["x"],
      4: [true],
      5: [[]],
      6: [null, []],
    };
    for (let i = 0; i < good.length; i++) {
      for (const value of wrong) {
        if (fits[i]?.some((fit) => JSON.stringify(fit) === JSON.stringify(value))) continue;
        const bytes = encodeSealed(good.with(i, value));
        assert.equal(row.fromBytes(bytes), undefined, `${i}: ${value}`);
      }
    }
    assert.equal(row.fromBytes(encodeSealed([...good, 0])), undefined);
    assert.equal(row.fromBytes(encodeSealed(good.slice(1))), undefined);
    const bytes = encodeSealed(good);
    const item = [...bytes.subarray(0, bytes.length - SEAL_BYTES)];
    assert.notEqual(row.fromBytes(sealed(item)), undefined);
    assert.equal(row.fromBytes(sealed([...item, 0])), undefined);
    for (let length = 1; length < item.length; length++) {
      assert.equal(row.fromBytes(sealed(item.slice(0, length))), undefined, `${length} bytes`);
    }
  });

  it("never are an exception, whatever they are", () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 1, maxLength: 40 }), (bytes) => {
        const message = sealed([...bytes]);
        assert.deepEqual(anything.fromBytes(message), decodeSealed(message));
        row.fromBytes(message);
      }),
      seeded({ numRuns: 3_000 }),
    );
  });

  it(`hold ${DEPTH_MAX} containers inside each other, not one more`, () => {
    const nested = (arrays: number, maps = 0) =>
      sealed([...new Array(arrays).fill(0x81), ...new Array(maps).fill([0xa1, 0]).flat(), 0]);
    for (const maps of [0, 1, 2, DEPTH_MAX]) {
      assert.notEqual(anything.fromBytes(nested(DEPTH_MAX - maps, maps)), undefined);
      assert.equal(anything.fromBytes(nested(DEPTH_MAX - maps + 1, maps)), undefined);
      assert.equal(anything.fromBytes(nested(DEPTH_MAX - maps, maps + 1)), undefined);
    }
    assert.equal(anything.fromBytes(nested(100_000)), undefined);
  });
});
