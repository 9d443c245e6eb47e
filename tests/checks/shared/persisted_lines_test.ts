import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fill, recordOf } from "../../../console/checks/record_testing.ts";
import { sharedAccesses } from "../../../console/checks/shared/accesses.ts";
import { mayHaveOf } from "../../../console/checks/shared/persisted_lines.ts";
import { type Told, told, used, word } from "../../../console/checks/shared/shared_testing.ts";

/** Whether a word of the line may be found after home's power has failed at `at`. */
function mayBe(accesses: readonly Told[], at: number, bytes: Uint8Array, line = 0): boolean {
  const run = recordOf({ notes: [...used(), ...told(accesses)] });
  const region = sharedAccesses(run.notes).regions.get("s")!;
  return mayHaveOf(run, region, { line, at })(0, bytes);
}

const STORE: Told = { from: 10, to: 20, bytes: fill(1) };
const FLUSH: Told = { op: "flush", from: 30, to: 40, length: 8 };
const ZERO = fill(0);

describe("C-10: a line after home's power has failed", () => {
  it("has what was flushed before that instant: what ends at it has not ended", () => {
    const found = [40, 41].map((at) =>
      [ZERO, fill(1)].map((each) => mayBe([STORE, FLUSH], at, each))
    );
    assert.deepEqual(found, [[true, true], [false, true]]);
  });

  it("has nothing of a store that begins at that instant, or later", () => {
    const found = [10, 11].map((at) => mayBe([STORE], at, fill(1)));
    assert.deepEqual(found, [false, true]);
    assert.equal(mayBe([STORE], 10, ZERO), true);
  });

  it("may have anything of a word whose atomic was not answered by then", () => {
    const add: Told = { op: "add", from: 10, to: 50, bytes: word(5), found: ZERO };
    assert.deepEqual([10, 11, 50, 51].map((at) => mayBe([add], at, word(77))), [
      false,
      true,
      true,
      false,
    ]);
  });

  it("is known by its own bytes alone", () => {
    const next: Told[] = [{ ...STORE, at: 64 }, { ...FLUSH, at: 64 }];
    assert.deepEqual([mayBe(next, 50, ZERO), mayBe(next, 50, ZERO, 1)], [true, false]);
    assert.equal(mayBe(next, 50, fill(1)), false);
  });
});
