import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { parseScenario, readScenarioOf } from "../../fabric/rack/scenario/parse_scenario.ts";
import { combinationsOf, readCombinations } from "./combinations.ts";

const TEXT = `
name: pair
hosts:
  a: {}
  b: { ddio: both }
programs:
  - { on: a, run: put, to: b, method: all, depth: 16, size: 4KiB, bytes: 64KiB }
expect: [survives-what-was-reported]
capture: { pcap: ./captures }
`;

function combined(...given: string[]) {
  const source = readScenarioOf(TEXT, "pair.yaml");
  const all = readCombinations(source, given);
  return { ...all, combinations: [...combinationsOf(source, all)] };
}

describe("combinationsOf", () => {
  it("makes every combination, the last name's values first, without the captures", () => {
    const { count, seed, combinations } = combined("depth=1,4", "seed=1..3");
    assert.equal(count, 6);
    assert.equal(seed, 1);
    assert.deepEqual(
      combinations.map(({ number, values: { depth, seed } }) => `${number} ${depth}/${seed}`),
      ["1 1/1", "2 1/2", "3 1/3", "4 4/1", "5 4/2", "6 4/3"],
    );
    for (const { text, values: { depth, seed } } of combinations) {
      const read = parseScenario(text, "");
      assert.equal(read.seed, Number(seed));
      assert.equal(read.programs[0]!.options["depth"], Number(depth));
      assert.deepEqual(read.capture, {});
      // What does not vary stays as it is written.
      const { seed: _, capture, ...same } = parseScenario(TEXT, "");
      assert.deepEqual(capture, { pcap: "./captures" });
      assert.deepEqual(read.hosts, same.hosts);
      assert.deepEqual(read.fabric, same.fabric);
    }
  });

  it("expects what the scenario expects, but not of one method or DDIO of several", () => {
    const expected = (...given: string[]) =>
      parseScenario(combined(...given).combinations[0]!.text, "").expect;
    assert.deepEqual(expected("depth=1"), ["survives-what-was-reported"]);
    assert.deepEqual(expected("method=write-read"), []);
    assert.deepEqual(expected("depth=1", "hosts.b.ddio=on"), []);
  });

  it("refuses a value that the schema refuses, by the name that its user gave", () => {
    assert.throws(
      () => combined("depth=1,0"),
      /^Refusal: --vary depth=0: programs\[0\]\.depth is 0: expected a whole number from 1 to 256$/,
    );
    assert.throws(
      () => combined("programs[0].depht=1"),
      /--vary programs\[0\]\.depht=1: programs\[0\]\.depht is an unknown key: expected depth/,
    );
    // Where only two values together are wrong, the one at whose place the check finds it.
    assert.throws(
      () => combined("topology=leaf-spine,star", "hosts.b.leaf=1"),
      /--vary hosts\.b\.leaf=1: hosts\.b\.leaf is /,
    );
  });

  it("refuses one place under two names, a scenario that is wrong, and nothing to vary", () => {
    assert.throws(
      () => combined("depth=1,4", "programs[0].depth=2"),
      /--vary is programs\[0\]\.depth, which is depth \(programs\[0\]\.depth\): expected each place once/,
    );
    assert.throws(() => combined("ecn=on,off", "kmin=1KiB"), /--vary is kmin, which is ecn/);
    assert.throws(() => combined(), /There is nothing to vary: expected --vary/);
  });
});
