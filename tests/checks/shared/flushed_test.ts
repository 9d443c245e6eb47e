import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  fill,
  findingsOf,
  type imageOf,
  recordOf,
} from "../../../console/checks/record_testing.ts";
import { imageOf as image } from "../../../console/checks/record_testing.ts";
import type { Life } from "../../../console/checks/lives.ts";
import { flushedWrites } from "../../../console/checks/shared/flushed.ts";
import { persistence } from "../../../console/checks/persistence.ts";
import {
  REGION_AT,
  type Told,
  told,
  used,
  word,
} from "../../../console/checks/shared/shared_testing.ts";

/** What is found where a's SCM has these bytes where the region begins. */
function found(
  accesses: readonly Told[],
  bytes: Uint8Array,
  of: { memory?: "dram" } = {},
): string[] {
  const scm: ReturnType<typeof imageOf> = image({ [REGION_AT]: bytes });
  const notes = [...used(of), ...told(accesses)];
  return findingsOf(persistence, { notes, scm: (host) => host === "a" ? scm : undefined });
}

const ONE = fill(1), TWO = fill(2), ZERO = fill(0);
const STORE: Told = { from: 10, to: 20, on: "b", bytes: ONE };
const FLUSH: Told = { op: "flush", from: 30, to: 40, on: "b", length: 8 };

describe("C-10: what was flushed of a shared region", () => {
  it("survives home's power failure", () => {
    assert.deepEqual(found([STORE, FLUSH], ONE), []);
    assert.match(
      found([STORE, FLUSH], ZERO)[0]!,
      /^a: SCM at 0x100 is lost: store 0 of b\/0\/put#0/,
    );
    assert.deepEqual(found([STORE], ZERO), []);
    assert.match(found([STORE], TWO)[0]!, /is from nowhere/);
    const refused: Told = { ...STORE, result: "refused" };
    const other: Told = { ...STORE, from: 50, to: 60, bytes: TWO };
    assert.deepEqual(found([refused, other], ZERO), []);
    assert.match(found([refused, other], ONE)[0]!, /is from nowhere/);
  });

  it("survives any host's flush of it that the flush began after the store's end", () => {
    assert.equal(found([STORE, { ...FLUSH, on: "a" }], ZERO).length, 1);
    assert.deepEqual(found([STORE, { ...FLUSH, on: "a", from: 20 }], ZERO), []);
    assert.equal(found([STORE, { ...FLUSH, from: 20 }], ZERO).length, 1);
    assert.deepEqual(found([STORE, { ...FLUSH, from: 19 }], ZERO), []);
    assert.deepEqual(found([STORE, { ...FLUSH, result: "fenced" }], ZERO), []);
    assert.deepEqual(found([STORE, { from: 30, on: "b", op: "flush", length: 8 }], ZERO), []);
  });

  it("is what the flush covers, by one flush or by several", () => {
    const wide: Told = { ...STORE, bytes: fill(1, 128) };
    const half: Told = { ...FLUSH, length: 64 };
    assert.deepEqual(found([wide, half], fill(0, 128)), []);
    assert.equal(
      found([wide, half, { ...half, at: 64, from: 50, to: 60 }], fill(0, 128)).length,
      1,
    );
  });

  it("may be under what was stored later", () => {
    const later: Told = { ...STORE, bytes: TWO, from: 50, to: 60 };
    for (const value of [ONE, TWO]) assert.deepEqual(found([STORE, FLUSH, later], value), []);
    assert.equal(found([STORE, FLUSH, later], ZERO).length, 1);
  });

  it("may be an atomic's sum or swap", () => {
    const add: Told = { op: "add", from: 10, to: 20, bytes: word(5), found: ZERO };
    assert.deepEqual(found([add, { ...FLUSH, on: "a" }], word(5)), []);
    assert.equal(found([add, { ...FLUSH, on: "a" }], ZERO).length, 1);
    const swap: Told = { ...add, op: "compare-swap", compare: ZERO };
    assert.equal(found([swap, { ...FLUSH, on: "a" }], ZERO).length, 1);
    // One that finds another value swaps nothing.
    const none: Told = { ...swap, compare: ONE };
    assert.deepEqual(found([none, { ...FLUSH, on: "a" }], ZERO), []);
    // The sum of one that was not answered is not known: the word is not judged.
    const open: Told = { op: "add", from: 10, bytes: word(5) };
    assert.deepEqual(found([open], word(77)), []);
  });

  it("is promised by no flush that ends in a later life of home: memory had not the store by then", () => {
    const notes = [...used(), ...told([STORE, FLUSH])];
    const promised = (...home: Life[]) =>
      flushedWrites(notes, new Map([["a", home]])).map(({ promised }) => promised?.time);
    assert.deepEqual(promised({ from: 0, to: Infinity }), [40]);
    assert.deepEqual(promised({ from: 0, to: 35 }, { from: 36, to: Infinity }), [undefined]);
    assert.deepEqual(promised({ from: 0, to: 15 }, { from: 16, to: Infinity }), [40]);
    assert.deepEqual(promised({ from: 0, to: 41 }, { from: 42, to: Infinity }), [40]);
  });

  it("is nothing in DRAM", () => {
    assert.deepEqual(found([STORE, FLUSH], ZERO, { memory: "dram" }), []);
    const notes = [...used(), ...told([STORE, FLUSH])];
    assert.equal(persistence.subjects(recordOf({ notes })), 1);
  });
});
