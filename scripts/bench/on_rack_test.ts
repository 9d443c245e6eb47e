import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { held } from "./on_rack.ts";

describe("held", () => {
  /** @returns what happened, in order. */
  async function told(use: () => Promise<unknown>, interruptAt: "never" | "up" | "use") {
    const events: string[] = [], controller = new AbortController();
    const ended = held(() => {
      events.push("use");
      if (interruptAt === "use") setTimeout(() => controller.abort(new Error("interrupted")), 0);
      return use();
    }, {
      signal: controller.signal,
      up: () => {
        events.push("up");
        if (interruptAt === "up") controller.abort(new Error("interrupted"));
        return Promise.resolve("rack");
      },
      down: (rack) => Promise.resolve(events.push(`down ${rack}`)),
    });
    await ended.then(
      (value) => events.push(`ended ${value}`),
      (error) => events.push(error.message),
    );
    return events;
  }
  const never = () => new Promise<never>(() => {});

  it("takes down what it has brought up, by an end, a failure or an interrupt", async () => {
    assert.deepEqual(await told(() => Promise.resolve(7), "never"), [
      ...["up", "use", "down rack", "ended 7"],
    ]);
    const failure = () => Promise.reject(new Error("failed"));
    assert.deepEqual(await told(failure, "never"), ["up", "use", "down rack", "failed"]);
    assert.deepEqual(await told(never, "use"), ["up", "use", "down rack", "interrupted"]);
    assert.deepEqual(await told(never, "up"), ["up", "use", "down rack", "interrupted"]);
  });

  it("brings nothing up behind an interrupt", async () => {
    const signal = AbortSignal.abort(new Error("interrupted"));
    const no = () => Promise.reject(new Error("it was brought up"));
    await assert.rejects(held(never, { signal, up: no, down: no }), /interrupted/);
  });
});
