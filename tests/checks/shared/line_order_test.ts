import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { rngFor } from "../../../fabric/base/rng.ts";
import {
  judgeLine,
  type LineEvent,
  type LineOp,
} from "../../../console/checks/shared/line_order.ts";

interface Timed {
  readonly op: LineOp;
  readonly from: number;
  readonly to: number;
}

/** Up to six accesses to two bytes of a line, with few values: about half of the histories are right. */
function history(seed: number): Timed[] {
  const rng = rngFor(seed, "history");
  return Array.from({ length: 2 + rng.below(5) }, (_, i): Timed => {
    const from = rng.below(20), at = rng.below(2), value = Uint8Array.of(rng.below(3));
    const common = { name: `${i}`, from: at, length: 1 };
    const op: LineOp = rng.below(2) === 0
      ? { ...common, op: "store", bytes: value }
      : { ...common, op: "load", seen: value };
    return { op, from, to: from + 1 + rng.below(12) };
  });
}

/** Whether some order is right, by trying all. */
function isRight(left: readonly Timed[], content: readonly number[]): boolean {
  if (left.length === 0) return true;
  return left.some((each) => {
    const rest = left.filter((other) => other !== each);
    // It cannot come first if another one has ended before it begins.
    if (rest.some(({ to }) => to < each.from)) return false;
    const { op: { op, from, bytes, seen } } = each;
    if (op === "load") return content[from] === seen![0] && isRight(rest, content);
    return isRight(rest, content.with(from, bytes![0]!));
  });
}

function eventsOf(all: readonly Timed[]): LineEvent[] {
  return all.flatMap(({ op, from, to }) => [
    { at: from, event: { kind: "begin", op } as LineEvent },
    { at: to + 0.5, event: { kind: "end", op } as LineEvent },
  ]).sort((x, y) => x.at - y.at).map(({ event }) => event);
}

describe("C-09: judgeLine", () => {
  it("says what trying all orders says, of 3 000 histories", () => {
    let right = 0;
    for (let seed = 0; seed < 3_000; seed++) {
      const all = history(seed);
      const expected = isRight(all, [0, 0]);
      const { wrong, unchecked } = judgeLine(eventsOf(all));
      assert.equal(unchecked, undefined);
      assert.equal(wrong === undefined, expected, `seed ${seed}`);
      if (expected) right++;
    }
    assert.ok(right > 500 && right < 2_500, `${right} are right`);
  });
});
