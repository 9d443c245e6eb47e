import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { CoverageCount } from "./coverage.ts";
import type { Coverage } from "./ways.ts";

const WEAK: Coverage = { cells: 9, unit: "words", strength: 0, inOrder: false, aside: 0 };
const SOME: Coverage = { ...WEAK, cells: 20, strength: 2, inOrder: true };
const MOST: Coverage = { ...WEAK, cells: 12, strength: 4, inOrder: true, aside: 2 };

it("CoverageCount says of an instant what its weakest part has, in whatever order they come", () => {
  for (const all of [[WEAK, SOME, MOST], [MOST, SOME, WEAK], [SOME, WEAK, MOST]]) {
    const count = new CoverageCount();
    count.add(all);
    same(count.all(), [{ ...WEAK, cells: 20, instants: 1 }], "of as many cells as any had");
  }
});

it("CoverageCount adds instants up by what was covered, the weakest first, also those of another count", () => {
  const count = new CoverageCount(), other = new CoverageCount();
  for (const all of [[MOST], [SOME], [MOST]]) count.add(all);
  for (const all of [[{ ...MOST, cells: 30 }], [WEAK], []]) other.add(all);
  count.merge(other.all());
  same(count.all(), [
    { ...WEAK, instants: 1 },
    { ...SOME, instants: 1 },
    { ...MOST, cells: 30, instants: 3 },
  ]);
});
