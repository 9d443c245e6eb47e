import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import {
  encodeClaim,
  encodeRecord,
  type LogRecord,
  PayloadCount,
  slotBytes,
} from "../../nodes/host/programs/log/layout.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { Cell } from "./choices.ts";
import { overlaps, Pages } from "./history.ts";
import { judgeLogs } from "./log_judge.ts";

const SHAPE = { name: "log", recordBytes: 16, slots: 4 };
const SLOT = slotBytes(SHAPE);

/** A host with a whole record, of which one was confirmed, and cells in the slot behind it. */
function judged(alternatives: readonly number[]) {
  const records: LogRecord[] = [{ epoch: 1, kind: "data", payload: new Uint8Array(16).fill(7) }];
  const image = new Pages();
  image.write(0, encodeClaim(SHAPE, 1));
  image.write(SLOT, encodeRecord(SHAPE, records, 0));
  const cells = alternatives.map((count, i): Cell => ({
    at: 1,
    from: 2 * SLOT + 8 * i,
    length: 8,
    alternatives: Array.from({ length: count }, (_, value) => new Uint8Array(8).fill(value)),
    writebacks: () => [],
  }));
  const found = (from: number, to: number) =>
    cells.filter((cell) => overlaps({ from, to }, { from: cell.from, to: cell.from + 8 }));
  const payloads = new PayloadCount();
  for (const record of records) payloads.add(record);
  const note = {
    kind: "log",
    log: SHAPE.name,
    replicas: [{ host: "b", at: [0] }],
    quorum: 1,
    recordBytes: SHAPE.recordBytes,
    segments: [SHAPE.slots],
    durable: 1,
    crc: payloads.crc,
    promised: true,
  } as const;
  const record = {
    plan: { nodes: [] } as unknown as RunRecord["plan"],
    lives: new Map(),
    reports: [],
    notes: [{ time: 1, node: "a", by: "log", note }],
    scm: () => undefined,
  };
  const { finding, paths, isBounded } = judgeLogs(record, [
    { host: "b", image, cells: { in: found } },
  ]);
  same(finding, undefined);
  return { paths, isBounded };
}

it("judgeLogs says where two ways to find memory are not all", () => {
  same(judged([]), { paths: 0, isBounded: false });
  same(judged([2]), { paths: 1, isBounded: false }, "these are the two");
  same(judged([3]), { paths: 1, isBounded: true }, "one cell, of which one content was not tried");
  same(judged([2, 2]), { paths: 1, isBounded: true }, "one cell there without the other");
});
