/** The groups of writes that are judged one by one show what a look at all bytes shows. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { Pages } from "./history.ts";
import type { WriteGroup } from "./declared_writes.ts";
import { Judge } from "./judge.ts";
import { seeded } from "../../fabric/base/property_testing.ts";

const PLAN = {
  scenario: "judge",
  seed: 1,
  nodes: [],
  cables: [],
  faults: [],
  until: null,
  addresses: {},
} satisfies RackPlan;
const RUN = { plan: PLAN, lives: new Map() };
const SCM_BYTES = 128;
const ALL = { from: 0, to: SCM_BYTES };

interface Told {
  readonly at: number;
  readonly length: number;
  readonly after: readonly number[];
  readonly isTold: boolean;
  readonly isFound: boolean;
}

const write: fc.Arbitrary<Told> = fc.record({
  at: fc.integer({ min: 0, max: 11 }).map((word) => 8 * word),
  length: fc.integer({ min: 1, max: 32 }),
  after: fc.uniqueArray(fc.integer({ min: 0, max: 7 }), { maxLength: 2 }),
  isTold: fc.boolean(),
  isFound: fc.boolean(),
});

/** Each write is noted, and what is told of it, one after the other. */
function notesOf(all: readonly Told[]): TimedRecord[] {
  return all.flatMap(({ at, length, after, isTold }, id) => {
    const bytes = new Uint8Array(length).fill(id + 1);
    const own: AuditRecord[] = [
      { kind: "writes", id, on: "b", at, bytes, after: after.filter((each) => each < id) },
    ];
    if (isTold) own.push({ kind: "persistent", id, promised: true });
    return own.map((note, i): TimedRecord => ({
      time: 10 * id + i,
      node: "a",
      by: "a/0/put#0",
      note,
    }));
  });
}

function stateOf(all: readonly Told[]) {
  const image = new Pages();
  for (const [id, { at, length, isFound }] of all.entries()) {
    if (isFound) image.write(at, new Uint8Array(length).fill(id + 1));
  }
  return { host: "b", image, cells: { in: () => [] } };
}

function judgeOf(notes: readonly TimedRecord[]): Judge {
  return new Judge(RUN, { host: "b", notes, most: 64 });
}

describe("Judge", () => {
  it("P-41: finds in some word, and in some group of writes, whatever it finds in all of them", () => {
    let broken = 0;
    const property = fc.property(fc.array(write, { maxLength: 8 }), (all) => {
      const judge = judgeOf(notesOf(all)), state = stateOf(all);
      const finds = (groups: readonly WriteGroup[]) =>
        groups.some((group) => judge.judge(state, group).length > 0);
      const isWrong = finds(judge.groupsAt([ALL]));
      const byWords = Array.from({ length: SCM_BYTES / 8 }, (_, i) => 8 * i)
        .some((from) => finds(judge.groupsAt([{ from, to: from + 8 }])));
      if (isWrong) broken++;
      assert.equal(byWords, isWrong);
      assert.equal(finds(judge.groups), isWrong);
    });
    fc.assert(property, seeded({ seed: 4, numRuns: 1_000 }));
    assert.ok(broken > 100, `${broken} broken promises`);
  });
});
