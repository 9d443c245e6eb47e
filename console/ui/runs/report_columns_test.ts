import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  hintColumns,
  type HintRow,
  leadColumns,
  queueColumns,
  type QueueRow,
} from "./report_columns.ts";

const QUEUES: QueueRow = {
  variant: "queues",
  node: "a-rnic",
  scheme: "classic",
  placement: "default",
  layout: "areas",
  store: "host",
  cache: "64, oldest",
  qps: 65_536,
  doorbells: 4096,
  dmaReadsPerDoorbell: 2.16748,
  cacheHits: 6288,
  cacheMisses: 869,
  cacheEvictions: 821,
  stalePointers: null,
  queueBytes: 64,
  pointerBytes: 12,
  storeBytes: 4096,
  latencyPs: null,
  messagesPerSecond: 4_993_205,
  throughputBps: null,
};

const HINTS: HintRow = {
  variant: "hints",
  node: "a-rnic",
  workload: "huge: 1 of 1048576 B",
  send: "at once",
  encoding: "opcode",
  by: "own",
  messages: 1,
  failed: 0,
  faults: 22,
  rnrNaks: null,
  misses: 0,
  latencyPs: { median: 2_650_000_000, p99: 2_650_000_000 },
  stallPs: 72_673_000,
  heldPs: 0,
  useful: 1,
  late: 21,
  wasted: 0,
  faultsFirst: 21,
  faultsBehindFirst: 0,
  missesFirst: 0,
  missesBehindFirst: 0,
  hints: 4,
  hintBytes: 256,
  overhead: 0.0215,
};

function shown<Row>(
  columns: readonly { readonly name: string; readonly text: (row: Row) => string }[],
  row: Row,
): string[] {
  return columns.map(({ name, text }) => `${name} ${text(row)}`.replaceAll("\u202f", " "));
}

describe("tables of a kept run", () => {
  it("Q-11: what queues have cost, without columns in which no row has anything to say", () => {
    assert.deepEqual(shown(queueColumns([QUEUES]), QUEUES), [
      "card a-rnic",
      "scheme classic",
      "placement default",
      "cache 64, oldest",
      "QPs 65 536",
      "doorbells 4 096",
      "reads each 2.17",
      "hits 6 288",
      "misses 869",
      "evictions 821",
      "B/queue 64",
      "M msg/s 4.99",
    ]);
    const latencyPs = { count: 1, min: 1, median: 2_265_000, p99: 3e6, max: 4e6, mean: 2e6 };
    const other: QueueRow = { ...QUEUES, layout: "record", stalePointers: 0, latencyPs };
    const [, , , layout] = queueColumns([QUEUES, other]);
    assert.equal(layout?.name, "layout", "in which they differ");
    const columns = queueColumns([QUEUES, other]);
    assert.deepEqual(
      columns.filter(({ name }) => /stale|median/.test(name)).map((
        { text },
      ) => [text(QUEUES), text(other)]),
      [["", "0"], ["", "2.265\u202fµs"]],
    );
  });

  it("H-30: what hints were worth", () => {
    const all = shown(hintColumns([HINTS]), HINTS);
    for (
      const each of [
        "faults 22",
        "stall 72.67 µs",
        "late 21",
        "late pages, first 21",
        "of the bytes 2.15 %",
      ]
    ) {
      assert.ok(all.includes(each), `${each} in ${all}`);
    }
    assert.ok(!all.some((each) => /^(RNR|held|late entries|run)/.test(each)), String(all));
  });

  it("Q-10: bytes of a write pointer, where schemes differ", () => {
    const other: QueueRow = { ...QUEUES, scheme: "three-space", pointerBytes: 4 };
    const column = queueColumns([QUEUES, other]).find(({ name }) => name === "B/pointer")!;
    assert.deepEqual([column.text(QUEUES), column.text(other)], ["12", "4"]);
  });

  it("H-30: lead times, the last class without an end", () => {
    const row = { variant: "x", node: "b-rnic", fromPs: 1e10, useful: 3, late: 0, wasted: 1 };
    const last = { ...row, toPs: null }, first = { ...row, fromPs: 5e9, toPs: 1e10 };
    assert.deepEqual(shown(leadColumns([first, last]), last), [
      "card b-rnic",
      "hint ahead, from 10 ms",
      "to ",
      "useful 3",
      "late 0",
      "wasted 1",
    ]);
  });

  it("says the unit in the head of a file, and has times in ns", () => {
    const columns = hintColumns([HINTS]);
    const stall = columns.find(({ raw }) => raw(HINTS) === HINTS.stallPs)!;
    assert.deepEqual([stall.head, stall.cell(HINTS)], [`${stall.name} ns`, 72_673]);
    const [card] = columns;
    assert.deepEqual([card!.head, card!.cell(HINTS)], [card!.name, card!.raw(HINTS)]);
  });
});
