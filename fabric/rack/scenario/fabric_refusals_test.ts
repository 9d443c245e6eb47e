/** What is wrong with a fabric of a scenario: its keys, its fat tree, the cables that it lists. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { messages, type Refusal } from "./scenario_testing.ts";

function fabric(section: string, hosts = "{ a: {}, b: {} }", more = ""): string {
  return `name: x\nfabric: ${section}\nhosts: ${hosts}\n${more}`;
}

function listed(switches: string, cables: string): string {
  return `{ topology: explicit, switches: ${switches}, cables: ${cables} }`;
}

const ENDS = "two ends, like h1..h4/s1 or, with the ports of switches, s1:3/s2:0";

const WRONG: readonly Refusal[] = [
  [
    "an odd fat tree",
    fabric("{ topology: fat-tree, k: 3 }"),
    "2: fabric.k: found 3, expected an even number from 2 to 32",
  ],
  [
    "a k of a star",
    fabric("{ k: 4 }"),
    "2: fabric.k: found k of a star, expected it with topology: fat-tree",
  ],
  [
    "more hosts than a fat tree has room for",
    fabric("{ topology: fat-tree, k: 2 }", "{ a: {}, h1..h3: {} }"),
    "3: hosts: found 4 hosts, expected at most 2, k³/4 of a fat tree with k: 2, or a higher k",
  ],
  [
    "more hosts than an edge switch has ports for",
    fabric("{ topology: fat-tree, k: 2 }", "{ a: { leaf: 1 }, b: { leaf: 1 } }"),
    "3: hosts.b.leaf: found b as host number 2 at edge switch 1, expected at most k/2, 1, at one edge switch",
  ],
  [
    "an edge switch that is not there",
    fabric("{ topology: fat-tree, k: 2 }", "{ a: { leaf: 3 }, b: {} }"),
    "3: hosts.a.leaf: found 3, expected an edge switch from 1 to 2",
  ],
  [
    "a host called as one of many switches",
    fabric("{ topology: fat-tree, k: 4 }", "{ edge8: {}, b: {} }"),
    '3: hosts.edge8: found "edge8", expected a name other than all, next and the switches\' names',
  ],
  [
    "cables of a fat tree",
    fabric("{ topology: fat-tree, k: 4, cables: 2 }"),
    "2: fabric.cables: found cables of a fat-tree, expected it with topology: leaf-spine or explicit",
  ],
  [
    "uplinks of a star",
    fabric("{ uplinks: { rate: 400Gbps } }"),
    "2: fabric.uplinks: found uplinks of a star, expected it with topology: leaf-spine, fat-tree or explicit",
  ],
  [
    "no switches",
    fabric("{ topology: explicit }"),
    "2: fabric: found no switches, expected the switches' names, like [s1, s2], as the topology is explicit",
  ],
  [
    "no cables",
    fabric("{ topology: explicit, switches: [s1] }"),
    "2: fabric: found no cables, expected a list of cables, like h1..h4/s1, as the topology is explicit",
  ],
  [
    "a number where cables are listed",
    fabric(listed("s1", "2")),
    "2: fabric.cables: found 2, expected a list of cables, as the topology is explicit",
  ],
  [
    "a list where cables are counted",
    fabric("{ topology: leaf-spine, cables: [a/s1] }"),
    "2: fabric.cables: found a list, expected a number of cables between each leaf and each spine, " +
    "as the topology is leaf-spine: a list is of topology: explicit",
  ],
  [
    "cables that are neither",
    fabric(listed("s1", "a/s1")),
    '2: fabric.cables: found "a/s1", expected a list of cables, or a whole number from 1 to 16',
  ],
  [
    "a switch twice",
    fabric(listed("[s1, s1]", "[a/s1, b/s1]")),
    "2: fabric.switches: found a list, expected a list of different switches' names, or a range like s1..s4",
  ],
  [
    "a switch called as a host",
    fabric(listed("[s1, b]", "[a/s1, b/s1]")),
    '2: fabric.switches: found "b", expected another name than a host\'s',
  ],
  [
    "a switch called as a card",
    fabric(listed("[s1, x-rnic]", "[a/s1, b/s1, s1/x-rnic]")),
    '2: fabric.switches: found "x-rnic", expected a name that does not end in -rnic, -rnic2 and so on, as RNICs\' names do',
  ],
  [
    "too many switches",
    fabric(listed("s1..s2000", "[a/s1, b/s1]")),
    "2: fabric.switches: found 2000 switches, expected at most 1280",
    "2: fabric.cables: found no cable of s2, s3, s4, s5, s6, s7, s8, s9 …, expected a cable of each switch at least",
  ],
  [
    "a cable of a switch that is not there",
    fabric(listed("s1", "[a/s1, b/s2]")),
    "2: fabric.cables[1]: found s2 of b/s2, expected s1",
  ],
  [
    "cables of a range that is not there, said once",
    fabric(listed("s1", "[a/s1, b/s1, host1..host9/s1]")),
    "2: fabric.cables[2]: found host1 of host1/s1, expected a host or a switch of this rack (a, b or s1)",
  ],
  [
    "a cable with one end",
    fabric(listed("s1", "[a/s1, b]")),
    `2: fabric.cables[1]: found "b", expected ${ENDS}, or a mapping`,
  ],
  [
    "a port of a range",
    fabric(listed("s1", "[a..b/s1, h1..h2:1/s1]")),
    `2: fabric.cables[1]: found "h1..h2:1/s1", expected ${ENDS}, or a mapping`,
  ],
  [
    "a misspelt key of a cable",
    fabric(listed("s1", "[a/s1, { ends: b/s1, rat: 40Gbps }]")),
    "2: fabric.cables[1].rat: found an unknown key, expected rate",
  ],
  [
    "a rate without a unit",
    fabric(listed("s1", "[a/s1, { ends: b/s1, rate: 40 }]")),
    "2: fabric.cables[1].rate: found 40, expected a rate > 0 with its unit, like 100Gbps",
  ],
  [
    "a host's second cable",
    fabric(listed("[s1, s2]", "[a/s1, b/s1, b/s2]")),
    "2: fabric.cables[2]: found a second cable of b, expected one cable of each RNIC (nics: 2 gives a host two)",
  ],
  [
    "an RNIC's second cable, once by its host's name",
    fabric(listed("[s1, s2]", "[a/s1, b/s1, b-rnic/s2]")),
    "2: fabric.cables[2]: found a second cable of b-rnic, expected one cable of each RNIC (nics: 2 gives a host two)",
  ],
  [
    "a second RNIC without a cable",
    fabric(listed("[s1, s2]", "[a/s1, b/s1, s1/s2]"), "{ a: {}, b: { nics: 2 } }"),
    "3: hosts.b: found b-rnic2 without a cable, expected a cable of each RNIC",
  ],
  [
    "a second RNIC apart from the others",
    fabric(listed("[s1, s2]", "[a/s1, b/s1, b-rnic2/s2]"), "{ a: {}, b: { nics: 2 } }"),
    "2: fabric.cables: found no way from a to b-rnic2, expected a way between any two",
  ],
  [
    "a cable of an RNIC that its host has not",
    fabric(listed("s1", "[a/s1, b/s1, b-rnic3/s1]"), "{ a: {}, b: { nics: 2 } }"),
    "2: fabric.cables[2]: found b-rnic3 of b-rnic3/s1, expected b-rnic2",
  ],
  [
    "two RNICs on a direct cable",
    fabric("{ topology: direct }", "{ a: {}, b: { nics: 2 } }"),
    "3: hosts.b.nics: found 2, expected 1, as the topology is direct: one cable between two RNICs",
  ],
  [
    "more RNICs than a fat tree has ports for",
    fabric("{ topology: fat-tree, k: 2 }", "{ a: { nics: 2 }, b: {} }"),
    "3: hosts: found 2 hosts with 3 RNICs, expected at most 2 RNICs, k³/4 of a fat tree with k: 2, or a higher k",
  ],
  [
    "two RNICs at an edge switch with one port for hosts",
    fabric("{ topology: fat-tree, k: 2 }", "{ a: { nics: 2, leaf: 1 } }"),
    "3: hosts.a.leaf: found a-rnic2 as RNIC number 2 at edge switch 1, expected at most k/2, 1, at one edge switch",
  ],
  [
    "fewer leaves than RNICs",
    fabric("{ topology: leaf-spine, leaves: 3 }", "{ a: { nics: 3, leaf: [1, 2] }, b: {} }"),
    "3: hosts.a.leaf: found 2 leaves, expected 3 leaves, one of each RNIC of a",
  ],
  [
    "leaves of one RNIC",
    fabric("{ topology: leaf-spine }", "{ a: { leaf: [1, 2] }, b: {} }"),
    "3: hosts.a.leaf: found 2 leaves, expected a leaf, as a has one RNIC",
  ],
  [
    "a leaf that is not there, of a second RNIC",
    fabric("{ topology: leaf-spine }", "{ a: { nics: 2, leaf: [1, 3] }, b: {} }"),
    "3: hosts.a.leaf: found 3, expected a leaf from 1 to 2",
  ],
  [
    "too many RNICs of one host",
    fabric("{ topology: star }", "{ a: { nics: 9 }, b: {} }"),
    "3: hosts.a.nics: found 9, expected a whole number from 1 to 8",
  ],
  [
    "two coherent cards of one host, as the defaults say",
    `${fabric("{ topology: star }", "{ a: { attach: coherent }, b: {} }")}\ndefaults: { nics: 2 }`,
    "5: defaults.nics: found 2, expected 1, as a card on the processor's coherent bus is its host's only one",
  ],
  [
    "a port twice",
    fabric(listed("s1", "[a/s1:3, b/s1:3]")),
    "2: fabric.cables[1]: found a second cable of s1:3, expected one cable at each port",
  ],
  [
    "several cables at one port",
    fabric(listed("[s1, s2]", "[a/s1, b/s2, { ends: s1:3/s2, count: 2 }]")),
    "2: fabric.cables[2]: found a second cable of s1:3, expected one cable at each port",
  ],
  [
    "a port of a host",
    fabric(listed("s1", "[a:0/s1, b/s1]")),
    "2: fabric.cables[0]: found a:0, expected a alone, as a card has one port",
  ],
  [
    "a cable of two hosts",
    fabric(listed("s1", "[a/b]")),
    "2: fabric.cables[0]: found a/b, expected a switch at one end at least (two hosts alone are topology: direct)",
  ],
  [
    "a cable that leads back",
    fabric(listed("[s1, s2]", "[a/s1, b/s1, s2/s2]")),
    "2: fabric.cables[2]: found s2/s2, expected two ends: no cable leads back to its own switch",
  ],
  [
    "a host without a cable, and nothing of the faults of a network that is not whole",
    fabric(
      listed("s1", "[a/s1]"),
      "{ a: {}, b: {} }",
      "faults:\n  - { at: 1us, cut: b-rnic/s1 }\n",
    ),
    "3: hosts.b: found b without a cable, expected a cable of each host",
  ],
  [
    "a switch without a cable",
    fabric(listed("[s1, s2, s3]", "[a/s1, b/s1]")),
    "2: fabric.cables: found no cable of s2, s3, expected a cable of each switch at least",
  ],
  [
    "a switch with more cables than ports",
    fabric(listed("s1..s9", "[a/s1, b/s1, { ends: s1/s2..s9, count: 64 }]")),
    "2: fabric.cables: found 514 cables of s1, expected at most 512 of one switch",
  ],
  [
    "parts without a way between them",
    fabric(listed("[s1, s2]", "[a/s1, b/s2]")),
    "2: fabric.cables: found no way from a to b, expected a way between any two",
  ],
  [
    "a leaf of an explicit network",
    fabric(listed("s1", "[a/s1, b/s1]"), "{ a: { leaf: 1 }, b: {} }"),
    "3: hosts.a.leaf: found 1, expected none, as the topology has no leaves",
  ],
  [
    "one of several cables, and a switch that is not there",
    fabric(
      listed("s1..s2", "[a/s1, b/s2, { ends: s1/s2, count: 2 }]"),
      "{ a: {}, b: {} }",
      "faults:\n  - { at: 1us, cut: s1/s2 }\n  - { at: 1us, kill: s3 }\n",
    ),
    '5: faults[0].cut: found "s1/s2", expected one of the cables: s1/s2#1 or s1/s2#2',
    '6: faults[1].kill: found "s3", expected s1, a node',
  ],
];

describe("a wrong fabric", () => {
  for (const [name, text, ...expected] of WRONG) {
    it(`is refused: ${name}`, () => assert.deepEqual(messages(text), expected));
  }
});

describe("a right fabric", () => {
  const RIGHT: Readonly<Record<string, string>> = {
    "loops, parallel cables, ports and rates": fabric(
      listed(
        "[s1..s3, old]",
        "[a/s1:7, { ends: b/s2, rate: 25Gbps }, s1..s2/s3, s1/s2, { ends: s3/old, count: 3 }]",
      ),
    ),
    "one switch": fabric(listed("tor", "[a/tor, b/tor:9]")),
    "a full fat tree of k 4": fabric("{ topology: fat-tree }", "{ h1..h16: {} }"),
  };
  for (const [name, text] of Object.entries(RIGHT)) {
    it(`may have ${name}`, () => assert.deepEqual(messages(text), []));
  }
});
