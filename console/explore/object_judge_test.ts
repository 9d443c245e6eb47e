import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { viewOf } from "../../fabric/base/slab.ts";
import { crc32 } from "../../fabric/wire/roce/icrc.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { ENTRY_BYTES, MAGIC, VERSION } from "../checks/scm_objects.ts";
import type { Cell } from "./choices.ts";
import { Pages } from "./history.ts";
import { judgeObjects } from "./object_judge.ts";

const SCM_BYTES = 128 << 10;

function entryBytes(generation: number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(ENTRY_BYTES), view = viewOf(bytes);
  view.setUint32(4, generation);
  view.setUint32(0, crc32(bytes.subarray(4)));
  return bytes;
}

/** Whether not all ways were tried to find a directory with these cells. */
function isBounded(cells: readonly Omit<Cell, "at" | "writebacks">[]): boolean {
  const image = new Pages();
  const head = new Uint8Array(16), view = viewOf(head);
  view.setUint32(4, MAGIC);
  view.setUint32(8, VERSION);
  image.write(0, head);
  const open = cells.map((cell): Cell => ({ at: 1, writebacks: () => [], ...cell }));
  const found = (from: number, to: number) =>
    open.filter((cell) => cell.from < to && cell.from + cell.length > from);
  const node = { name: "b", kind: "host", config: { scmBytes: SCM_BYTES } };
  const record = {
    plan: { nodes: [node] } as unknown as RunRecord["plan"],
    lives: new Map(),
    reports: [],
    notes: [],
    scm: () => undefined,
  };
  const { finding, isBounded } = judgeObjects(record, [
    { host: "b", image, cells: { in: found } },
  ]);
  same(finding, undefined);
  return isBounded;
}

/** An entry that is there or not. */
const entry = (number: number) => ({
  from: number * ENTRY_BYTES,
  length: ENTRY_BYTES,
  alternatives: [new Uint8Array(ENTRY_BYTES), entryBytes(number)],
});

it("judgeObjects says where a directory may be found in more ways than are gone through", () => {
  const entries = (count: number) => Array.from({ length: count }, (_, i) => entry(i + 1));
  equal(isBounded([]), false);
  equal(isBounded(entries(4)), false);
  equal(isBounded(entries(12)), false, "4096 ways");
  equal(isBounded(entries(13)), true);
});

it("judgeObjects says where one entry may be torn in more ways than are looked at", () => {
  const words = (count: number, size: number) =>
    Array.from({ length: count }, (_, i) => ({
      from: ENTRY_BYTES + size * i,
      length: size,
      alternatives: [0, 1].map((value) => new Uint8Array(size).fill(value)),
    }));
  equal(isBounded(words(8, 8)), false, "all that are torn are one free entry");
  equal(isBounded(words(17, 4)), true);
});
