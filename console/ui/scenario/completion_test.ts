import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { TOPOLOGIES } from "../../../fabric/rack/assembly/network.ts";
import { scenarioJsonSchema } from "../../../fabric/rack/scenario/json_schema.ts";
import { completionsAt } from "./completion.ts";

const SCHEMA = scenarioJsonSchema();

/** The words at the mark `|` of a text. */
function wordsAt(text: string): string[] {
  const at = text.indexOf("|");
  return completionsAt(SCHEMA, text.replace("|", ""), at).words.map(({ text }) => text);
}

describe("completionsAt", () => {
  it("knows keys of the top, of mappings in blocks and in one line", () => {
    assert.deepEqual(wordsAt("name: x\nse|"), ["seed"]);
    assert.deepEqual(wordsAt("name: x\nprof|"), ["profile"]);
    assert.deepEqual(wordsAt("fabric:\n  topology: star\n  lea|"), ["leaves"]);
    assert.deepEqual(wordsAt("fabric: { topology: star, m|"), ["mtu"]);
    assert.deepEqual(wordsAt("hosts:\n  a: {}\n  b: { dd|"), ["ddio"]);
    assert.deepEqual(wordsAt("hosts:\n  b:\n    scm: { re|"), ["regions"]);
    assert.deepEqual(wordsAt("fabric: { switch: { mo|"), ["mode"]);
  });

  it("knows values", () => {
    assert.deepEqual(wordsAt("fabric: { topology: |"), [...TOPOLOGIES]);
    assert.deepEqual(wordsAt("hosts:\n  b:\n    domain: e|"), ["eadr"]);
    assert.deepEqual(wordsAt("expect:\n  - surv|"), ["survives-what-was-reported"]);
    assert.deepEqual(wordsAt("programs:\n  - { on: a, run: pu|"), ["put"]);
  });

  it("knows the options of the program that stands before, and those of a fault", () => {
    const options = wordsAt("programs:\n  - { on: a, run: put, me|");
    assert.deepEqual(options, ["method"]);
    assert.deepEqual(wordsAt("programs:\n  - on: a\n    run: put\n    method: persist-o|"), [
      "persist-opcode",
    ]);
    assert.deepEqual(wordsAt("programs:\n  - { on: a, run: put, method: [write-r|"), [
      "write-read",
    ]);
    assert.deepEqual(wordsAt("faults:\n  - { at: 1us, ki|"), ["kill"]);
    assert.deepEqual(wordsAt("faults:\n  - { link: a, los|"), ["loss"]);
  });

  it("reads all of YAML before: comments among the keys of a mapping, lists as values", () => {
    const put = "programs:\n  - {\n      on: a, # where, and\n      run: put,\n      ";
    assert.deepEqual(wordsAt(`${put}method: persist-o|`), ["persist-opcode"]);
    assert.deepEqual(wordsAt("hosts: { a: { hints: { kinds: [atomic], ki|"), []);
    assert.deepEqual(wordsAt("hosts: { a: { hints: { ki|"), ["kinds"]);
  });

  it("says nothing in comments, in names, and of what stands there already", () => {
    for (const text of ["# se|", "hosts:\n  a|", "name: x|", "seed: 1\nseed|", "seed: 7\nse|"]) {
      assert.deepEqual(wordsAt(text), [], text);
    }
    const [word] = completionsAt(SCHEMA, "se", 2).words;
    assert.equal(word!.insert, "seed: ");
    assert.match(word!.about, /chance/);
  });
});
