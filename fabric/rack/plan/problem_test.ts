import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  formatProblem,
  listOf,
  nearest,
  oneOf,
  type Problem,
  Refusal,
  refusal,
  showFound,
} from "./problem.ts";

const PROBLEM: Problem = {
  file: "persist_pair.yaml",
  line: 12,
  column: 15,
  path: "hosts.b.ddio",
  found: '"offf"',
  expected: "on, off or both",
};

describe("formatProblem", () => {
  it("names file, line, path, what was found and what was expected", () => {
    assert.equal(
      formatProblem(PROBLEM),
      'persist_pair.yaml:12: hosts.b.ddio: found "offf", expected on, off or both',
    );
  });

  it("leaves out the path of the file as a whole", () => {
    const text = formatProblem({
      ...PROBLEM,
      path: "",
      line: 1,
      found: "nothing",
      expected: "YAML",
    });
    assert.equal(text, "persist_pair.yaml:1: found nothing, expected YAML");
  });

  it("names an option, or what was found, where there is no file", () => {
    const messages = [
      refusal("--ddio", { found: '"offf"', expected: "on or off" }),
      refusal("", { found: "No rack is up", expected: "one" }),
      refusal("", { found: "b has power" }),
    ].map(({ message }) => message);
    assert.deepEqual(messages, [
      '--ddio is "offf": expected on or off',
      "No rack is up: expected one",
      "b has power",
    ]);
  });
});

describe("Refusal", () => {
  it("lists all problems, in the file's order", () => {
    const error = new Refusal([PROBLEM, { ...PROBLEM, line: 3 }, { ...PROBLEM, column: 2 }]);
    assert.deepEqual(error.problems.map(({ line, column }) => [line, column]), [
      [3, 15],
      [12, 2],
      [12, 15],
    ]);
    assert.equal(error.message.split("\n").length, 3);
  });
});

describe("oneOf", () => {
  it("lists the words, and begins with the one that was probably meant", () => {
    assert.equal(oneOf(["a", "tor"]), "one of a, tor");
    assert.equal(oneOf(["a", "tor"], "tro"), "tor (one of a, tor)");
    assert.equal(oneOf(["a", "tor"], "switch"), "one of a, tor");
  });
});

describe("nearest", () => {
  const known = ["ddio", "domain", "dram", "cores"];
  const cases = [
    ["dido", "ddio"],
    ["DDIO", "ddio"],
    ["domian", "domain"],
    ["core", "cores"],
    ["completely-different", undefined],
    ["", undefined],
  ] as const;
  for (const [word, expected] of cases) {
    it(`finds ${expected ?? "nothing"} for ${word || "an empty word"}`, () => {
      assert.equal(nearest(word, known), expected);
    });
  }
});

describe("showFound", () => {
  it("shows values as the file has them and collections by their kind", () => {
    assert.deepEqual(
      ["offf", 7, true, null, undefined, {}, [], [1]].map(showFound),
      ['"offf"', "7", "true", "nothing", "nothing", "a mapping", "an empty list", "a list"],
    );
    assert.ok(showFound("x".repeat(1000)).length <= 80);
  });
});

describe("listOf", () => {
  it("puts `or` before the last word", () => {
    assert.deepEqual([[], ["a"], ["a", "b"], ["a", "b", "c"]].map(listOf), [
      "",
      "a",
      "a or b",
      "a, b or c",
    ]);
  });
});
