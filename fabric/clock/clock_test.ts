import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { decodeSealed, encodeSealed } from "../bus/codec.ts";
import {
  aliveFromBytes,
  aliveToBytes,
  type Grant,
  joinFromBytes,
  joinToBytes,
  newsFromBytes,
  newsToBytes,
  type Report,
  reportFromBytes,
  reportToBytes,
  type Welcome,
} from "./clock.ts";
import { NEVER } from "../base/time.ts";
import { seeded } from "../base/property_testing.ts";

const GRANT: Grant = {
  term: 1,
  incarnation: 2,
  id: 3,
  horizon: NEVER,
  expect: [["b", 0, 7]],
  confirmed: [["b", 4]],
  links: [{ at: 5, target: 1, port: 0, up: false, source: 2, sourceLife: 0 }],
  runs: [{
    at: 6,
    host: "a",
    counter: 0,
    program: { run: "get", at: 0, service: false, options: { from: "b" } },
  }],
  cables: [{ id: 2, action: "cut", cable: 4, direction: "both", at: 9 }],
  lost: [["c", 0]],
  breaks: [["S907", "b", 1]],
};

const REPORT: Report = {
  term: 1,
  partition: "a",
  incarnation: 2,
  grant: 3,
  reached: 2 ** 50,
  next: NEVER,
  now: 9,
  ran: 10,
  events: 11,
  sent: [["b", 2, 12, NEVER]],
  digests: [["a", -5, 6, 7]],
  hits: [[0, "b", 9]],
  taken: [["b", 0, 13]],
};

const WELCOME: Welcome = {
  term: 0,
  instance: "x",
  incarnation: 1,
  bootAt: 5,
  settledSpan: 4,
  lives: [["a", 1, -2, 3, 4]],
  noticed: [{ at: 90, target: 0, port: 2, up: false, source: 1, sourceLife: 1 }],
  sentSoFar: [["b", 0, 2]],
};

const CASES = [
  {
    name: "a grant",
    value: { kind: "grant", body: GRANT },
    to: newsToBytes,
    from: newsFromBytes,
  },
  {
    name: "a welcome",
    value: { kind: "welcome", body: WELCOME },
    to: newsToBytes,
    from: newsFromBytes,
  },
  { name: "a report", value: REPORT, to: reportToBytes, from: reportFromBytes },
  {
    name: "a report in the normal course",
    value: { ...REPORT, taken: null },
    to: reportToBytes,
    from: reportFromBytes,
  },
  {
    name: "a join",
    value: { partition: "a", instance: "x" },
    to: joinToBytes,
    from: joinFromBytes,
  },
  {
    name: "a heartbeat",
    value: { partition: "a", instance: "x", refused: [["rack.r.clock.ask", 3]] },
    to: aliveToBytes,
    from: aliveFromBytes,
  },
] as unknown as {
  name: string;
  value: unknown;
  to: (value: unknown) => Uint8Array;
  from: (bytes: Uint8Array) => unknown;
}[];

/** The row of a message's fields, and the bytes of another one in its place. */
function rowIn(bytes: Uint8Array): { row: unknown[]; withRow: (row: unknown[]) => Uint8Array } {
  const value = decodeSealed(bytes) as unknown[];
  if (!Array.isArray(value[1])) return { row: value, withRow: encodeSealed };
  return { row: value[1], withRow: (row) => encodeSealed([value[0], row]) };
}

describe("the clock's messages", () => {
  for (const { name, value, to, from } of CASES) {
    it(`${name} comes back from the bus as it was`, () => {
      assert.deepEqual(from(to(value)), value);
    });

    it(`${name} with a field too few, too many or of another type is refused`, () => {
      const { row, withRow } = rowIn(to(value));
      assert.deepEqual(from(withRow(row)), value);
      assert.equal(from(withRow(row.slice(1))), undefined);
      assert.equal(from(withRow([...row, 0])), undefined);
      for (let i = 0; i < row.length; i++) {
        for (const wrong of [{ not: "this" }, -0.5, [[["this"]]], undefined]) {
          assert.equal(from(withRow(row.with(i, wrong))), undefined, `field ${i}`);
        }
      }
    });

    it(`${name} of which a bit is turned over is refused, whichever`, () => {
      const bytes = to(value);
      for (let bit = 0; bit < 8 * bytes.length; bit++) {
        const changed = bytes.slice();
        changed[bit >> 3]! ^= 1 << (bit & 7);
        assert.equal(from(changed), undefined, `bit ${bit}`);
      }
    });
  }

  it("stand on the bus as rows in one order of fields, which processes of other builds read", () => {
    const program = { run: "get", at: 0, service: false, options: { from: "b" } };
    assert.deepEqual(decodeSealed(newsToBytes({ kind: "grant", body: GRANT })), ["grant", [
      ...[1, 2, 3, NEVER, [["b", 0, 7]], [["b", 4]], [[5, 1, 0, false, 2, 0]]],
      ...[[[6, "a", 0, program]], GRANT.cables, [["c", 0]], [["S907", "b", 1]]],
    ]]);
    assert.deepEqual(decodeSealed(reportToBytes(REPORT)), [
      ...[1, "a", 2, 3, 2 ** 50, NEVER, 9, 10, 11, [["b", 2, 12, NEVER]]],
      ...[[["a", -5, 6, 7]], [[0, "b", 9]], [["b", 0, 13]]],
    ]);
    assert.deepEqual(decodeSealed(joinToBytes({ partition: "a", instance: "x" })), ["a", "x"]);
    assert.deepEqual(decodeSealed(newsToBytes({ kind: "welcome", body: WELCOME })), ["welcome", [
      ...[0, "x", 1, 5, 4, [["a", 1, -2, 3, 4]], [[90, 0, 2, false, 1, 1]], [["b", 0, 2]]],
    ]]);
  });

  it("any value is refused without an exception, or is a message as it stands", () => {
    const plain = fc.anything({ values: [fc.integer(), fc.string(), fc.boolean(), fc.double()] });
    fc.assert(
      fc.property(plain, fc.uint8Array(), (value, bytes) => {
        // Not all of it can be said on the bus.
        const said = value === undefined ? bytes : encodeSealed(value);
        for (const { from, to } of CASES) {
          for (const each of [said, bytes]) {
            const message = from(each);
            // Two texts are a join, whatever they are.
            if (message !== undefined) assert.deepEqual(decodeSealed(to(message)), value);
          }
        }
      }),
      seeded({ seed: 7 }),
    );
  });
});
