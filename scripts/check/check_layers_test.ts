import { describe, it } from "@std/testing/bdd";
import assert from "node:assert/strict";
import { importsOf, unreadable } from "./check_layers.ts";
import { ROOT } from "../../console/base/paths.ts";

function at(line: number): { start: { line: number } } {
  return { start: { line } };
}

const GRAPH = {
  modules: [
    {
      specifier: `file://${ROOT}/fabric/a.ts`,
      dependencies: [
        { specifier: "./b.ts", code: { specifier: `file://${ROOT}/fabric/b.ts`, span: at(2) } },
        { specifier: "./c.ts", type: { specifier: `file://${ROOT}/nodes/c.ts`, span: at(4) } },
        { specifier: "zod", code: { specifier: "npm:zod@4.6.7", span: at(5) } },
        { specifier: "what", code: { error: "not in the import map", span: at(6) } },
        { specifier: "../../o.ts", code: { specifier: "file:///elsewhere/o.ts", span: at(7) } },
      ],
    },
    { specifier: `file://${ROOT}/fabric/b.ts`, error: "Expected ';'" },
    {
      specifier: "file:///tmp/root.ts",
      dependencies: [{
        specifier: `file://${ROOT}/fabric/a.ts`,
        code: { specifier: `file://${ROOT}/fabric/a.ts`, span: at(0) },
      }],
    },
    { specifier: "npm:/zod@4.6.7" },
  ],
};

describe("importsOf", () => {
  it("finds what files of ours import, by value and by type, and where it is written", () => {
    const file = "fabric/a.ts";
    assert.deepEqual(importsOf(GRAPH), [
      { file, line: 3, specifier: "./b.ts", target: "fabric/b.ts" },
      { file, line: 5, specifier: "./c.ts", target: "nodes/c.ts" },
      { file, line: 6, specifier: "zod", target: null },
      { file, line: 7, specifier: "what", target: null },
      { file, line: 8, specifier: "../../o.ts", target: null },
    ]);
  });
});

describe("unreadable", () => {
  it("names every module whose imports could not be seen", () => {
    assert.deepEqual(unreadable(GRAPH), ["fabric/b.ts: Expected ';'"]);
  });
});
