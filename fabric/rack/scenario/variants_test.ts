import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type VariantChoices, variants } from "./variants.ts";
import { METHODS, VERIFY_METHODS } from "../plan/vocabulary.ts";
import { parseScenario } from "./parse_scenario.ts";

function variantsOf(text: string, choices?: VariantChoices) {
  return variants(parseScenario(text, "x.yaml"), choices);
}

function pair(options: string, b = "{}"): string {
  return `name: x\nhosts: { a: {}, b: ${b} }\nprograms: [{ on: a, run: put, to: b, ${options} }]`;
}

describe("variants", () => {
  it("is one run where nothing varies", () => {
    const [only, ...others] = variantsOf(pair("method: write-read", "{ ddio: off }"));
    assert.deepEqual(others, []);
    assert.equal(only!.label, "x");
    assert.equal(only!.method, "write-read");
    assert.equal(only!.ddio, null, "hosts differ");
    assert.equal(only!.programs[0]!.options.method, "write-read");
    assert.deepEqual(only!.hosts.map(({ ddio }) => ddio), [true, false]);
  });

  it("is every method, with DDIO off and on at the hosts that vary it", () => {
    const all = variantsOf(pair("method: all", "{ ddio: both }"));
    assert.deepEqual(
      all.map(({ method, ddio }) => [method, ddio]),
      METHODS.flatMap((method) => [[method, "off"], [method, "on"]]),
    );
    assert.deepEqual(
      all.map(({ programs }) => programs[0]!.options.method),
      all.map((v) => v.method),
    );
    assert.deepEqual(all[0]!.hosts.map(({ ddio }) => ddio), [true, false]);
    assert.deepEqual(all[1]!.hosts.map(({ ddio }) => ddio), [true, true]);
    assert.equal(all[0]!.label, "write-only, ddio off");
    assert.equal(new Set(all.map(({ label }) => label)).size, all.length);
  });

  it("V-10 (in part): may be of methods that check, which all does not stand for, and of one by choice", () => {
    const some = variantsOf(pair(`method: [${VERIFY_METHODS.join(", ")}]`));
    assert.deepEqual(some.map(({ method }) => method), [...VERIFY_METHODS]);
    const [chosen] = variantsOf(pair("method: all, level: check"), { method: "write-verify" });
    assert.deepEqual(
      [chosen!.programs[0]!.options.method, chosen!.programs[0]!.options.level],
      ["write-verify", "check"],
    );
  });

  it("makes a chosen cell the same run as the matrix has it", () => {
    const text = pair("method: all", "{ ddio: both }");
    const cell = variantsOf(text, { method: "persist-opcode", ddio: "off" });
    const inMatrix = variantsOf(text).find((variant) =>
      variant.method === "persist-opcode" && variant.ddio === "off"
    );
    assert.deepEqual(cell, [inMatrix]);
  });

  it("lets a chosen DDIO count for all hosts where none varies it", () => {
    const [only] = variantsOf(pair("depth: 1"), { ddio: "off" });
    assert.deepEqual(only!.hosts.map(({ ddio }) => ddio), [false, false]);
    assert.deepEqual([only!.ddio, only!.label], ["off", "ddio off"]);
  });

  it("puts choices into the programs that take them, and into no other", () => {
    const text = `name: x
hosts: { a: {}, b: {} }
programs:
  - { on: a, run: put, to: b, depth: 4 }
  - { on: a, run: list, from: b }
  - { on: b, run: ./mine.ts, depth: 4 }
`;
    const choices = { method: "write-send", size: 128, depth: 8, input: "in.bin" } as const;
    const [only] = variantsOf(text, choices);
    assert.deepEqual(only!.programs.map(({ options }) => options), [
      { to: "b", method: "write-send", size: 128, depth: 8, file: "in.bin" },
      { from: "b" },
      { depth: 4 },
    ]);
  });

  it("keeps the method of a program that does not vary it", () => {
    const text = `name: x
hosts: { a: {}, b: {} }
programs:
  - { on: a, run: put, to: b, method: [write-read, persist-opcode] }
  - { on: b, run: put, to: a, method: write-only }
`;
    assert.deepEqual(
      variantsOf(text).map(({ programs }) => programs.map(({ options }) => options.method)),
      [["write-read", "write-only"], ["persist-opcode", "write-only"]],
    );
    for (const [i, method] of (["write-read", "persist-opcode"] as const).entries()) {
      const [cell, ...others] = variantsOf(text, { method });
      assert.deepEqual(others, []);
      assert.deepEqual(cell!.programs, variantsOf(text)[i]!.programs, "a chosen cell is that run");
    }
  });
});
