import { match, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord } from "../../fabric/audit.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { NEW_DIRECTORY_BYTES } from "../../nodes/host/programs/common/scm_directory.ts";
import { type Activity, hasWritten, whyNothingDone, whyNothingToKeep } from "./activity.ts";
import { noted } from "./record_testing.ts";

const NOTHING: Activity = { reports: [], notes: [], hasWritten: () => false };
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
  [
    "what hosts and cards report by themselves",
    reporting("shutdown", "rnic-event", "held", "iommu-fault", "region-fenced", "region-lost"),
    false,
    false,
  ],
  ["a failure", reporting("program-failed"), true, true],
  ["a report", reporting("mine"), true, true],
  ["a result", reporting("result"), true, true],
  ["a file", reporting("output"), true, true],
  ["a line of its log", reporting("log"), false, true],
  ["a write to SCM", { ...NOTHING, hasWritten: () => true }, true, true],
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
  const SCM_BYTES = 256 * 1024, DIRECTORY_AT = 4096;
  /** The header of a directory, without its CRC. */
  const HEADER = [1, 2, 3, 4, 0x52, 0x43, 0x4b, 0x4d, 0, 0, 0, 1];
  const finals = (scmBytesIn: number) =>
    [{ statistics: { a: { scmBytesIn: 0 }, b: { scmBytesIn } } }] as unknown as FinalReply[];
  const plan = {
    nodes: [{ kind: "switch", name: "tor" }, {
      ...{ kind: "host", name: "b", config: { scmBytes: SCM_BYTES } },
    }],
  } as unknown as RackPlan;
  /** One host's SCM with such bytes. */
  const withBytes = (...pieces: readonly (readonly [at: number, bytes: readonly number[]])[]) => {
    const bytes = new Uint8Array(SCM_BYTES);
    for (const [at, piece] of pieces) bytes.set(piece, at);
    const scm = () => ({ read: (from: number, to: number) => bytes.subarray(from, to) });
    return { plan, scm };
  };
  const HEAD = [DIRECTORY_AT, HEADER] as const;

  it("is no directory of objects, which every host's service makes, whole or in part", () => {
    equal(hasWritten(withBytes(HEAD), finals(NEW_DIRECTORY_BYTES)), false);
    equal(hasWritten(withBytes(), finals(4096)), false);
    equal(hasWritten(withBytes(), finals(0)), false);
  });

  it("is a byte in front of the directory, of its entries or behind it, also of a host without power", () => {
    for (const at of [0, DIRECTORY_AT - 1, DIRECTORY_AT + 16, 100_000, SCM_BYTES - 1]) {
      equal(hasWritten(withBytes(HEAD, [at, [7]]), []), true, `${at}`);
    }
    equal(hasWritten(withBytes([0, [7]]), []), true);
  });

  it("is zeros that were written in a host's last life", () => {
    const stored = [{ statistics: { a: { scmLinesDirty: 1 } } }] as unknown as FinalReply[];
    equal(hasWritten(withBytes(HEAD), stored), true, "in a cache, as the explorer counts it");
    equal(hasWritten(withBytes(HEAD), finals(NEW_DIRECTORY_BYTES + 8)), true);
  });

  it("reads nothing that was never written, and no SCM that is not there", () => {
    const read = (): never => {
      throw new Error("read");
    };
    equal(hasWritten({ plan, scm: () => ({ read, touches: () => false }) }, []), false);
    equal(hasWritten({ plan, scm: () => undefined }, []), false);
  });
});
