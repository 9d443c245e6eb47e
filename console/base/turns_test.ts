import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { inTurns } from "./turns.ts";

describe("inTurns", () => {
  it("never does its work twice at once, and answers every call by work that began after it", async () => {
    let begun = 0, atOnce = 0;
    const finish: (() => void)[] = [];
    const call = inTurns(async () => {
      begun++;
      assert.equal(++atOnce, 1);
      await new Promise<void>((resolve) => finish.push(resolve));
      atOnce--;
    });
    const first = call();
    await Promise.resolve();
    await Promise.resolve();
    const others = [call(), call(), call()];
    finish.shift()!();
    await first;
    while (finish.length === 0) await Promise.resolve();
    finish.shift()!();
    await Promise.all(others);
    assert.equal(begun, 2);
  });

  it("goes on behind a failure, which is told to those that asked for it", async () => {
    let count = 0;
    const call = inTurns(() => ++count === 1 ? Promise.reject(new Error("no")) : Promise.resolve());
    await assert.rejects(call(), /no/);
    await call();
    assert.equal(count, 2);
  });
});
