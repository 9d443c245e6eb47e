import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { CallWatch } from "./forgotten_calls.ts";

class Table {
  readonly #step = 3;
  get now(): number {
    return this.#step;
  }
  plain(): number {
    return this.#step;
  }
  *sleep(): Generator<number, string, number> {
    return `woken by ${yield this.#step}`;
  }
}

describe("CallWatch", () => {
  it("names each call whose generator has not begun, with its name", () => {
    const watch = new CallWatch();
    const { sleep, plain } = watch.watched(new Table());
    assert.equal(plain(), 3);
    assert.equal(watch.forgotten(), undefined);
    sleep();
    assert.equal(
      watch.forgotten(),
      "the call of sleep was not awaited: write yield* in front of it",
    );
  });

  it("says nothing of one that began, at once or later, by yield* or by next", () => {
    const watch = new CallWatch();
    const table = watch.watched(new Table());
    function* program(): Generator<number, string, number> {
      const later = table.sleep();
      yield* table.sleep();
      return yield* later;
    }
    const steps = program();
    assert.deepEqual(steps.next(0), { value: 3, done: false });
    assert.notEqual(watch.forgotten(), undefined);
    assert.deepEqual(steps.next(1), { value: 3, done: false });
    assert.deepEqual(steps.next(2), { value: "woken by 2", done: true });
    assert.deepEqual(table.sleep().next(0), { value: 3, done: false });
    assert.equal(watch.forgotten(), undefined);
  });

  it("tells the number of one for which no stack was kept, and keeps one of the next", () => {
    const watch = new CallWatch();
    const { sleep } = watch.watched(new Table());
    for (let i = 0; i < 300; i++) sleep().next(0);
    sleep();
    assert.equal(
      watch.forgotten(),
      "call 301 of sleep was not awaited: write yield* in front of it",
    );
    sleep().next(0);
    sleep();
    const both =
      "call 301 of sleep, the call of sleep were not awaited: write yield* in front of it";
    assert.equal(watch.forgotten(), both);
    for (let i = 0; i < 3; i++) sleep();
    assert.equal(watch.forgotten(), both, "each place once");
  });

  it("finds one among many that begin late", () => {
    const watch = new CallWatch();
    const { sleep } = watch.watched(new Table());
    const made = Array.from({ length: 1_000 }, () => sleep());
    for (const [i, steps] of made.entries()) if (i !== 500) steps.next(0);
    for (let i = 0; i < 300; i++) sleep().next(0);
    assert.equal(
      watch.forgotten(),
      "the call of sleep was not awaited: write yield* in front of it",
    );
    made[500]!.next(0);
    assert.equal(watch.forgotten(), undefined);
  });

  it("makes what behaves as a generator does", () => {
    const { sleep } = new CallWatch().watched(new Table());
    assert.equal(String(sleep()), "[object Generator]");
    assert.deepEqual(sleep().toArray(), [3]);
    assert.deepEqual(sleep().return("left"), { value: "left", done: true });
    assert.throws(() => sleep().throw(new RangeError("thrown in")), RangeError);
    assert.deepEqual(sleep().map((value) => value + 1).toArray(), [4]);
  });

  it("leaves getters and other functions as they are", () => {
    const table = new CallWatch().watched(new Table());
    assert.equal(table.now, 3);
    assert.equal(table.plain(), 3);
  });
});
