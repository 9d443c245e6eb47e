import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { layoutLadders } from "./ladder_layout.ts";

const OPTIONS = { rowPx: 20, pxPerUs: 40, pauseMaxPx: 60 };
const at = (...us: number[]) => us.map((each) => ({ sincePs: each * 1_000_000 }));

describe("layoutLadders", () => {
  it("lets time run down in proportion, and gives each step of an instant a row", () => {
    const { rows, height } = layoutLadders([at(0, 1, 1, 1.5)], OPTIONS);
    assert.deepEqual(rows, [[10, 50, 70, 90]]);
    assert.equal(height, 100);
  });

  it("cuts a long pause short, and marks it", () => {
    const { instants } = layoutLadders([at(-53, 0, 105)], OPTIONS);
    assert.deepEqual(instants.map(({ y }) => y), [10, 70, 130]);
    assert.deepEqual(instants.map(({ isAfterBreak }) => isAfterBreak), [false, true, true]);
  });

  it("puts what happens at one time at one height, in whichever ladder", () => {
    const { rows } = layoutLadders([at(0, 2), at(0, 1, 1, 2)], OPTIONS);
    assert.equal(rows[0]![1], rows[1]![3]);
  });

  it("finds the height of any time, in proportion between its neighbours", () => {
    const { yOf } = layoutLadders([at(0, 1)], OPTIONS);
    assert.equal(yOf(500_000), (yOf(0) + yOf(1_000_000)) / 2);
    assert.equal(yOf(-1), yOf(0));
    assert.equal(yOf(9_000_000), yOf(1_000_000));
  });

  it("never lets two rows of a ladder overlap, and lets no later time stand higher", () => {
    const times = fc.array(fc.integer({ min: -5_000_000, max: 5_000_000 }), { maxLength: 40 })
      .map((all) => all.sort((x, y) => x - y).map((sincePs) => ({ sincePs })));
    fc.assert(
      fc.property(times, times, (x, y) => {
        const { rows, yOf, height } = layoutLadders([x, y], OPTIONS);
        for (const own of rows) {
          for (let i = 1; i < own.length; i++) assert.ok(own[i]! - own[i - 1]! >= 20 - 1e-6);
        }
        const all = [...x, ...y].map(({ sincePs }) => sincePs).sort((a, b) => a - b);
        for (let i = 1; i < all.length; i++) assert.ok(yOf(all[i]!) >= yOf(all[i - 1]!));
        assert.ok(all.every((each) => yOf(each) <= height));
      }),
      seeded(),
    );
  });
});
