import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord, CompletedRecord } from "../../fabric/audit.ts";
import { completions } from "../../console/checks/completions.ts";
import { fill, findingsOf, noted } from "../../console/checks/record_testing.ts";

const QP = { qpn: 17 } as const;
type Queue = "send" | "recv" | "shared";

function posted(
  wqe: number,
  of: { signaled?: boolean; queue?: Queue; wrId?: number } = {},
): AuditRecord {
  const { signaled = true, queue = "send", wrId = 100 + wqe } = of;
  return { kind: "posted", queue, ...QP, wqe, wrId, signaled };
}

function completed(wqe: number, of: Partial<CompletedRecord> = {}): AuditRecord {
  const { queue = "send", wrId = 100 + wqe, status = "SUCCESS", ...rest } = of;
  return { kind: "completed", queue, ...QP, wqe, wrId, status, ...rest };
}

const emptied: AuditRecord = { kind: "emptied", queue: "pair", ...QP };
const flushed = { status: "WR_FLUSH_ERR" } as const;

function find(...notes: readonly AuditRecord[]): string[] {
  return findingsOf(completions, { notes: notes.map((note, i) => noted(10 * (i + 1), note)) });
}

describe("P-30, P-41: completions that programs take", () => {
  it("are right where each signalled request completes once, in order", () => {
    const unsignaled = { signaled: false };
    const found = find(
      emptied,
      posted(0),
      posted(2, unsignaled),
      posted(5, { queue: "recv" }),
      posted(3),
      completed(0),
      completed(3),
      completed(5, { queue: "recv" }),
      // The ring is round.
      posted(0),
      completed(0),
    );
    assert.deepEqual(found, []);
  });

  it("are wrong of what was not posted, or has completed", () => {
    assert.match(find(emptied, completed(0))[0]!, /WQE 0 of QP 17's send queue, which is not out/);
    assert.equal(find(emptied, posted(0), completed(0), completed(0)).length, 1);
    assert.equal(find(emptied, posted(0), completed(0, { queue: "recv" })).length, 1);
  });

  it("are wrong out of order, and of a success that was to be silent", () => {
    const [text] = find(emptied, posted(0), posted(1), completed(1));
    assert.match(text!, /WQE 1 .* overtakes WQE 0, which was signalled/);
    const silent = posted(0, { signaled: false });
    assert.match(find(emptied, silent, completed(0))[0]!, /which was unsignalled/);
    const failed = completed(0, { status: "REM_ACCESS_ERR" });
    assert.deepEqual(find(emptied, silent, failed), []);
  });

  it("are wrong with another number than the request was given", () => {
    assert.match(find(posted(0), completed(0, { wrId: 7 }))[0]!, /wr_id 7, it was posted as 100/);
  });

  it("are flushes after an error, until the queue begins again", () => {
    const error = completed(0, { status: "RETRY_EXC_ERR" });
    const all = [posted(0), posted(1), posted(2)];
    assert.deepEqual(find(...all, error, completed(1, flushed), completed(2, flushed)), []);
    assert.match(find(...all, error, completed(1))[0]!, /completes with SUCCESS after an error/);
    assert.deepEqual(find(posted(0), error, emptied, posted(0), completed(0)), []);
    assert.deepEqual(
      find(...all, error, completed(1, flushed), { kind: "resumed", ...QP }, completed(2)),
      [],
    );
  });

  it("go on after a verification that failed (V-01)", () => {
    const refused = completed(0, { status: "VERIFY_ERR" });
    assert.deepEqual(find(posted(0), posted(1), refused, completed(1)), []);
  });

  it("are of no request from before the queue was emptied", () => {
    assert.equal(find(posted(0), emptied, completed(0)).length, 1);
  });

  it("come in any order from a shared queue, once each", () => {
    const shared = (wqe: number, qpn: number) =>
      completed(wqe, { queue: "shared", qpn, srqn: QP.qpn });
    const all = [posted(0, { queue: "shared" }), posted(1, { queue: "shared" })];
    assert.deepEqual(find(...all, shared(1, 40), shared(0, 41)), []);
    assert.equal(find(...all, shared(1, 40), shared(1, 41)).length, 1);
  });

  it("are of their own host and life", () => {
    const notes = [
      noted(10, posted(0)),
      noted(20, completed(0), { node: "b" }),
      noted(50, completed(0)),
    ];
    const power = [
      { at: 30, action: "kill", node: "a" },
      { at: 40, action: "start", node: "a" },
    ] as const;
    assert.equal(findingsOf(completions, { notes, power }).length, 2);
  });

  it("are wrong where a WQE is filled that is outstanding", () => {
    assert.match(find(posted(0), posted(0))[0]!, /is posted while it is outstanding/);
  });
});

describe("P-41: what programs are told of their writes", () => {
  const write: AuditRecord = { kind: "writes", id: 0, on: "b", at: 0, bytes: fill(1) };
  const persistent: AuditRecord = { kind: "persistent", id: 0, promised: true };

  it("is confirmed once", () => {
    assert.deepEqual(find(write, { kind: "visible", id: 0 }, persistent), []);
    assert.match(
      find(write, persistent, persistent)[0]!,
      /write 0 .* is confirmed persistent twice/,
    );
  });

  it("is not told before it was written, nor written twice", () => {
    assert.match(find(persistent)[0]!, /is confirmed persistent before it was written/);
    assert.match(find(write, write)[0]!, /is declared twice/);
  });

  it("is what `put` counted, too", () => {
    const value = {
      program: "put",
      to: "b",
      confirmed: [[0, 8]],
      confirmedMessages: 1,
      unexpected: 1,
      object: { name: "data", scmOffset: 0, length: 8 },
    };
    const report = (each: unknown) => ({ time: 9, node: "a", topic: "result", value: each });
    const of = (each: unknown) => findingsOf(completions, { reports: [report(each)] });
    assert.match(of(value)[0]!, /a: put to b took a completion of no outstanding message/);
    assert.deepEqual(of({ ...value, unexpected: 0 }), []);
  });
});
