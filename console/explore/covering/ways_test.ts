import { deepEqual as same, equal } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { phasesOf } from "./ways.ts";

const LEVELS = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 6 });
const MOST = 1_000_000;

function allRows(levels: readonly number[]): number[][] {
  return levels.reduce<number[][]>(
    (rows, level) =>
      rows.flatMap((row) => Array.from({ length: level }, (_, value) => [...row, value])),
    [[]],
  );
}

it("the first and the last cells, each one and any two aside: those rows and no others, or none where they are too many", () => {
  fc.assert(
    fc.property(LEVELS, (levels) => {
      const last = levels.map((level) => level - 1), none = levels.map(() => 0);
      const isOpen = levels.filter((level) => level > 1).length > 2;
      const phases = phasesOf(levels.map((length) => ({ alternatives: Array(length).fill(none) })));
      const awayFrom = (row: readonly number[], from: readonly number[]) =>
        row.filter((value, i) => value !== from[i]).length;
      const away = (row: readonly number[]) => [awayFrom(row, none), awayFrom(row, last)];
      const firstAndLast = levels.keys().toArray().concat(levels.length).flatMap((count) => [
        levels.map((_, i) => i < count ? last[i]! : 0),
        levels.map((_, i) => i < count ? 0 : last[i]!),
      ]);
      const expected = [
        firstAndLast,
        allRows(levels).filter((row) => away(row).some((places) => places <= 1)),
        allRows(levels).filter((row) => away(row).includes(2)),
      ];
      for (const [i, phase] of [phases[0]!, phases[1]!, phases.at(-1)!].entries()) {
        const rows = [...phase.rows(MOST)!].map((row) => Array.from(row).join());
        const names = new Set(rows);
        same([...names].sort(), [...new Set(expected[i]!.map((row) => row.join()))].sort());
        // Rows that two backgrounds share are tried twice.
        const count = i === 2 ? rows.length : names.size;
        equal(phase.rows(count) === undefined, false, `${count} are few enough`);
        if (isOpen) equal(phase.rows(count - 1), undefined, `${count} are more than ${count - 1}`);
      }
    }),
    seeded({ numRuns: 200 }),
  );
});
