import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation } from "./observation.ts";
import {
  BLOCK_HEAD_BYTES,
  countedOf,
  incarnationOf,
  readBlockBody,
  readBlockHead,
  recordTo,
} from "./recording.ts";
import { spanNumber } from "../clock/clock.ts";
import { ALL_SPANS } from "../clock/member.ts";

const AT = { time: 9_007_199_254_000_000, node: 3, event: 12 };
const SEEN: Observation[] = [
  {
    ...AT,
    kind: "sent",
    port: 1,
    startPs: 10,
    endPs: 20,
    frame: Uint8Array.of(1, 2, 3),
    text: "",
    effect: undefined,
  },
  {
    ...AT,
    kind: "sent",
    port: 1,
    startPs: 20,
    endPs: 30,
    frame: Uint8Array.of(4),
    text: "",
    effect: { says: ["delayed"], copies: 2, latePs: 7, damaged: Uint8Array.of(5) },
  },
  { ...AT, kind: "cut-off", port: 1, startPs: 40, frame: Uint8Array.of(6) },
  { ...AT, kind: "looped", end: "sent", startPs: 40, endPs: 50, frame: Uint8Array.of(7) },
  {
    ...AT,
    kind: "received",
    port: 0,
    startPs: 5,
    endPs: 6,
    frame: undefined,
    text: "interrupt",
    effect: undefined,
  },
  { ...AT, kind: "step", step: { step: "S903", text: "sends", psn: 4, scm: [1, 2] } },
  {
    ...AT,
    kind: "note",
    by: "a/0/put#0",
    note: { kind: "writes", id: 7, on: "b", at: 4096, bytes: Uint8Array.of(9, 8), after: [6] },
  },
  { ...AT, kind: "note", by: "a/0/put#0", note: { kind: "persistent", id: 7, promised: true } },
  { ...AT, kind: "report", topic: "result", value: { records: 3, latencies: [5, 6] } },
];

describe("a recording", () => {
  it("gives back what was seen, in a block for each span that had something", () => {
    const blocks: Uint8Array<ArrayBuffer>[] = [];
    const observer = recordTo((block) => blocks.push(block.slice()), "all");
    const span = spanNumber(2, 17);
    observer.commit(span - 1);
    for (const seen of SEEN) observer.see(seen);
    observer.commit(span);
    observer.commit(span + 1);
    assert.equal(blocks.length, 1);
    const [block] = blocks;
    const head = readBlockHead(block!.subarray(0, BLOCK_HEAD_BYTES));
    assert.deepEqual(head, { bytes: block!.length - BLOCK_HEAD_BYTES, span });
    assert.equal(incarnationOf(span), 2);
    assert.deepEqual(readBlockBody(block!.slice(BLOCK_HEAD_BYTES)), SEEN);
  });
});

describe("what counts of a recording", () => {
  const at = 5_000;
  const seen = [4_000, 4_999, 5_000, 6_000].map((time): Observation => {
    return { kind: "note", time, node: 0, event: 1, by: "a", note: { kind: "visible", id: time } };
  });
  const timesOf = (span: number, settledSpan?: number) => {
    const kill = settledSpan === undefined ? undefined : { at, settledSpan };
    return countedOf(seen, { span, kill }).map(({ time }) => time);
  };

  it("is all of a process that was not killed", () => {
    assert.deepEqual(timesOf(9), [4_000, 4_999, 5_000, 6_000]);
  });

  it("is nothing of a span that was not reported when its process was killed", () => {
    assert.deepEqual(timesOf(9, 8), []);
    assert.deepEqual(timesOf(9, 9), [4_000, 4_999, 5_000, 6_000]);
  });

  it("P-41 (in part): is all that a process of unknown progress did before it died", () => {
    assert.deepEqual(timesOf(9, ALL_SPANS), [4_000, 4_999, 4_999, 4_999]);
  });
});
