import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { changedLines } from "./lines.ts";

describe("changedLines", () => {
  const before = "name: x\nseed: 7\nhosts:\n  a: {}\n  b: {}\n";
  for (
    const [what, now, lines] of [
      ["nothing", before, []],
      ["a line that is another", before.replace("7", "8"), [2]],
      ["lines that are new", before.replace("hosts:", "# one\n# two\nhosts:"), [3, 4]],
      ["the place of a line that is gone", before.replace("seed: 7\n", ""), [2]],
      ["a line that has moved", "seed: 7\nname: x\nhosts:\n  a: {}\n  b: {}\n", [2]],
    ] as const
  ) {
    it(`finds ${what}`, () => assert.deepEqual([...changedLines(before, now)], lines));
  }
});
