/** The groups of writes that are judged one by one show what a look at all bytes shows. */
import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { persistence } from "../checks/persistence.ts";
import type { Cell } from "./choices.ts";
import { Pages } from "./history.ts";
import { writeGroups } from "./declared_writes.ts";
import { judgeGroup } from "./judge.ts";
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

describe("judgeGroup", () => {
  it("P-41: finds in some group of writes whatever the checker finds in all of them", () => {
    let broken = 0, split = 0;
    const property = fc.property(fc.array(write, { maxLength: 8 }), (all) => {
      const notes = notesOf(all), state = stateOf(all);
      const groups = writeGroups(notes, { host: "b", claims: false, lives: new Map() });
      const judge = { run: RUN, host: "b", groups, most: 64 };
      const isFound = groups.some((group) => judgeGroup(judge, state, { group }).finding);
      const isWrong = persistence.check({ ...RUN, reports: [], notes, scm: () => state.image })
        .length > 0;
      if (isWrong) broken++;
      if (groups.length > 1) split++;
      assert.equal(isFound, isWrong);
    });
    fc.assert(property, seeded({ seed: 4, numRuns: 1_000 }));
    assert.ok(broken > 100 && split > 100, `${broken} broken promises, ${split} of several groups`);
  });

  it("P-41: finds a promised write that is lost by a choice that no other write depends on", () => {
    const bytes = new Uint8Array(8).fill(1), image = new Pages();
    image.write(0, bytes);
    const notes: TimedRecord[] = [
      { kind: "writes", id: 0, on: "b", at: 0, bytes } as const,
      { kind: "persistent", id: 0, promised: true } as const,
    ].map((note, time) => ({ time, node: "a", by: "a/0/put#0", note }));
    const groups = writeGroups(notes, { host: "b", claims: false, lives: new Map() });
    const [group] = groups;
    assert.deepEqual(group!.deciding, []);
    const judge = { run: RUN, host: "b", groups, most: 64 };
    const findingWith = (...alternatives: Uint8Array[]) => {
      const cell: Cell = { at: 1, from: 0, length: 8, alternatives, writebacks: () => [] };
      const state = { host: "b", image, cells: { in: () => [cell] } };
      return judgeGroup(judge, state, { group: group! }).finding;
    };
    assert.equal(findingWith(bytes, bytes.slice()), undefined);
    assert.match(findingWith(bytes, new Uint8Array(8))!.text, /promised|persistent/);
  });

  it("decides by those writes alone that no promise demands", () => {
    const noteOf = (id: number, after: readonly number[]): AuditRecord => {
      return { kind: "writes", id, on: "b", at: 64 * id, bytes: new Uint8Array(8), after };
    };
    const told = { kind: "persistent", id: 0, promised: true } as const;
    const groupsOf = (...all: AuditRecord[]) =>
      writeGroups(all.map((note, time) => ({ time, node: "a", by: "a/0/put#0", note })), {
        ...{ host: "b", claims: false, lives: new Map() },
      }).map(({ writes, deciding }) => [writes.length, deciding.length]);
    assert.deepEqual(groupsOf(noteOf(0, []), noteOf(1, [0])), [[2, 1]]);
    assert.deepEqual(groupsOf(noteOf(0, []), told, noteOf(1, [0])), [[1, 0], [1, 0]]);
  });

  for (const [most, isBounded] of [[2, true], [4, false]] as const) {
    it(`says whether all choices of deciding writes were tried: ${most} of 4`, () => {
      const bytesOf = (id: number) => new Uint8Array(8).fill(id + 1);
      // Two writes behind a first one, each there or not.
      const notes = [[], [0], [0]].map((after, id): TimedRecord => ({
        time: id,
        node: "a",
        by: "a/0/put#0",
        note: { kind: "writes", id, on: "b", at: 8 * id, bytes: bytesOf(id), after },
      }));
      const image = new Pages();
      image.write(0, bytesOf(0));
      const open = [1, 2].map((id): Cell => ({
        at: 1,
        from: 8 * id,
        length: 8,
        alternatives: [new Uint8Array(8), bytesOf(id)],
        writebacks: () => [],
      }));
      const cells = {
        in: (from: number, to: number) =>
          open.filter((cell) => cell.from < to && cell.from + cell.length > from),
      };
      const groups = writeGroups(notes, { host: "b", claims: false, lives: new Map() });
      const judge = { run: RUN, host: "b", groups, most };
      const found = groups.map((group) =>
        judgeGroup(judge, { host: "b", image, cells }, { group })
      );
      assert.equal(found.some((each) => each.isBounded), isBounded);
    });
  }
});
