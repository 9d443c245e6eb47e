import { deepEqual as same, equal, throws } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { StatesAnswer } from "../../rack/own/protocol_main.ts";
import { summed } from "./explore_protocol.ts";
import { PROTOCOL_RACKS, type RackFound } from "./racks.ts";

const ROWS = ["x", "y"];

/** What a rack has found, in so many states. */
function answer(
  verdict: RackFound["verdict"],
  states: number,
  unmet: readonly string[] = [],
  rows: readonly string[] = ROWS,
): StatesAnswer {
  const { computers, lines, what } = PROTOCOL_RACKS[0]!;
  const found = { computers, lines, what, verdict, states, transitions: 0, counterexample: null };
  return { found, rows, unmet };
}

const untouched = answer("partial", 0, [], []);

it("a broken rack decides over one that is partial, that over one that holds, and rows that none met over all", () => {
  const verdictOf = (...answers: StatesAnswer[]) => {
    const orders = [answers, answers.toReversed()].map((each) => summed("p.ts", each).verdict);
    equal(orders[0], orders[1], "in any order");
    return orders[0];
  };
  equal(verdictOf(answer("holds", 9), answer("holds", 5)), "holds");
  equal(verdictOf(answer("holds", 9), answer("partial", 5)), "partial");
  equal(verdictOf(answer("holds", 9), untouched), "partial");
  equal(verdictOf(answer("broken", 9), untouched, answer("partial", 3)), "broken");
  equal(verdictOf(answer("holds", 9, ROWS), answer("holds", 5, ROWS)), "unchecked");
  equal(verdictOf(answer("holds", 9, ROWS), answer("holds", 5, ["x"])), "holds");
  equal(verdictOf(answer("broken", 9, ROWS)), "broken", "the shipped rows are");
});

it("a row is unmet where no rack that was begun has met it, be it of one state", () => {
  const unmetOf = (...answers: StatesAnswer[]) => summed("p.ts", answers).unmet;
  same(unmetOf(answer("holds", 9, ["x", "y"]), answer("holds", 5, ["y"])), ["y"]);
  same(unmetOf(answer("holds", 9, ["x"]), answer("holds", 5, ["y"])), []);
  same(unmetOf(answer("holds", 9, ["x"]), untouched), ["x"]);
  same(unmetOf(answer("holds", 9, ["x", "y"]), answer("holds", 1, ["y"])), ["y"]);
  const { rows, racks, protocol } = summed("p.ts", [untouched, answer("holds", 9)]);
  same([rows, racks.map(({ states }) => states), protocol], [ROWS, [0, 9], "p.ts"]);
  throws(() => summed("p.ts", []), /no rack/);
});
