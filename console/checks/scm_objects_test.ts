import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../fabric/base/property_testing.ts";
import { viewOf } from "../../fabric/base/slab.ts";
import { directoryIn } from "./scm_objects.ts";

const KIB = 1_024, DIRECTORY_BYTES = 64 * KIB;

describe("directoryIn", () => {
  /** The head of a directory at each of these places of 256 B. */
  function scmWith(places: readonly number[], scmBytes: number): Uint8Array<ArrayBuffer> {
    const scm = new Uint8Array(scmBytes);
    for (const place of places) {
      if (256 * place + 16 > scmBytes) continue;
      viewOf(scm).setUint32(256 * place + 4, 0x5243_4b4d);
      viewOf(scm).setUint32(256 * place + 8, 1);
    }
    return scm;
  }

  it("finds the first place with room for a directory, and reads only what may have been written", () => {
    const memories = fc.tuple(
      fc.nat(600),
      fc.array(fc.nat(600), { maxLength: 3 }),
      fc.boolean(),
    ).map(([all, places, isAtEnd]) => {
      const last = all - DIRECTORY_BYTES / 256;
      return { scmBytes: 256 * all, places: isAtEnd && last >= 0 ? [...places, last] : places };
    });
    fc.assert(
      fc.property(memories, ({ scmBytes, places }) => {
        const scm = scmWith(places, scmBytes);
        const read = (from: number, to: number) => {
          assert.ok(to <= scmBytes, "no byte behind the end");
          return scm.slice(from, to);
        };
        const starts = places.map((place) => 256 * place)
          .filter((at) => at + DIRECTORY_BYTES <= scmBytes);
        const from = Math.min(...starts);
        const expected = starts.length === 0 ? undefined : { from, to: from + DIRECTORY_BYTES };
        assert.deepEqual(directoryIn({ read }, scmBytes), expected);
        const touches = (from: number, to: number) =>
          scm.subarray(from, to).some((byte) => byte > 0);
        const readTouched = (from: number, to: number) => {
          assert.ok(touches(from, to), "what was never written is not read");
          return read(from, to);
        };
        assert.deepEqual(directoryIn({ read: readTouched, touches }, scmBytes), expected);
      }),
      seeded(),
    );
  });
});
