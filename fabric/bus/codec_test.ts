import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { InvariantError } from "../base/assert.ts";
import { decode, decodeSealed, DEPTH_MAX, encode, encodeSealed } from "./codec.ts";
import { plainData, seeded } from "../base/property_testing.ts";

function bytes(hex: string): Uint8Array {
  return Uint8Array.fromHex(hex.replaceAll(" ", ""));
}

describe("encode and decode", () => {
  it("bring back every plain value", () => {
    fc.assert(
      fc.property(plainData, (value) => {
        assert.deepEqual(decode(encode(value)), value);
      }),
      seeded(),
    );
  });

  it("keep picoseconds exact up to 2^53 - 1", () => {
    for (const time of [2 ** 31, 2 ** 32 - 1, 2 ** 32, 2 ** 40 + 1, Number.MAX_SAFE_INTEGER]) {
      assert.equal(decode(encode(time)), time);
    }
    assert.equal(decode(encode(Infinity)), Infinity);
  });

  it("keep a map of more than 65,535 keys whole", () => {
    const map = Object.fromEntries(Array.from({ length: 70_000 }, (_, i) => [`k${i}`, i]));
    const decoded = decode(encode(map)) as Record<string, number>;
    assert.equal(Object.keys(decoded).length, 70_000);
    assert.equal(decoded["k69999"], 69_999);
  });

  it("keep their hands off each other's bytes", () => {
    const encoded = Array.from({ length: 2_000 }, (_, i) => encode([i, new Uint8Array(i % 50)]));
    encoded.push(encode(new Uint8Array(1 << 20).fill(7)), encode("after a large one"));
    encoded.slice(0, 2_000).forEach((one, i) => {
      assert.deepEqual(decode(one), [i, new Uint8Array(i % 50)]);
    });
    assert.deepEqual(decode(encoded[2_000]!), new Uint8Array(1 << 20).fill(7));
    assert.equal(decode(encoded[2_001]!), "after a large one");
  });

  it("give plain Uint8Arrays, whose slice() is a copy", () => {
    const encoded = encode([Uint8Array.of(1, 2)]);
    assert.equal(encoded.constructor, Uint8Array);
    const [data] = decode(encoded) as [Uint8Array];
    assert.equal(data.constructor, Uint8Array);
    assert.deepEqual(data, Uint8Array.of(1, 2));
  });

  it("decode a part of a larger buffer", () => {
    const encoded = encode([1, Uint8Array.of(9, 8)]);
    const larger = new Uint8Array(encoded.length + 20).fill(0xff);
    larger.set(encoded, 7);
    const part = larger.subarray(7, 7 + encoded.length);
    assert.deepEqual(decode(part), [1, Uint8Array.of(9, 8)]);
  });
});

describe("encode", () => {
  it("asserts on undefined, which decode answers for malformed bytes", () => {
    assert.throws(() => encode(undefined), InvariantError);
  });

  it("works again after a value that cannot be encoded", () => {
    assert.throws(() => encode([1, () => 2]));
    assert.deepEqual(decode(encode([1, 2])), [1, 2]);
  });

  it("writes the bytes of RFC 8949's examples", () => {
    const table: ReadonlyArray<readonly [unknown, string]> = [
      [[1, [2, 3], -1], "83 01 82 02 03 20"],
      [{ a: 1, b: Uint8Array.of(1, 2) }, "a2 61 61 01 61 62 42 01 02"],
      [1_000_000, "1a 00 0f 42 40"],
      ["ü", "62 c3 bc"],
    ];
    for (const [value, hex] of table) assert.deepEqual(encode(value), bytes(hex));
  });
});

describe("decode", () => {
  it("answers undefined for every malformed or unwanted item", () => {
    const table: Readonly<Record<string, string>> = {
      "nothing": "",
      "an array cut short": "83 01 02",
      "a second item": "01 02",
      "a byte string cut short": "44 01 02 03",
      "a text cut short": "78 ff 61",
      "a number cut short": "1a 00 01",
      "an array of 2^32 - 1 items": "9a ff ff ff ff",
      "an array of 2^64 - 1 items": "9b ff ff ff ff ff ff ff ff 00",
      "a map without its last value": "a2 61 61 01 61 62",
      "a byte string of 2^63 bytes": "5b 80 00 00 00 00 00 00 00 00",
      "an indefinite array": "9f 01 ff",
      "an indefinite byte string": "5f 41 00 ff",
      "a break alone": "ff",
      "a reserved length": "1c",
      "an unassigned simple value": "f8 20",
      "a date": "c1 1a 51 4b 67 b0",
      "a typed array": "d8 40 42 01 02",
      "a shared reference": "d8 1c 81 d8 1d 00",
      "an Error by name": "d8 1b 82 65 45 72 72 6f 72 61 78",
      "a record": "d9 df ff 83 00 81 61 61 01",
      "a tag inside an array": "82 01 c0 61 78",
      "a map as a key": "a1 a0 01",
    };
    for (const [what, hex] of Object.entries(table)) {
      assert.equal(decode(bytes(hex)), undefined, what);
    }
  });

  it(`takes ${DEPTH_MAX} containers inside each other, not one more`, () => {
    const nested = (depth: number) => new Uint8Array(depth + 1).fill(0x81, 0, depth);
    assert.notEqual(decode(nested(DEPTH_MAX)), undefined);
    assert.equal(decode(nested(DEPTH_MAX + 1)), undefined);
    assert.equal(decode(new Uint8Array(1 << 20).fill(0x81)), undefined);
  });

  it("counts no depth for containers side by side", () => {
    const wide = Array.from({ length: 1_000 }, () => [[], {}]);
    assert.deepEqual(decode(encode(wide)), wide);
  });

  it("never throws and never yields more than plain data, whatever the bytes", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 40 }), (random) => {
        assertPlain(decode(random));
      }),
      seeded({ numRuns: 3_000 }),
    );
  });

  it("never throws on a valid message with one byte changed or its end cut off", () => {
    fc.assert(
      fc.property(plainData, fc.nat(), fc.integer({ min: 0, max: 255 }), (value, at, byte) => {
        const changed = new Uint8Array(encode(value));
        changed[at % changed.length] = byte;
        assertPlain(decode(changed));
        assertPlain(decode(changed.subarray(0, at % changed.length)));
      }),
      seeded(),
    );
  });

  it("gives no access to a prototype", () => {
    const decoded = decode(bytes("a1 69 5f5f70726f746f5f5f a1 61 78 01")) as object;
    assert.equal(Object.getPrototypeOf(decoded), Object.prototype);
  });
});

describe("encodeSealed and decodeSealed", () => {
  it("bring back every plain value", () => {
    fc.assert(
      fc.property(plainData, (value) => assert.deepEqual(decodeSealed(encodeSealed(value)), value)),
      seeded(),
    );
  });

  it("are the value and a checksum of 32 bits behind it, whatever the checksum", () => {
    for (let value = 0; value < 1_000; value++) {
      const item = encode(value), sealed = encodeSealed(value);
      assert.deepEqual(sealed.subarray(0, item.length), item);
      assert.equal(sealed.length, item.length + 5);
      assert.equal(sealed[item.length], 0x1a);
    }
  });

  it("leave earlier messages as they are", () => {
    const messages = Array.from({ length: 1_000 }, (_, i) => [i, "x".repeat(i)]);
    const sealed = messages.map(encodeSealed);
    assert.deepEqual(sealed.map(decodeSealed), messages);
  });

  it("refuse a message of which a bit is turned over, whichever, or whose end is cut off", () => {
    const sealed = encodeSealed([3, "a-rnic", 1, 0, 181_651, Infinity, [["tor", 0, 4]], false]);
    for (let bit = 0; bit < 8 * sealed.length; bit++) {
      const changed = sealed.slice();
      changed[bit >> 3]! ^= 1 << (bit & 7);
      assert.equal(decodeSealed(changed), undefined, `bit ${bit}`);
    }
    for (let length = 0; length < sealed.length; length++) {
      assert.equal(decodeSealed(sealed.subarray(0, length)), undefined);
    }
    assert.equal(decodeSealed(encode(sealed)), undefined);
  });
});

function assertPlain(value: unknown): void {
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return;
  const prototype = Object.getPrototypeOf(value);
  assert.ok(prototype === Object.prototype || prototype === Array.prototype);
  for (const part of Object.values(value)) assertPlain(part);
}
