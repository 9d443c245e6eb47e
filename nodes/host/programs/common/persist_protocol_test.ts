import { POLICIES, PUT_METHODS } from "../../../../fabric/rack/plan/vocabulary.ts";
import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  decodeMessage,
  decodePendingMessage,
  decodeServerTerms,
  decodeTerms,
  encodeMessage,
  encodePendingMessage,
  encodeServerTerms,
  encodeTerms,
  PENDING_MESSAGE_BYTES,
  type PersistMessage,
  type Terms,
  WORD_BYTES_MAX,
} from "./persist_protocol.ts";
import { seeded } from "../../../../fabric/base/property_testing.ts";
import fc from "fast-check";

const WORD = fc.integer({ min: 0, max: 2 ** 32 - 1 });
const WIDE = fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER });
const NAME = fc.string({ unit: "grapheme", minLength: 1, maxLength: 20 });
const why = fc.constantFrom("no-space", "not-found", "bad-request");
const flow = fc.constantFrom(1, 2);

function message(): fc.Arbitrary<PersistMessage> {
  const of = <Type extends PersistMessage["type"]>(type: Type) => fc.constant(type);
  const then = fc.record({ va: WIDE, bytes: fc.uint8Array({ maxLength: WORD_BYTES_MAX }) });
  const object = fc.record({ name: NAME, length: WIDE, incomplete: fc.constant(true as const) }, {
    requiredKeys: ["name", "length"],
  });
  const objects = fc.array(object, { maxLength: 8 });
  return fc.oneof(
    fc.record({ type: of("open-write"), id: WORD, name: NAME, length: WIDE }),
    fc.record({
      type: of("open-write"),
      id: WORD,
      name: NAME,
      length: WIDE,
      alone: fc.constant(true as const),
    }),
    fc.record({
      type: of("open-write"),
      id: WORD,
      name: NAME,
      length: WIDE,
      replaces: fc.constant(true as const),
    }),
    fc.record(
      { type: of("open-read"), id: WORD, name: NAME, partial: fc.constant(true as const) },
      {
        requiredKeys: ["type", "id", "name"],
      },
    ),
    fc.record({ type: of("publish"), id: WORD, complete: fc.boolean() }),
    fc.record({ type: of("remove"), id: WORD, name: NAME }),
    fc.record({ type: of("list"), id: WORD, next: WORD }),
    fc.record({
      type: of("region"),
      id: WORD,
      va: WIDE,
      length: WIDE,
      rkey: WORD,
      access: WORD,
      flow,
      scmOffset: WIDE,
      withdrawn: fc.constant(true as const),
      incomplete: fc.constant(true as const),
      ring: fc.record({ va: WIDE, rkey: WORD, epoch: WORD, generation: WORD }),
    }, { requiredKeys: ["type", "id", "va", "length", "rkey", "access", "flow", "scmOffset"] }),
    fc.record({ type: of("names"), id: WORD, next: WORD, objects }),
    fc.record({ type: of("refused"), id: WORD, why }),
    fc.record({ type: of("persist-mark"), id: WORD, va: WIDE, length: WIDE }),
    fc.record({ type: of("data"), id: WORD, va: WIDE, length: WIDE }),
    fc.record({ type: of("flushed"), id: WORD }),
    fc.record({ type: of("commit"), id: WORD, va: WIDE, length: WIDE, then }),
    fc.record({ type: of("commit-data"), id: WORD, va: WIDE, length: WIDE, then }),
    fc.record({
      type: of("deposit"),
      id: WORD,
      scmOffset: WIDE,
      length: WIDE,
      sequence: WORD,
      generation: WORD,
      epoch: WORD,
      crc: WORD,
    }),
  ) as fc.Arbitrary<PersistMessage>;
}

describe("encodeMessage and decodeMessage", () => {
  it("give back every message", () => {
    fc.assert(
      fc.property(message(), (each) => {
        // Records are made without a prototype; clones have the usual one.
        same(decodeMessage(encodeMessage(each)), structuredClone(each));
      }),
      seeded(),
    );
  });

  it("take any bytes without an exception", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 80 }), (bytes) => {
        decodeMessage(bytes);
        decodeTerms(bytes);
        decodeServerTerms(bytes);
      }),
      seeded(),
    );
    equal(decodeMessage(new Uint8Array(31)), undefined);
  });
});

describe("terms", () => {
  it("P-29 (in part): carry method, policy, depth and size there, and what the responder is back", () => {
    for (const method of [...PUT_METHODS, "read"] as const) {
      for (const policy of POLICIES) {
        const terms: Terms = { method, policy, depth: 70_000, messageBytes: 1 << 20 };
        same(decodeTerms(encodeTerms(terms)), terms);
      }
    }
    for (
      const terms of [
        { flow: 1, flush: "read", receive: "dram" },
        { flow: 2, flush: "cpu", receive: "scm" },
        { flow: 2, flush: "none", receive: "scm" },
      ] as const
    ) {
      same(decodeServerTerms(encodeServerTerms(terms)), terms);
    }
    equal(decodeTerms(new Uint8Array(16)), undefined);
  });
});

const pending = fc.record({
  id: WORD,
  scmOffset: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  sequence: WORD,
  generation: WORD,
  epoch: WORD,
});
const payload = fc.uint8Array({ minLength: 1, maxLength: 300 });

describe("decodePendingMessage", () => {
  it("returns what encodePendingMessage encoded, with whatever behind it", () => {
    fc.assert(
      fc.property(pending, payload, fc.uint8Array({ maxLength: 20 }), (each, data, rest) => {
        const encoded = encodePendingMessage(each, data);
        equal(encoded.length, PENDING_MESSAGE_BYTES + data.length);
        const bytes = new Uint8Array([...encoded, ...rest]);
        const decoded = decodePendingMessage(bytes);
        const { type, length, crc: _, ...told } = decoded!.pending;
        same([type, length, { ...told }, [...decoded!.payload]], [
          "deposit",
          data.length,
          { ...each },
          [...data],
        ]);
      }),
      seeded(),
    );
  });

  it("P-41 (in part): takes none that is torn at any word, what was there before being anything", () => {
    fc.assert(
      fc.property(pending, payload, fc.integer({ min: 0 }), (each, data, seed) => {
        const encoded = encodePendingMessage(each, data);
        const words = Math.ceil(encoded.length / 8);
        const torn = encoded.slice();
        const word = seed % words;
        const part = torn.subarray(8 * word, 8 * word + 8);
        part.forEach((byte, i) => part[i] = byte ^ (i === 0 ? 0x5a : 0x3c));
        equal(decodePendingMessage(torn), undefined);
      }),
      seeded(),
    );
  });

  it("takes any bytes without an exception", () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 100 }), (bytes) => {
        equal(decodePendingMessage(bytes), undefined);
      }),
      seeded(),
    );
  });
});
