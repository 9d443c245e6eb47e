import { match, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord } from "../../fabric/audit.ts";
import type { FinalReply } from "../../fabric/rack/build/run_file.ts";
import { NEW_DIRECTORY_BYTES } from "../../nodes/host/programs/common/scm_directory.ts";
import { type Activity, hasWritten, whyNothingDone, whyNothingToKeep } from "./activity.ts";
import { noted } from "./record_testing.ts";

const NOTHING: Activity = { reports: [], notes: [], hasWritten: false };
const completed = (qpn: number): AuditRecord => ({
  ...{ kind: "completed", queue: "send", qpn, wqe: 0, wrId: 0, status: "SUCCESS" },
});
const withNotes = (...notes: readonly AuditRecord[]): Activity => ({
  ...NOTHING,
  notes: notes.map((note) => noted(1, note)),
});
const reporting = (...topics: readonly string[]): Activity => ({
  ...NOTHING,
  reports: topics.map((topic) => ({ topic })),
});

/** What a program has done, and whether a verdict on a power failure, or any verdict, has a ground in it. */
const TABLE: readonly [what: string, activity: Activity, toKeep: boolean, done: boolean][] = [
  ["nothing", NOTHING, false, false],
  ["it has ended", reporting("program-ended", "recovered", "warning", "unfinished"), false, false],
  ["a report", reporting("mine"), true, true],
  ["a result", reporting("result"), true, true],
  ["a file", reporting("output"), true, true],
  ["a line of its log", reporting("log"), false, true],
  ["a write to SCM", { ...NOTHING, hasWritten: true }, true, true],
  ["a work request", withNotes(completed(17)), false, true],
  ["a message of the connection manager", withNotes(completed(1)), false, false],
  ["an operation that has ended", withNotes({ kind: "operation-end", id: 1 }), true, true],
  ["a promise", withNotes({ kind: "persistent", id: 1, promised: true }), true, true],
  [
    "an access that was refused",
    withNotes({ kind: "accessed", id: 1, result: "refused" }),
    false,
    false,
  ],
  ["a load of a region", withNotes({ kind: "accessed", id: 1, result: "done" }), true, true],
];

describe("whyNothingToKeep and whyNothingDone", () => {
  for (const [what, activity, toKeep, done] of TABLE) {
    it(`${what}: ${toKeep ? "" : "no "}ground for a power failure, ${done ? "" : "no "}run`, () => {
      equal(whyNothingToKeep(activity) === undefined, toKeep);
      equal(whyNothingDone(activity) === undefined, done);
    });
  }

  it("says which connections were refused, each once", () => {
    const refused = { kind: "refused", to: "b", reason: "nobody listens" } as const;
    const why = whyNothingToKeep(withNotes(refused, { ...refused, reason: "still not" }))!;
    match(why, /^no program .*; a's connection to b was refused: nobody listens$/);
  });
});

describe("hasWritten", () => {
  const finals = (scmBytesIn: number) =>
    [{ statistics: { a: { scmBytesIn: 0 }, b: { scmBytesIn } } }] as unknown as FinalReply[];

  it("is no directory of objects, which every host's service makes", () => {
    equal(hasWritten(finals(0)), false);
    equal(hasWritten(finals(NEW_DIRECTORY_BYTES)), false);
    equal(hasWritten(finals(NEW_DIRECTORY_BYTES + 8)), true);
    equal(hasWritten(finals(8)), true);
  });
});
