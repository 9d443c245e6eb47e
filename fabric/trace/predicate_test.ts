import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { matcherOf, parseGoal, predicateProblem, predicateText } from "./predicate.ts";
import { documentSteps, documentText } from "./trace_figures.ts";

describe("parseGoal", () => {
  it("reads times, numbers of the documents, words and texts, on a device or any", () => {
    assert.deepEqual(parseGoal(["b-rnic:S907", "qp-err", "4504", "10ms"], { count: "3" }), {
      breaks: [
        { step: "S907", node: "b-rnic", count: 3 },
        { step: "qp-err", count: 3 },
        { step: "4504", count: 3 },
      ],
      time: 10_000_000_000,
    });
    assert.deepEqual(parseGoal(["1.5 µs"]), { breaks: [], time: 1_500_000 });
    assert.deepEqual(parseGoal(["/a: b", "b:/psn 7"], { node: "b" }).breaks, [
      { step: "/a: b", node: "b" },
      { step: "/psn 7", node: "b" },
    ]);
  });

  it("says what was found and what was expected, with the word that is near and the list", () => {
    const cases: readonly (readonly [RegExp, string[], { count?: string; node?: string }?])[] = [
      [/^nothing: expected a time as 2ms, or a step of a device as b-rnic:S907$/, []],
      [/^"soon here": expected a time as 2ms, or a step .*: one of S201–S214, /, ["soon here"]],
      [
        /: S907 \(one of .*S901–S909, .*, 4601–4608, 202.1–202.2, .*, 612.1–612.5, persistence-ack, .*\)$/,
        ["b-rnic:S970"],
      ],
      [/: qp-err \(one of /, ["qp_err"]],
      [/^2 times: expected one$/, ["2ms", "3ms"]],
      [/^The count is "0": expected a whole number from 1 /, ["S907"], { count: "0" }],
      [/^count 2 of a time: expected a count of a step$/, ["2ms"], { count: "2" }],
      [/^"b:S907" and device a: expected one device$/, ["b:S907"], { node: "a" }],
    ];
    for (const [message, words, terms] of cases) {
      assert.throws(() => parseGoal(words, terms), { name: "Refusal", message });
    }
  });
});

describe("predicateProblem", () => {
  it("refuses what is no predicate in a rack of these devices", () => {
    assert.equal(predicateProblem({ step: "nak", node: "b", count: 2 }, ["a", "b"]), undefined);
    for (
      const wrong of [{}, { step: "x" }, { step: "nak", node: "c" }, { step: "nak", count: 0 }]
    ) {
      assert.notEqual(predicateProblem(wrong, ["a", "b"]), undefined, JSON.stringify(wrong));
    }
  });
});

describe("matcherOf", () => {
  const does = (step: string, text = "") => ({ step, text });

  it("takes numbers that figures share for one step, and tells SENDs apart", () => {
    const isWrite = matcherOf({ step: "S303" }), isSend = matcherOf({ step: "S310" });
    assert.deepEqual(
      ["S203", "S303", "S903", "S310"].map((step) => isWrite("a", does(step))),
      [true, true, false, false],
    );
    assert.deepEqual([isSend("a", does("S310")), isSend("a", does("S323"))], [true, false]);
    assert.equal(matcherOf({ step: "send-send" })("a", does("S323")), true);
  });

  it("takes every persistence acknowledgement that the documents name for one", () => {
    const isAck = matcherOf({ step: "persistence-ack" });
    const named = documentSteps().filter((step) =>
      documentText(step)!.includes("persistence acknowledgement")
    );
    assert.deepEqual(documentSteps().filter((step) => isAck("a", does(step))), named);
    assert.deepEqual(named, ["S907", "S1016"]);
  });

  it("asks for the device, and for a part of the text", () => {
    const isMeant = matcherOf({ step: "/psn 7", node: "b" });
    assert.deepEqual(
      [isMeant("b", does("x", "with psn 7")), isMeant("a", does("x", "psn 7"))],
      [true, false],
    );
  });

  it("takes it for no step that a part of a device is busy", () => {
    const busy = { track: "IIO", fromPs: 0, untilPs: 1 };
    assert.equal(matcherOf({ step: "/DMA" })("b", { ...does("busy", "DMA"), busy }), false);
  });
});

describe("predicateText", () => {
  it("is a sentence", () => {
    const says = (step: string, rest: object = {}) => predicateText({ step, ...rest });
    assert.equal(
      says("persistence-ack", { node: "b-rnic" }),
      "b-rnic sends a persistence ACK (S907 or S1016)",
    );
    assert.equal(says("qp-err"), "a queue pair of any device enters ERR");
    assert.equal(
      says("S907", { count: 20 }),
      "any device sends the persistence acknowledgement (S907), for the 20th time",
    );
    assert.equal(says("/psn 7"), 'a step of any device says "psn 7"');
    const occurrences = [1, 2, 3, 11, 12, 13, 21, 112].map((count) => says("nak", { count }));
    assert.deepEqual(occurrences.map((text) => text.replace(/^.*NAK(, for the )?/, "")), [
      ...["", "2nd time", "3rd time", "11th time", "12th time", "13th time", "21st time"],
      "112th time",
    ]);
  });
});
