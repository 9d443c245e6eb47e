import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import fc from "fast-check";
import { decode, encode } from "../bus/codec.ts";
import {
  type Grant,
  grantFromArray,
  grantToArray,
  joinFromArray,
  joinToArray,
  type Report,
  reportFromArray,
  reportToArray,
  type Welcome,
  welcomeFromArray,
  welcomeToArray,
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
  { name: "a grant", value: GRANT, to: grantToArray, from: grantFromArray },
  { name: "a report", value: REPORT, to: reportToArray, from: reportFromArray },
  {
    name: "a report in the normal course",
    value: { ...REPORT, taken: null },
    to: reportToArray,
    from: reportFromArray,
  },
  {
    name: "a join",
    value: { partition: "a", instance: "x" },
    to: joinToArray,
    from: joinFromArray,
  },
  { name: "a welcome", value: WELCOME, to: welcomeToArray, from: welcomeFromArray },
] as unknown as {
  name: string;
  value: unknown;
  to: (value: unknown) => unknown[];
  from: (value: unknown) => unknown;
}[];

describe("the clock's messages", () => {
  for (const { name, value, to, from } of CASES) {
    it(`${name} comes back from the bus as it was`, () => {
      assert.deepEqual(from(decode(encode(to(value)))), value);
    });

    it(`${name} with a field too few, too many or of another type is refused`, () => {
      const row = to(value);
      assert.equal(from(row.slice(1)), undefined);
      assert.equal(from([...row, 0]), undefined);
      for (let i = 0; i < row.length; i++) {
        assert.equal(from(row.with(i, { not: "this" })), undefined, `field ${i}`);
      }
    });
  }

  it("stand on the bus as rows in one order of fields, which processes of other builds read", () => {
    const program = { run: "get", at: 0, service: false, options: { from: "b" } };
    assert.deepEqual(grantToArray(GRANT), [
      ...[1, 2, 3, NEVER, [["b", 0, 7]], [["b", 4]], [[5, 1, 0, false, 2, 0]]],
      ...[[[6, "a", 0, program]], GRANT.cables, [["c", 0]], [["S907", "b", 1]]],
    ]);
    assert.deepEqual(reportToArray(REPORT), [
      ...[1, "a", 2, 3, 2 ** 50, NEVER, 9, 10, 11, [["b", 2, 12, NEVER]]],
      ...[[["a", -5, 6, 7]], [[0, "b", 9]], [["b", 0, 13]]],
    ]);
    assert.deepEqual(joinToArray({ partition: "a", instance: "x" }), ["a", "x"]);
    assert.deepEqual(welcomeToArray(WELCOME), [
      ...[0, "x", 1, 5, 4, [["a", 1, -2, 3, 4]], [[90, 0, 2, false, 1, 1]], [["b", 0, 2]]],
    ]);
  });

  it("any value is refused without an exception, or is a message as it stands", () => {
    fc.assert(
      fc.property(fc.anything(), (value) => {
        for (const { from, to } of CASES) {
          const message = from(value);
          // Two texts are a join, whatever they are.
          if (message !== undefined) assert.deepEqual(to(message), value);
        }
      }),
      seeded({ seed: 7 }),
    );
  });
});
