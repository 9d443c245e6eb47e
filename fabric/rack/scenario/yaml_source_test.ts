import assert from "node:assert/strict";
import fc from "fast-check";
import { describe, it } from "@std/testing/bdd";
import { formatPath, readYaml } from "./yaml_source.ts";
import { seeded } from "../../base/property_testing.ts";

describe("readYaml", () => {
  it("keeps on and off as words: YAML 1.2", () => {
    const { source, problems } = readYaml("on: a\nddio: off\n", "x.yaml");
    assert.deepEqual(source.data, { on: "a", ddio: "off" });
    assert.deepEqual(problems, []);
  });

  it("locates values and keys, through lists and aliases", () => {
    const text = "base: &b\n  x: 1\nlist:\n  - { y: 2 }\n  - *b\n";
    const { source } = readYaml(text, "x.yaml");
    assert.deepEqual(source.locate(["base", "x"]), { line: 2, column: 6 });
    assert.deepEqual(source.locateKey(["base", "x"]), { line: 2, column: 3 });
    assert.deepEqual(source.locate(["list", 0, "y"]), { line: 4, column: 10 });
    assert.deepEqual(source.locate(["list", 1, "x"]), { line: 2, column: 6 });
  });

  it("locates what is missing at the mapping that lacks it", () => {
    const { source } = readYaml("a: 1\nhosts:\n  b: { cores: 1 }\n", "x.yaml");
    assert.equal(source.locate(["hosts", "b", "scm", "size"]).line, 3);
    assert.equal(source.locate(["programs", 0]).line, 1);
  });

  it("reports a repeated key with its path, and goes on", () => {
    const { source, problems } = readYaml("hosts:\n  a: {}\n  b: {}\n  a: { x: 1 }\n", "x.yaml");
    assert.deepEqual(problems.map(({ line, path }) => [line, path]), [[4, "hosts.a"]]);
    assert.deepEqual(source.data, { hosts: { a: { x: 1 }, b: {} } });
  });

  it("reports what a scenario has no use for: tags, collections as keys, other documents", () => {
    const cases = [
      ["a: !!str 5", "a"],
      ["? [x]\n: 1", ""],
      ["__proto__: 1", ""],
      ["a: *b", "a"],
      ["a: &b [*b]", "a[0]"],
      ["a: 1\n---\nb: 2", ""],
    ] as const;
    for (const [text, path] of cases) {
      assert.deepEqual(
        readYaml(text, "x.yaml").problems.map((problem) => problem.path),
        [path],
        text,
      );
    }
  });

  it("keeps quoted numbers texts and reads the core schema's plain ones", () => {
    const text = "{ a: '1', b: 0x10, c: 1e3, d: ~, e: true, f: yes, g: 2024-01-01, h: \"x\\ty\" }";
    assert.deepEqual(readYaml(text, "x.yaml").source.data, {
      a: "1",
      b: 16,
      c: 1000,
      d: null,
      e: true,
      f: "yes",
      g: "2024-01-01",
      h: "x\ty",
    });
  });

  it("reports broken syntax with its line and gives no data", () => {
    const { source, problems } = readYaml("a: 1\nb: [1\nc: 2\n", "x.yaml");
    assert.equal(source.data, undefined);
    assert.ok(problems.length > 0 && problems.every(({ line }) => line >= 2));
  });

  it("refuses aliases that would fill the memory", () => {
    const levels = ["a0: &a0 [x, x]"];
    for (let i = 1; i < 30; i++) levels.push(`a${i}: &a${i} [*a${i - 1}, *a${i - 1}, *a${i - 1}]`);
    const { source, problems } = readYaml(levels.join("\n"), "x.yaml");
    assert.ok(source.data === undefined);
    assert.match(problems[0]!.expected, /aliases followed/);
  });

  it("never throws, whatever the text", () => {
    const words = fc.constantFrom(
      "a",
      "-",
      ":",
      " ",
      "\n",
      "  ",
      "&x",
      "*x",
      "{",
      "}",
      "[",
      "]",
      ",",
    );
    const texts = fc.oneof(fc.string(), fc.array(words).map((list) => list.join("")));
    fc.assert(
      fc.property(texts, (text) => {
        const { source, problems } = readYaml(text, "x.yaml");
        for (const { line, column } of problems) assert.ok(line >= 1 && column >= 1);
        assert.ok(source.locate(["a", 0, "b"]).line >= 1);
      }),
      seeded(),
    );
  });
});

describe("formatPath", () => {
  it("writes keys with dots and places in brackets", () => {
    assert.equal(formatPath(["programs", 0, "method", 1]), "programs[0].method[1]");
    assert.equal(formatPath([]), "");
  });
});
