import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord } from "../../fabric/audit.ts";
import { persistence } from "../../console/checks/persistence.ts";
import { fill, findingsOf, imageOf, noted, planOf } from "../../console/checks/record_testing.ts";

const AT = 64;
const WRITE: AuditRecord = { kind: "writes", id: 0, on: "b", at: AT, bytes: fill(0x11, 24) };
const OTHER: AuditRecord = { kind: "writes", id: 1, on: "b", at: AT, bytes: fill(0x22, 8) };
const PROMISE: AuditRecord = { kind: "persistent", id: 0, promised: true };

/** What is found wrong where the second eight bytes of the write have these bits turned over. */
function find(
  faults: readonly string[],
  of: {
    readonly bits: readonly number[];
    readonly notes?: readonly AuditRecord[];
    readonly at?: number;
  },
): string[] {
  const { bits, notes = [WRITE], at = AT + 8 } = of;
  const found = fill(0x11, 24);
  for (const bit of bits) found[at - AT + (bit >> 3)]! ^= 1 << (bit & 7);
  return findingsOf(persistence, {
    plan: planOf(faults),
    notes: notes.map((note, i) => noted(10 * (i + 1), note)),
    b: imageOf({ [AT]: found }),
  });
}

const FLIP = "{ rnic: b, flip: 1%, where: bus }";
const SEALED = "{ link: a, corrupt: 1%, past: icrc }";

describe("V-08: data that was damaged on its way, and found so after a power failure", () => {
  it("is from nowhere where the plan has no such fault", () => {
    assert.equal(find([], { bits: [3] }).length, 1);
    assert.equal(find(["{ link: a, corrupt: 1% }"], { bits: [3] }).length, 1, "the ICRC sees it");
    assert.equal(
      find(["{ rnic: a, flip: 1%, where: bus }"], { bits: [3] }).length,
      1,
      "a's memory",
    );
  });

  it("is allowed without a promise, up to as many bits as there are faults", () => {
    for (const fault of [FLIP, SEALED, "{ rnic: a, flip: 1%, where: fetch }"]) {
      assert.deepEqual(find([fault], { bits: [3] }), [], fault);
      assert.deepEqual(find([fault], { bits: [3, 60] }), [], "of two packets, a bit each");
      assert.equal(find([fault], { bits: [3, 60, 61] }).length, 1, fault);
    }
    assert.deepEqual(find([FLIP, SEALED], { bits: [3, 4, 60, 61] }), []);
  });

  it("is allowed in each of several writes that share eight bytes, and only in them", () => {
    const halves: AuditRecord[] = [0, 4].map((at, id) => {
      return { kind: "writes", id, on: "b", at: AT + at, bytes: fill(0x11, 4) };
    });
    const one = {
      notes: [...halves, { ...WRITE, id: 2, at: AT + 8, bytes: fill(0x11, 16) }],
      at: AT,
    };
    assert.deepEqual(find([FLIP], { ...one, bits: [3, 40] }), [], "a bit of each");
    assert.equal(find([], { ...one, bits: [3, 40] }).length, 1);
    const promised = { ...one, notes: [...one.notes, PROMISE] };
    assert.deepEqual(find([FLIP], { ...promised, bits: [40] }), []);
    assert.equal(find([FLIP], { ...promised, bits: [3] }).length, 1);
    assert.equal(find([FLIP], { ...promised, bits: [3, 40] }).length, 1);
  });

  it("is lost where it was promised", () => {
    const notes = [WRITE, PROMISE];
    assert.deepEqual(find([FLIP], { bits: [], notes }), []);
    assert.equal(find([FLIP], { bits: [3], notes }).length, 1);
    // Though another write without a promise could be on top of it.
    assert.equal(find([FLIP], { bits: [3], notes: [...notes, OTHER], at: AT }).length, 1);
    assert.equal(find([FLIP], { bits: [3], notes: [...notes, OTHER] }).length, 1);
  });

  it("may be what a broken cell holds, whatever was written", () => {
    const stuck = `{ scm: b, stuck: ${AT + 9}, bit: 2, value: 1 }`;
    assert.deepEqual(find([stuck], { bits: [10] }), []);
    assert.equal(find([stuck], { bits: [11] }).length, 1);
    assert.equal(find([stuck], { bits: [10], notes: [WRITE, PROMISE] }).length, 1);
  });
});
