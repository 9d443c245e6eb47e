import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../../fabric/base/time.ts";
import type { Mark } from "../data/timeline.ts";
import { drawnMarks } from "./marks.ts";

const LEFT = 100, RIGHT = 1_000;

/** A line of 900 px, a millisecond each. */
function drawn(...marks: readonly Mark[]) {
  const x = (at: number) => LEFT + Math.max(-900, Math.min(1_800, at / PS_PER_MS));
  return drawnMarks(marks, { left: LEFT, right: RIGHT, x });
}

function mark(atMs: number, text: string, toMs?: number): Mark {
  return { at: atMs * PS_PER_MS, text, ...(toMs !== undefined && { to: toMs * PS_PER_MS }) };
}

describe("drawnMarks", () => {
  it("draws as many marks as there is room for, however many there are, and counts them all", () => {
    const many = Array.from({ length: 50_000 }, (_, i) => mark(i * 900 / 50_000, `kill ${i}`));
    const few = drawn(...many);
    assert.ok(few.length <= 300, `${few.length} marks on 900 px`);
    const counted = few.map(({ title }) => Number(/^\d+/.exec(title)![0]));
    assert.equal(counted.reduce((sum, each) => sum + each), many.length);
    assert.match(
      few[0]!.title,
      /^\d+ marks from 0\sps to .*: kill 0, kill 1, .*kill 7 and \d+ more$/,
    );
  });

  it("keeps a mark apart that stands alone, with its label and its length", () => {
    const [cut, kill, last] = drawn(mark(10, "cut", 60), mark(300, "kill a"), mark(890, "start a"));
    assert.deepEqual([cut!.x, cut!.endX, cut!.label?.text], [110, 160, "cut"]);
    assert.equal(kill!.at, 300 * PS_PER_MS);
    assert.deepEqual([kill!.endX, kill!.label], [undefined, {
      x: 406,
      isLeft: false,
      text: "kill a",
    }]);
    assert.deepEqual(last!.label, { x: 984, isLeft: true, text: "start a" });
  });

  it("makes marks one that would touch, from the first to the last, as long as the longest", () => {
    const all = drawn(mark(200, "kill a"), mark(201, "cut a", 230), mark(202, "start a"));
    assert.equal(all.length, 1);
    assert.equal(all[0]!.at, 200 * PS_PER_MS);
    assert.equal(all[0]!.endX, 330);
    assert.match(all[0]!.title, /^3 marks from 200.*ms to 202.*ms: kill a, cut a, start a$/);
    assert.equal(drawn(mark(200, "kill a"), mark(203, "start a")).length, 2);
  });

  it("leaves out what is outside of the line, but not what reaches into it", () => {
    const all = drawn(mark(-50, "kill a"), mark(-20, "cut", 5), mark(1_200, "start a"));
    assert.deepEqual(all.map(({ at, endX }) => [at, endX]), [[-20 * PS_PER_MS, 105]]);
  });
});
