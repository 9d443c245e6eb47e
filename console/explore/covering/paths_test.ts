import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Cell, Picker } from "../choices.ts";
import { subsets } from "./covering_array.ts";
import { forEachPath } from "./paths.ts";
import { phasesOf } from "./ways.ts";

function cell(from: number, count: number): Cell {
  const alternatives = Array.from({ length: count }, (_, i) => Uint8Array.of(i));
  return { at: 0, from, length: 1, alternatives, writebacks: () => [] };
}

const OPTIONS = { most: 100 };

describe("forEachPath", () => {
  it("runs every way to decide what is read, each once, and asks for a cell once a run", () => {
    const [x, y, z] = [cell(0, 2), cell(1, 3), cell(2, 4)];
    const seen: string[] = [];
    const done = forEachPath(OPTIONS, (pick) => {
      const first = pick(x!);
      // What is read depends on what was found.
      seen.push(first === 0 ? `0 ${pick(y!)}` : `1 ${pick(z!)} ${pick(x!)}`);
      return false;
    });
    assert.deepEqual(done, { paths: 7, coverage: undefined, ended: undefined });
    assert.deepEqual(seen, ["0 0", "0 1", "0 2", "1 0 1", "1 1 1", "1 2 1", "1 3 1"]);
  });

  it("ends where it is told to, with what was decided", () => {
    const [x, y] = [cell(0, 2), cell(1, 3)];
    const done = forEachPath(OPTIONS, (pick) => pick(x!) === 1 && pick(y!) === 2);
    assert.deepEqual([...done.ended!.values()], [1, 2]);
  });

  it("covers what are too many: first and last ones, each alone, each missing, any two and three", () => {
    const { seen, done } = pathsOf(12, 2, 1000);
    const { cells, strength, inOrder, aside } = done.coverage!;
    assert.deepEqual({ cells, strength, inOrder, aside }, {
      ...{ cells: 12, strength: 4, inOrder: true, aside: 2 },
    });
    assert.ok(done.paths <= 1000 && done.paths < 2 ** 12, `${done.paths}`);
    for (let i = 0; i <= 12; i++) {
      const first = "1".repeat(i) + "0".repeat(12 - i);
      assert.ok(seen.has(first) && seen.has(inverse(first)), first);
      if (i === 12) continue;
      const alone = "0".repeat(i) + "1" + "0".repeat(11 - i);
      assert.ok(seen.has(alone) && seen.has(inverse(alone)), alone);
      for (let j = i + 1; j < 12; j++) {
        const two = [...alone].with(j, "1").join("");
        assert.ok(seen.has(two) && seen.has(inverse(two)), two);
      }
    }
    assert.equal(missingIn([...seen], 4), 0);
  });

  it("tries no more ways than it is told, and says what these cover", () => {
    const least = pathsOf(30, 2, 14).done;
    assert.deepEqual({ ...least.coverage }, {
      ...{ cells: 30, unit: "words", strength: 2, inOrder: false, aside: 0 },
    });
    const { seen, done } = pathsOf(30, 3, 240);
    const { coverage, paths } = done;
    assert.ok(paths <= 242 && coverage!.inOrder && coverage!.strength === 2);
    assert.equal(missingIn([...seen], 2, 3), 0);
    assert.ok(missingIn([...seen], 3, 3) > 0);
  });

  it("takes up rows of which as many were tried before that the rest just fits", () => {
    // In order: 24 ways. Each alone or missing: 26, of which these have six.
    const asideWith = (most: number) => {
      const { done: { coverage } } = pathsOf(12, 2, most);
      assert.equal(coverage!.inOrder, true);
      return coverage!.aside;
    };
    assert.equal(asideWith(24 + 26 - 6), 1);
    assert.equal(asideWith(24 + 26 - 7), 0);
  });

  it("P-41: covers 512 words, all that a record of 4 KiB has, with 4096 ways", () => {
    const cells = Array.from({ length: 512 }, (_, i) => cell(i, 2));
    const ends = (wrong: (there: readonly number[]) => boolean) =>
      forEachPath({ most: 4096 }, (pick) => wrong(cells.map(pick)));
    const { coverage, paths, ended } = ends(() => false);
    assert.deepEqual([coverage, ended], [
      { cells: 512, unit: "words", strength: 4, inOrder: true, aside: 1 },
      undefined,
    ]);
    assert.ok(paths < 4096, `${paths}`);
    const count = (there: readonly number[]) => there.reduce((sum, each) => sum + each, 0);
    const found: readonly ((there: readonly number[]) => boolean)[] = [
      (there) => there[77] === 1 && count(there) === 1,
      (there) => there[400] === 0 && count(there) === 511,
      (there) => there[255] === 1 && there[256] === 0 && count(there) === 256,
      (there) => there[255] === 0 && there[256] === 1 && count(there) === 256,
      (there) => there[3] === 1 && there[200] === 1 && there[399] === 1 && there[511] === 0,
    ];
    for (const wrong of found) assert.ok(ends(wrong).ended !== undefined, `${wrong}`);
  });

  it("finds two words that an XOR of 512 misses, with as many ways as any two take", () => {
    const cells = Array.from({ length: 512 }, (_, i) => cell(i, 2));
    const { paths, ended } = forEachPath({ most: 300_000 }, (pick) => {
      const missing = cells.flatMap((cell, i) => pick(cell) === 0 ? [i] : []);
      return `${missing}` === "0,510";
    });
    assert.ok(ended !== undefined && paths < 4096, `${paths}`);
  });

  it("covers the cells that only some runs read, too", () => {
    const [flag, ...words] = Array.from({ length: 21 }, (_, i) => cell(i, 2));
    const seen = new Set<string>();
    // The flag is the last that arrives; without it nothing else is looked at.
    const done = forEachPath({ most: 700 }, (pick) => {
      if (pick(flag!) === 1) seen.add(words.map(pick).join(""));
      return false;
    });
    assert.equal(done.coverage!.cells, 21);
    assert.equal(done.coverage!.strength, 4);
    assert.equal(missingIn([...seen], 3), 0);
  });

  it("P-41: tries every way where these are just as many as it may try, and not one more", () => {
    const flags = Array.from({ length: 13 }, (_, i) => cell(i, 2));
    const tried = (count: number, most: number) => {
      const ways = new Set<string>();
      const { coverage } = forEachPath({ most }, (pick) => {
        ways.add(flags.slice(0, count).map(pick).join(""));
        return false;
      });
      return [ways.size, coverage === undefined];
    };
    assert.deepEqual(tried(12, 4096), [4096, true]);
    assert.equal(tried(13, 4096)[1], false);
    assert.deepEqual(tried(0, 1), [1, true], "nothing is open");
    assert.equal(tried(1, 1)[1], false);
    // Code that looks no further than the first flag that it finds has 31 ways, and the second run has one of them.
    const first = (most: number) =>
      forEachPath({ most }, (pick) => pickFirst(pick, 30) && false).coverage === undefined;
    assert.deepEqual([first(30), first(31)], [false, true]);
  });

  it("P-41: covers 128 Ki lines, all that 8 MiB of dirty memory has, as far as --choices go", () => {
    const cells = Array.from({ length: 131_072 }, (_, i) => cell(i, 2));
    // Rows of much memory are long: those of 4096 cells would take a gigabyte.
    const rows = (most: number, of = cells) =>
      phasesOf(of).slice(0, 2).map(({ rows }) => rows(most));
    assert.deepEqual(rows(4096), [undefined, undefined], "no row is made where all are too many");
    const distinct = rows(8, cells.slice(0, 3)).map((all) => new Set([...all!].map(String)).size);
    assert.deepEqual(distinct, [6, 8]);
    assert.deepEqual(rows(5, cells.slice(0, 3)), [undefined, undefined]);
    let runs = 0;
    const done = forEachPath({ most: 50 }, (pick) => {
      // What the first two ways, none and all, have read is open in all others.
      if (runs++ < 2) { for (const each of cells) pick(each); }
      return false;
    });
    const { strength, inOrder, aside } = done.coverage!;
    assert.deepEqual([strength, inOrder, aside, done.ended], [2, false, 0, undefined]);
    assert.ok(done.paths > 2 && done.paths <= 52, `${done.paths}`);
  });

  it("P-41: tries every way where code that finds more reads less", () => {
    const flags = Array.from({ length: 30 }, (_, i) => cell(i, 2));
    const done = forEachPath(
      { most: 100 },
      (pick) => flags.some((flag) => pick(flag) === 1) && false,
    );
    assert.deepEqual([done.paths, done.coverage], [32, undefined]);
  });
});

/** Reads flags up to the first that is set. */
function pickFirst(pick: Picker, count: number): boolean {
  for (let i = 0; i < count; i++) if (pick(FLAGS[i]!) === 1) return true;
  return false;
}

const FLAGS = Array.from({ length: 30 }, (_, i) => cell(i, 2));

function inverse(bits: string): string {
  return [...bits].map((bit) => bit === "1" ? "0" : "1").join("");
}

/** Ways to find so many cells that all are read. */
function pathsOf(count: number, values: number, most: number) {
  const cells = Array.from({ length: count }, (_, i) => cell(i, values));
  const seen = new Set<string>();
  const done = forEachPath({ most }, (pick) => {
    seen.add(cells.map(pick).join(""));
    return false;
  });
  return { seen, done };
}

/** Combinations of `strength` cells that no way has. */
function missingIn(ways: readonly string[], strength: number, values = 2): number {
  const rows = ways.map((way) => [...way].map(Number));
  let missing = 0;
  for (const set of subsets(rows[0]!.length, strength)) {
    const shown = new Uint8Array(values ** strength);
    for (const row of rows) shown[set.reduce((key, i) => key * values + row[i]!, 0)] = 1;
    missing += shown.filter((each) => each === 0).length;
  }
  return missing;
}
