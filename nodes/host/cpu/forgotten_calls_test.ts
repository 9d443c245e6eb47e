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
    assert.equal(watch.forgotten(), "sleep did nothing: found no yield* in front of it");
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

  it("leaves getters and other functions as they are", () => {
    const table = new CallWatch().watched(new Table());
    assert.equal(table.now, 3);
    assert.equal(table.plain(), 3);
  });
});
