import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { sentence, ticks, wordsOfCounter } from "./figures.ts";

describe("sentence", () => {
  it("has times as the page writes them, and leaves names alone that end as times do", () => {
    assert.equal(
      sentence("at 12.5 us, 3us and 1234567 ps: a pace"),
      "at 12.5\u202fµs, 3\u202fµs and 1.234\u202f567\u202fµs: a pace",
    );
    for (const name of ["rack2us", "b-4us", "h1.2us", "4us-b"]) {
      assert.equal(sentence(`it waits for ${name}.`), `it waits for ${name}.`);
    }
  });
});

describe("ticks", () => {
  it("are round numbers within the span, at most as many steps as asked for", () => {
    assert.deepEqual(ticks(0, 554, 6), [0, 100, 200, 300, 400, 500]);
    assert.deepEqual(ticks(130, 290, 8), [140, 160, 180, 200, 220, 240, 260, 280]);
    assert.deepEqual(ticks(0, 2, 5), [0, 0.5, 1, 1.5, 2]);
    assert.deepEqual(ticks(7, 7, 8), []);
  });
});

describe("wordsOfCounter", () => {
  it("has a counter's name in words, and abbreviations as the field writes them", () => {
    const names = ["dmaReads", "blueFlameTaken", "core0.cpu", "acksIn", "wqeReads", "queuedBytes"];
    assert.deepEqual(names.map(wordsOfCounter), [
      ...["DMA reads", "BlueFlame taken", "core0.CPU", "ACKs in", "WQE reads", "queued"],
    ]);
  });
});
