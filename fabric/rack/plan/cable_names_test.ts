import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { parseTarget, targetName } from "./cable_names.ts";
import { makePlan } from "../assembly/topology.ts";
import { variants } from "../scenario/variants.ts";
import { parseScenario } from "../scenario/parse_scenario.ts";

function rackOf(fabric: string, hosts = "{ a: {}, b: {} }") {
  const text = `name: x\nfabric: ${fabric}\nhosts: ${hosts}`;
  return makePlan(variants(parseScenario(text, "x.yaml"))[0]!);
}

const STAR = rackOf("{ topology: star }");
const FABRIC = rackOf("{ topology: leaf-spine, cables: 2 }");

/** What a text stands for, in words again. */
function understood(rack: typeof STAR, text: string): string {
  const target = parseTarget(rack, text);
  return "expected" in target ? `expected ${target.expected}` : targetName(rack, target);
}

describe("parseTarget", () => {
  const cases: readonly (readonly [rack: typeof STAR, text: string, meant: string])[] = [
    [STAR, "a-rnic/tor", "a-rnic/tor"],
    [STAR, "tor/a-rnic", "a-rnic/tor"],
    [STAR, "a", "a-rnic/tor"],
    [STAR, "b-rnic", "b-rnic/tor"],
    [STAR, "a-rnic->tor", "a-rnic->tor"],
    [STAR, "tor->a-rnic", "tor->a-rnic"],
    [
      STAR,
      "a/a-rnic",
      "expected a network cable: a and a-rnic are joined by a bus, which has no faults",
    ],
    [
      STAR,
      "a-rnic/b-rnic",
      "expected a cable of this rack (a-rnic/tor or b-rnic/tor), one way of it (a-rnic->tor) or a host",
    ],
    [STAR, "a-rnic/top", "expected a-rnic/tor, a cable"],
    [rackOf("{ topology: star }", "{ host1: {}, host2: {} }"), "hsot2", "expected host2, a host"],
    [STAR, "tor", "expected one of its cables: a-rnic/tor or b-rnic/tor"],
    [STAR, "a-rnic/tor#2", "expected a number from 1 to 1"],
    [rackOf("{ topology: direct }"), "b", "a-rnic/b-rnic"],
    [FABRIC, "a", "a-rnic/leaf1"],
    [FABRIC, "leaf1/spine2#2", "leaf1/spine2#2"],
    [FABRIC, "spine2->leaf1#1", "spine2->leaf1#1"],
    [
      FABRIC,
      "leaf1/spine2",
      "expected one of the cables: leaf1/spine2#1 or leaf1/spine2#2",
    ],
  ];
  for (const [rack, text, meant] of cases) {
    it(`${text}: ${meant}`, () => assert.equal(understood(rack, text), meant));
  }
});
