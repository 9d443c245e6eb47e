import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CrashCursor, type Entry, Pages } from "./history.ts";

const filled = (length: number, value: number) => new Uint8Array(length).fill(value);

/** A core stores to lines 64 and 128, twice each; then these bytes get durable. @returns first bytes of what is left. */
function versionsBehind(offset: number, length: number): Record<number, (number | undefined)[]> {
  const dirty = [64, 128].flatMap((line) =>
    [1, 2].map((at): Entry => ({ kind: "dirty", at, line, bytes: filled(64, at), words: 1 }))
  );
  const durable: Entry = { kind: "durable", at: 3, offset, bytes: filled(length, 9), unit: 8 };
  const entries = [...dirty.sort((x, y) => x.at - y.at), durable];
  const cursor = new CrashCursor(entries, new Pages());
  cursor.moveTo(3);
  same([...cursor.dirty.values()].map(({ versions }) => versions.length), [2, 2]);
  cursor.moveTo(4);
  return Object.fromEntries([...cursor.dirty].map(([line, { versions }]) => {
    return [line, versions.map(({ bytes }) => bytes[0])];
  }));
}

describe("CrashCursor", () => {
  it("P-04: no older bytes of a line come behind ones of it that are durable, wherever in it they are", () => {
    for (const [offset, length] of [[64, 64], [64, 8], [72, 8], [120, 8]] as const) {
      same(versionsBehind(offset, length), { 64: [2], 128: [1, 2] }, `${length} B at ${offset}`);
    }
    for (const [offset, length] of [[128, 64], [136, 8], [191, 1]] as const) {
      same(versionsBehind(offset, length), { 64: [1, 2], 128: [2] }, `${length} B at ${offset}`);
    }
    same(versionsBehind(120, 16), { 64: [2], 128: [2] }, "of both");
    same(versionsBehind(0, 64), { 64: [1, 2], 128: [1, 2] }, "of neither");
    same(versionsBehind(192, 8), { 64: [1, 2], 128: [1, 2] }, "of neither");
  });
});
