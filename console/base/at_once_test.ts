import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { forEachAtOnce, inOrder, resultsInOrder } from "./at_once.ts";

describe("forEachAtOnce", () => {
  it("has as many under way as it may, and begins them in their order", async () => {
    const begun: number[] = [], ends = new Map<number, () => void>();
    let most = 0, now = 0;
    const all = forEachAtOnce([0, 1, 2, 3, 4], async (item) => {
      begun.push(item);
      most = Math.max(most, ++now);
      await new Promise<void>((resolve) => ends.set(item, resolve));
      now--;
    }, { atOnce: 2 });
    for (const item of [1, 0, 3, 2, 4]) {
      while (!ends.has(item)) await Promise.resolve();
      ends.get(item)!();
    }
    await all;
    assert.deepEqual(begun, [0, 1, 2, 3, 4]);
    assert.equal(most, 2);
  });

  it("throws the first failure when all has ended, says it at once, and begins nothing behind it", async () => {
    const begun: number[] = [], said: unknown[] = [];
    const other = Promise.withResolvers<void>();
    let isOver = false;
    const all = forEachAtOnce([0, 1, 2], async (item) => {
      begun.push(item);
      if (item === 0) throw "first";
      await other.promise;
      isOver = true;
      throw "second";
    }, { atOnce: 2, onFailure: (error) => void said.push(error) });
    const thrown = all.then(() => "nothing", (error) => error);
    while (said.length === 0) await Promise.resolve();
    assert.equal(isOver, false);
    other.resolve();
    assert.equal(await thrown, "first");
    assert.ok(isOver);
    assert.deepEqual(said, ["first"]);
    assert.deepEqual(begun, [0, 1]);
  });
});

describe("inOrder", () => {
  it("holds a value back until all before it have come", () => {
    const taken: string[] = [];
    const give = inOrder<string>((value) => void taken.push(value));
    give(2, "c");
    give(0, "a");
    assert.deepEqual(taken, ["a"]);
    give(1, "b");
    assert.deepEqual(taken, ["a", "b", "c"]);
  });
});

describe("resultsInOrder", () => {
  it("hands out results in the order of the pieces, whichever ends first", async () => {
    const began: number[] = [];
    const work = async (piece: number, index: number, lane: number) => {
      began.push(piece);
      await sleep(piece);
      return `${piece} ${index} ${lane < 2}`;
    };
    const results = await Array.fromAsync(resultsInOrder([30, 1, 2, 3], { atOnce: 2, work }));
    assert.deepEqual(results, ["30 0 true", "1 1 true", "2 2 true", "3 3 true"]);
    assert.deepEqual(began, [30, 1, 2, 3]);
  });

  it("throws in its place, and begins no further piece when no more is taken", async () => {
    const began: number[] = [], taken: number[] = [];
    const work = async (piece: number) => {
      began.push(piece);
      await sleep(1);
      if (piece === 1) throw new Error("no");
      return piece;
    };
    await assert.rejects(async () => {
      for await (const each of resultsInOrder([0, 1, 2, 3, 4, 5], { atOnce: 1, work })) {
        taken.push(each);
      }
    }, /no/);
    assert.deepEqual(taken, [0]);
    await sleep(10);
    assert.deepEqual(began.length < 6, true);
  });
});
