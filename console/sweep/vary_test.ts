import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { parseVary } from "./vary.ts";

function valuesOf(text: string): unknown[] {
  return parseVary([text])[0]!.values.map(({ data }) => data);
}

describe("parseVary", () => {
  it("reads values as a scenario has them, and a range as its numbers", () => {
    assert.deepEqual(valuesOf("depth=1,4,16"), [1, 4, 16]);
    assert.deepEqual(valuesOf("hosts.b.ddio=on,off"), ["on", "off"]);
    assert.deepEqual(valuesOf("size=64,4KiB"), [64, "4KiB"]);
    assert.deepEqual(valuesOf("inline=true,false"), [true, false]);
    assert.deepEqual(valuesOf("seed=8..11,20"), [8, 9, 10, 11, 20]);
    assert.deepEqual(valuesOf("method=[a, b],all"), [["a", "b"], "all"]);
    const [ecn] = parseVary(["ecn={ kmin: 1KiB, pmax: 0.2 },off"]);
    assert.deepEqual(ecn!.values[0], {
      data: { kmin: "1KiB", pmax: 0.2 },
      text: "{ kmin: 1KiB, pmax: 0.2 }",
    });
  });

  it("refuses what is no list of different values of a name, once", () => {
    for (
      const [texts, message] of [
        [["depth"], /--vary is "depth": expected NAME=VALUE/],
        [["depth="], /--vary is "depth=": expected NAME=VALUE/],
        [["=1"], /--vary is "=1": expected NAME=VALUE/],
        [["depth=1,,2"], /--vary is "depth=1,,2" \(no YAML/],
        [["depth=1,2,1"], /--vary depth is 1 twice: expected different values/],
        [["seed=9..2"], /--vary seed is "9\.\.2": expected a range upwards/],
        [["seed=1..1000000"], /expected a range upwards of at most 100000 numbers/],
        [["depth=1", "depth=2"], /--vary is depth a second time: expected each name once/],
      ] as const
    ) assert.throws(() => parseVary(texts), message);
  });
});
