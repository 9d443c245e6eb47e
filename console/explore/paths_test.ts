import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Cell } from "./choices.ts";
import { forEachPath } from "./paths.ts";

function cell(from: number, count: number): Cell {
  const alternatives = Array.from({ length: count }, (_, i) => Uint8Array.of(i));
  return { from, length: 1, alternatives, writebacks: () => [] };
}

const OPTIONS = { most: 100, seed: 1 };

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
    assert.deepEqual(done, { paths: 7, isBounded: false, ended: undefined });
    assert.deepEqual(seen, ["0 0", "0 1", "0 2", "1 0 1", "1 1 1", "1 2 1", "1 3 1"]);
  });

  it("ends where it is told to, with what was decided", () => {
    const [x, y] = [cell(0, 2), cell(1, 3)];
    const done = forEachPath(OPTIONS, (pick) => pick(x!) === 1 && pick(y!) === 2);
    assert.deepEqual([...done.ended!.values()], [1, 2]);
  });

  it("samples where there are too many: none, all, each alone, each missing among them", () => {
    const cells = Array.from({ length: 20 }, (_, i) => cell(i, 2));
    const seen = new Set<string>();
    const done = forEachPath(OPTIONS, (pick) => {
      seen.add(cells.map(pick).join(""));
      return false;
    });
    assert.equal(done.isBounded, true);
    assert.ok(done.paths >= 42 && done.paths <= 100, `${done.paths}`);
    assert.ok(seen.has("0".repeat(20)) && seen.has("1".repeat(20)));
    for (let i = 0; i < 20; i++) {
      const alone = "0".repeat(i) + "1" + "0".repeat(19 - i);
      assert.ok(seen.has(alone), alone);
      assert.ok(seen.has([...alone].map((bit) => bit === "1" ? "0" : "1").join("")));
    }
  });
});
