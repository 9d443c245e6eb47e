import { deepStrictEqual as same, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import {
  decodePendingMessage,
  encodePendingMessage,
  PENDING_MESSAGE_BYTES,
} from "./persist_protocol.ts";
import { seeded } from "../../../../fabric/base/property_testing.ts";

const WORD = fc.integer({ min: 0, max: 2 ** 32 - 1 });

const pending = fc.record({
  id: WORD,
  scmOffset: fc.integer({ min: 0, max: Number.MAX_SAFE_INTEGER }),
  sequence: WORD,
  generation: WORD,
  epoch: WORD,
});
const payload = fc.uint8Array({ minLength: 1, maxLength: 300 });

describe("decodeDeposit", () => {
  it("gives back what encodeDeposit was given, with whatever behind it", () => {
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
