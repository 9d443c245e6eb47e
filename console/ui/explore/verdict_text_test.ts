import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Counterexample } from "../../api/jobs.ts";
import { countsText, keptText } from "./verdict_text.ts";

const COUNTS = {
  ...{ crashPoints: 180, instants: 12, hosts: ["server"], exhaustive: false },
  counterexample: null,
};

describe("countsText", () => {
  it("says what has judged the crash points, where anything has", () => {
    assert.equal(
      countsText({ ...COUNTS, judgedBy: ["check", "robustness"], exhaustive: true }),
      "180 crash points at 12 instants of server, judged by check, robustness, all choices at all instants",
    );
    assert.equal(
      countsText({ ...COUNTS, crashPoints: 1, instants: 1, judgedBy: [] }),
      "1 crash point at 1 instant of server",
    );
  });

  it("names no host where no power was cut", () => {
    const none = { ...COUNTS, crashPoints: 0, instants: 0, hosts: [] };
    assert.equal(countsText({ ...none, judgedBy: [] }), "0 crash points at 0 instants");
  });

  it("says how many interleavings were tried, and leaves power out where none was cut", () => {
    const interleavings = { runs: 9, orders: 5, preemptions: 2, stallPs: 50_000_000, untried: 1 };
    const tried = "5 interleavings in 9 runs with at most 2 preemptions of up to 50 us, " +
      "1 pair of accesses not tried the other way round";
    assert.equal(
      countsText({ ...COUNTS, judgedBy: [], interleavings }),
      `180 crash points at 12 instants of server, ${tried}`,
    );
    assert.equal(
      countsText({ ...COUNTS, instants: 0, crashPoints: 0, judgedBy: ["check"], interleavings }),
      `${tried}, judged by check`,
    );
    const counterexample = { holds: [{}] } as unknown as Counterexample;
    assert.equal(
      countsText({ ...COUNTS, instants: 0, judgedBy: [], interleavings, counterexample }),
      "5 interleavings in 9 runs with at most 2 preemptions of up to 50 us",
    );
    assert.equal(
      keptText({ judgedBy: ["check"], instants: 0, interleavings }),
      "The protocol's check holds in each interleaving that was tried.",
    );
    assert.equal(
      keptText({ judgedBy: ["check"], instants: 3, interleavings }),
      "The protocol's check holds at each instant and in each interleaving that was tried.",
    );
  });
});

describe("keptText", () => {
  it("says what holds by each that has judged", () => {
    assert.equal(
      keptText({ judgedBy: ["promises"], instants: 12 }),
      "Every promise is kept at each instant that was tried.",
    );
    assert.equal(
      keptText({ judgedBy: ["check", "robustness"], instants: 12 }),
      "The protocol's check holds and recovery reads what strict persistency could leave at each instant that was tried.",
    );
  });
});
