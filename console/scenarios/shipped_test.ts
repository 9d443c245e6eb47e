import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { aboutOf, SCHEMA_COMMENT } from "./shipped.ts";

describe("aboutOf", () => {
  const cases: readonly (readonly [text: string, about: string])[] = [
    ["# One host writes.\nname: x\n", "One host writes"],
    [
      `${SCHEMA_COMMENT}./schema.json\n# One host writes:\n#   rack run x\nname: x\n`,
      "One host writes",
    ],
    [
      "# One host writes, and\n# another reads; slowly\nname: x\n",
      "One host writes, and another reads",
    ],
    ["# At 1.5 us it ends\n\n# no part of it\n", "At 1.5 us it ends"],
    ["name: x\n# One host writes.\n", ""],
    ["", ""],
  ];
  for (const [text, about] of cases) {
    it(`${JSON.stringify(text)} is about ${JSON.stringify(about)}`, () => {
      assert.equal(aboutOf(text), about);
    });
  }
});
