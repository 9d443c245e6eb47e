import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { countsText, keptText } from "./verdict_text.ts";

const COUNTS = { crashPoints: 180, instants: 12, hosts: ["server"], exhaustive: false };

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
});

describe("keptText", () => {
  it("says what holds by each that has judged", () => {
    assert.equal(
      keptText({ judgedBy: ["promises"] }),
      "Every promise is kept at each instant that was tried.",
    );
    assert.equal(
      keptText({ judgedBy: ["check", "robustness"] }),
      "The protocol's check holds and recovery reads what strict persistency could leave at each instant that was tried.",
    );
  });
});
