import assert, { deepEqual as same, ok } from "node:assert/strict";
import type { Lives } from "../../../console/checks/lives.ts";
import { fill, recordOf } from "../../../console/checks/record_testing.ts";
import { drained } from "../../../console/checks/run_record.ts";
import { sharedAccesses } from "../../../console/checks/shared/accesses.ts";
import { flushedWrites, unknownUnits } from "../../../console/checks/shared/flushed.ts";
import { mayHaveOf } from "../../../console/checks/shared/persisted_lines.ts";
import {
  REGION_AT,
  type Told,
  told,
  used,
  word,
} from "../../../console/checks/shared/shared_testing.ts";
import { maskOf, orderOf, reaches, UNIT_BYTES, WHOLE } from "../../../console/checks/values.ts";
import type { TimedRecord } from "../../../fabric/audit.ts";
import { rngFor } from "../../../fabric/base/rng.ts";
import { describe, it } from "@std/testing/bdd";

const WORDS = 3, ENDS = 400;

type Rng = ReturnType<typeof rngFor>;

/** Accesses to a few words, many at a time, which overlap and come at equal times; some have no end, or end otherwise. */
function accesses(rng: Rng): Told[] {
  const rare = (of: number) => rng.below(of) === 0;
  const flushesOften = rare(2);
  return Array.from({ length: 40 }, (_, i): Told => {
    const from = 1 + rng.below(ENDS), on = rare(3) ? "a" : "b";
    const begun = { on, from, at: 8 * rng.below(WORDS) } as const;
    const ends = rare(6) ? {} : { to: from + 1 + rng.below(rare(10) ? ENDS : 30) };
    const result = rare(8) ? "fenced" as const : rare(8) ? "refused" as const : "done" as const;
    const known = ends.to !== undefined && result === "done";
    const common = { ...begun, ...ends, ...(ends.to !== undefined && { result }) };
    if (rare(flushesOften ? 2 : 6)) {
      return { ...common, op: "flush", at: rare(2) ? 0 : begun.at, length: rare(2) ? 24 : 8 };
    }
    if (rare(12)) {
      return { ...common, op: "add", bytes: word(1), ...(known && { found: word(rng.below(3)) }) };
    }
    if (rare(12)) {
      const found = known ? { found: word(rng.below(2)) } : {};
      return { ...common, op: "compare-swap", bytes: word(i), compare: word(0), ...found };
    }
    const part = rng.below(4) === 0 ? rng.below(8) : 0;
    const length = part === 0 ? 8 : 1 + rng.below(8 - part);
    return { ...common, at: begun.at + part, bytes: new Uint8Array(length).fill(1 + rng.below(5)) };
  });
}

/** The same from the notes before the failure alone, and from all writes. */
function wanted(
  notes: readonly TimedRecord[],
  lives: Lives["lives"],
  { at, offset, bytes }: {
    readonly at: number;
    readonly offset: number;
    readonly bytes: Uint8Array;
  },
): boolean {
  const until = notes.filter(({ time }) => time < at);
  const found = REGION_AT + offset, unit = found - found % UNIT_BYTES, begin = found - unit;
  if (drained(unknownUnits(until)).get("a")?.has(unit)) return true;
  const writes = flushedWrites(until, lives)
    .filter(({ from, to }) => from < unit + UNIT_BYTES && to > unit);
  const value = new Uint8Array(UNIT_BYTES);
  value.set(bytes, begin);
  const free = WHOLE & ~maskOf({ begin, end: begin + bytes.length });
  return reaches(value, { unit, order: orderOf(writes), free }) !== undefined;
}

describe("mayHaveOf", () => {
  it("says at each power failure what all writes before it say", () => {
    let yes = 0, no = 0;
    for (let seed = 0; seed < 80; seed++) {
      const rng = rngFor(seed, "persisted lines");
      const notes = [...used(), ...told(accesses(rng))];
      const cuts = Array.from({ length: 4 }, () => 1 + rng.below(ENDS + 40)).sort((x, y) => x - y);
      const starts = [0, ...cuts.map((to) => to + 5)];
      const lives: Lives["lives"] = new Map([[
        "a",
        starts.map((from, i) => ({ from, to: cuts[i] ?? Infinity })),
      ]]);
      const region = sharedAccesses(notes).regions.get("s")!;
      for (const at of cuts) {
        const mayHave = mayHaveOf({ notes, lives }, region, { line: 0, at });
        for (let word = 0; word < WORDS; word++) {
          for (const fill of [0, 1, 2, 3, 4, 5]) {
            for (const [from, length] of [[0, 8], [2, 3]] as const) {
              const offset = 8 * word + from, bytes = new Uint8Array(length).fill(fill);
              const is = mayHave(offset, bytes);
              same(is, wanted(notes, lives, { at, offset, bytes }), `seed ${seed}, at ${at}`);
              if (is) yes++;
              else no++;
            }
          }
        }
      }
    }
    ok(yes > 1_000 && no > 1_000, `${yes} times yes, ${no} times no`);
  });
});

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
