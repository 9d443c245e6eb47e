import { deepStrictEqual as same, rejects } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { inOrder } from "./in_order.ts";

describe("inOrder", () => {
  it("hands out results in the order of the pieces, whichever ends first", async () => {
    const began: number[] = [];
    const work = async (piece: number, index: number, lane: number) => {
      began.push(piece);
      await sleep(piece);
      return `${piece} ${index} ${lane < 2}`;
    };
    const results = await Array.fromAsync(inOrder([30, 1, 2, 3], { lanes: 2, work }));
    same(results, ["30 0 true", "1 1 true", "2 2 true", "3 3 true"]);
    same(began, [30, 1, 2, 3]);
  });

  it("throws in its place, and begins no further piece when no more is taken", async () => {
    const began: number[] = [], taken: number[] = [];
    const work = async (piece: number) => {
      began.push(piece);
      await sleep(1);
      if (piece === 1) throw new Error("no");
      return piece;
    };
    await rejects(async () => {
      for await (const each of inOrder([0, 1, 2, 3, 4, 5], { lanes: 1, work })) taken.push(each);
    }, /no/);
    same(taken, [0]);
    await sleep(10);
    same(began.length < 6, true);
  });
});
