import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { deadIn, namesOf } from "./exports.ts";

/** What is dead in a tree of these files, whose specifiers are their paths. */
function dead(files: Readonly<Record<string, string>>): string[] {
  const modules = Object.entries(files).map(([file, text]) => namesOf(file, text));
  return deadIn(modules, (specifier) => Object.hasOwn(files, specifier) ? specifier : undefined);
}

const MAIN = "console/main.ts";

describe("deadIn", () => {
  it("finds modules that no entry point reaches, those that only tests import among them", () => {
    assert.deepEqual(
      dead({
        [MAIN]: `import { a } from "console/a.ts";\na();`,
        "console/a.ts": `export function a() { return import("console/lazy.ts"); }`,
        "console/lazy.ts": `import "console/effect.ts";`,
        "console/effect.ts": `globalThis.x = 1;`,
        "console/lost.ts": `import "console/also.ts";\nexport const lost = 1;`,
        "console/also.ts": ``,
        "console/lost_test.ts": `import { lost } from "console/lost.ts";\nlost;`,
        "console/tool.ts": `if (import.meta.main) run();`,
      }),
      ["console/lost.ts: no entry point reaches it", "console/also.ts: no entry point reaches it"],
    );
  });

  it("finds exports that nothing uses, tests alone use, or that need no export", () => {
    assert.deepEqual(
      dead({
        [MAIN]: `import { used, type Kind } from "console/a.ts";\nused;`,
        "console/a.ts": `export interface Kind { readonly of: Part }
export interface Part {}
export const used = 1, spare = 2;
export function tested() {}
export function* within(): Generator<number, void> {}
export function open() {}
export class Hidden {}
for (const each of within()) console.log(each, new Hidden());
open();
`,
        "console/a_test.ts": `import { open, tested } from "console/a.ts";\ntested(open);`,
      }),
      [
        "console/a.ts:3: spare is used by nothing",
        "console/a.ts:4: tested is used by tests alone",
        "console/a.ts:5: within needs no export",
        "console/a.ts:7: Hidden needs no export",
      ],
    );
  });

  it("knows each way in which a module takes names of another", () => {
    const of = (text: string) =>
      dead({ [MAIN]: text, "console/a.ts": "export const one = 1;\nexport const two = 2;\n" });
    const both = [
      `import * as a from "console/a.ts";\na;`,
      `export * from "console/a.ts";`,
      `const a = await import("console/a.ts");\na;`,
      `type A = typeof import("console/a.ts");`,
    ];
    for (const text of both) assert.deepEqual(of(text), [], text);
    const first = [
      `import { one as first } from "console/a.ts";\nfirst;`,
      `export { one } from "console/a.ts";`,
      `const { one } = await import("console/a.ts");\none;`,
      `(await import("console/a.ts")).one;`,
    ];
    for (const text of first) {
      assert.deepEqual(of(text), ["console/a.ts:2: two is used by nothing"], text);
    }
  });

  it("leaves alone what others than our own files import: the doors of own programs", () => {
    const text = "export const one = 1;\n";
    assert.deepEqual(dead({ "nodes/protocol.ts": text, "scripts/scenarios/own.ts": text }), []);
  });
});
