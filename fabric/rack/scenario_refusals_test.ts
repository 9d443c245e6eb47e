import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { ScenarioError } from "./problem.ts";
import { parseScenario } from "./scenario.ts";

const FILE = "x.yaml";

/** The messages for a text that is wrong, without the file's name. */
function messages(text: string): string[] {
  try {
    parseScenario(text, FILE);
  } catch (error) {
    if (!(error instanceof ScenarioError)) throw error;
    return error.message.split("\n").map((line) => line.replace(`${FILE}:`, ""));
  }
  return [];
}

/** A right scenario of two hosts with these lines added. */
function withLines(...lines: string[]): string {
  return ["name: x", "hosts: { a: {}, b: {} }", ...lines].join("\n");
}

function hostWith(options: string): string {
  return `name: x\nhosts:\n  a: {}\n  b: ${options}\n`;
}

const WRONG: readonly (readonly [name: string, text: string, message: string])[] = [
  [
    "a value that is not one of the words",
    hostWith("{ ddio: offf }"),
    '4: hosts.b.ddio: found "offf", expected on, off or both',
  ],
  [
    "an unknown key, by the nearest",
    hostWith("{ dido: off }"),
    "4: hosts.b.dido: found an unknown key, expected ddio",
  ],
  [
    "a latency of 0",
    withLines("fabric: { latency: 0ns }"),
    '3: fabric.latency: found "0ns", expected a latency > 0 with its unit, like 300ns: it is the lookahead of the clock',
  ],
  [
    "a bus without latency",
    withLines("fabric: { bus: { latency: 0 } }"),
    "3: fabric.bus.latency: found 0, expected a latency > 0 with its unit, like 300ns: it is the lookahead of the clock",
  ],
  [
    "an MTU that RoCE has not",
    withLines("fabric: { mtu: 1500 }"),
    "3: fabric.mtu: found 1500, expected 256, 512, 1024, 2048 or 4096",
  ],
  [
    "a decimal size",
    hostWith("{ dram: 64MB }"),
    '4: hosts.b.dram: found "64MB", expected a size from 1 MiB to 64 GiB in steps of 4 KiB, like 64MiB',
  ],
  ["a negative seed", withLines("seed: -1"), "3: seed: found -1, expected a whole number ≥ 0"],
  [
    "a seed beyond exact numbers",
    withLines("seed: 9007199254740993"),
    "3: seed: found 9007199254740992, expected a whole number ≥ 0",
  ],
  [
    "a missing name",
    "hosts: { a: {} }",
    "1: name: found nothing, expected a name of letters, digits and '-', at most 40",
  ],
  ["no hosts", "name: x\nhosts: {}", "2: hosts: found 0 hosts, expected 1 to 254 hosts"],
  [
    "hosts as a list",
    "name: x\nhosts: [a, b]",
    "2: hosts: found a list, expected a mapping of at least one name to a host's options",
  ],
  [
    "a host named twice",
    "name: x\nhosts:\n  a: {}\n  a: {}\n",
    "4: hosts.a: found this key a second time, expected each key once",
  ],
  [
    "a host in two ranges",
    "name: x\nhosts:\n  h1..h3: {}\n  h3..h4: {}\n",
    "4: hosts.h3..h4: found h3 a second time, expected each host once",
  ],
  [
    "a range that runs backwards",
    "name: x\nhosts: { h3..h1: {} }",
    "2: hosts.h3..h1: found \"h3..h1\", expected a name of letters, digits and '-', at most 40",
  ],
  [
    "a host's name with an underscore",
    "name: x\nhosts: { a_b: {} }",
    "2: hosts.a_b: found \"a_b\", expected a name of letters, digits and '-', at most 40",
  ],
  [
    "a host called like an RNIC",
    "name: x\nhosts: { a-rnic: {} }",
    '2: hosts.a-rnic: found "a-rnic", expected a name that does not end in -rnic, as RNICs\' names do',
  ],
  [
    "a host called like the switch",
    "name: x\nhosts: { tor: {} }",
    '2: hosts.tor: found "tor", expected a name other than all, next or tor',
  ],
  [
    "a direct cable between three",
    "name: x\nfabric: { topology: direct }\nhosts: { a: , b: , c: }",
    "3: hosts: found 3 hosts, expected 2 hosts, as the topology is direct",
  ],
  [
    "a switch on a direct cable",
    withLines("fabric: { topology: direct, switch: { queue: 1MiB } }"),
    "3: fabric.switch: found options of a switch, expected none, as the topology is direct",
  ],
  [
    "a queue that holds no frame",
    withLines("fabric: { switch: { queue: 4KiB } }"),
    "3: fabric.switch.queue: found 4 KiB, expected at least 4224 B, a frame of this MTU",
  ],
  [
    "an unknown host to run on",
    withLines("programs: [{ on: c, run: put, to: b }]"),
    '3: programs[0].on: found "c", expected a host of this rack (a or b)',
  ],
  [
    "an unknown host in a list",
    withLines("programs: [{ on: [a, c], run: list, from: b }]"),
    '3: programs[0].on[1]: found "c", expected a host of this rack (a or b)',
  ],
  [
    "an unknown peer",
    withLines("programs: [{ on: a, run: put, to: bb }]"),
    '3: programs[0].to: found "bb", expected a host of this rack (a or b)',
  ],
  [
    "a host as its own peer",
    withLines("programs: [{ on: a, run: get, from: a, name: x }]"),
    '3: programs[0].from: found "a", expected another host than the one it runs on',
  ],
  [
    "next of a lone host",
    "name: x\nhosts: { a: }\nprograms: [{ on: a, run: put, to: next }]",
    '3: programs[0].to: found "next", expected a second host to be next',
  ],
  [
    "an unknown program",
    withLines("programs: [{ on: a, run: putt, to: b }]"),
    '3: programs[0].run: found "putt", expected put',
  ],
  [
    "a missing option",
    withLines("programs: [{ on: a, run: put }]"),
    "3: programs[0].to: found nothing, expected a text",
  ],
  [
    "an option of another program",
    withLines("programs: [{ on: a, run: list, from: b, dept: 1 }]"),
    "3: programs[0].dept: found an unknown key, expected on, run, at, restart, from, completion, attempts, pause or idle",
  ],
  [
    "an unknown method",
    withLines("programs: [{ on: a, run: put, to: b, method: persist-opcod }]"),
    '3: programs[0].method: found "persist-opcod", expected persist-opcode',
  ],
  [
    "an unknown method in a list",
    withLines("programs: [{ on: a, run: put, to: b, method: [write-read, write-red] }]"),
    '3: programs[0].method[1]: found "write-red", expected write-read',
  ],
  [
    "no method",
    withLines("programs: [{ on: a, run: put, to: b, method: [] }]"),
    "3: programs[0].method: found an empty list, expected a method, a list of different ones, or all",
  ],
  [
    "a depth of 0",
    withLines("programs: [{ on: a, run: put, to: b, depth: 0 }]"),
    "3: programs[0].depth: found 0, expected a whole number from 1 to 256",
  ],
  [
    "a depth of 257",
    withLines("programs: [{ on: a, run: put, to: b, depth: 257 }]"),
    "3: programs[0].depth: found 257, expected a whole number from 1 to 256",
  ],
  [
    "a message below 8 B",
    withLines("programs: [{ on: a, run: put, to: b, size: 7 }]"),
    "3: programs[0].size: found 7, expected a size from 8 B to 1 MiB, like 64MiB",
  ],
  [
    "a message above 1 MiB",
    withLines("programs: [{ on: a, run: put, to: b, size: 2MiB }]"),
    '3: programs[0].size: found "2MiB", expected a size from 8 B to 1 MiB, like 64MiB',
  ],
  [
    "programs that vary methods differently",
    withLines(
      "programs:",
      "  - { on: a, run: put, to: b, method: [write-read, write-send] }",
      "  - { on: b, run: put, to: a, method: all }",
    ),
    "5: programs[1].method: found write-only, write-read, send-flush, write-send, write-flush, persist-opcode, persist-address, send-read, expected write-read, write-send, as above",
  ],
  [
    "an unknown node's fault",
    withLines("faults: [{ at: 1us, kill: c }]"),
    '3: faults[0].kill: found "c", expected a node of this rack (a, a-rnic, b, b-rnic or tor)',
  ],
  [
    "no switch to kill on a direct cable",
    withLines("fabric: { topology: direct }", "faults: [{ at: 1us, kill: tor }]"),
    '4: faults[0].kill: found "tor", expected a node of this rack (a, a-rnic, b or b-rnic)',
  ],
  [
    "a fault that does nothing",
    withLines("faults: [{ at: 1us }]"),
    "3: faults[0]: found no fault, expected one of kill, start, cut and heal, or link, rnic or scm",
  ],
  [
    "a fault without time",
    withLines("faults: [{ kill: b }]"),
    "3: faults[0].at: found nothing, expected a time > 0 with its unit, like 40us",
  ],
  [
    "death of the dead",
    withLines("faults:", "  - { at: 1us, kill: b }", "  - { at: 2us, kill: b }"),
    "5: faults[1].kill: found kill of b, which is dead since 1 us, expected a start before it",
  ],
  [
    "a cable that is not there",
    withLines("faults: [{ at: 1us, cut: a-rnic/top }]"),
    '3: faults[0].cut: found "a-rnic/top", expected a-rnic/tor, a cable',
  ],
  [
    "a fault of a bus",
    withLines("faults: [{ link: a/a-rnic, loss: 1% }]"),
    '3: faults[0].link: found "a/a-rnic", expected a network cable: a and a-rnic are joined by a bus, which has no faults',
  ],
  [
    "a share that is none",
    withLines("faults: [{ link: a, loss: 110% }]"),
    '3: faults[0].loss: found "110%", expected a share of the frames, like 1%, or all',
  ],
  [
    "a fault without time or share",
    withLines("faults: [{ link: a, loss: all }]"),
    "3: faults[0]: found loss of all frames for good, expected a share below all, or from, until, count or nth",
  ],
  [
    "a delay without time or share",
    withLines("faults: [{ link: a, delay: 1us }]"),
    "3: faults[0]: found delay of all frames for good, expected a share below all, or from, until, count or nth",
  ],
  [
    "a cable without a fault",
    withLines("faults: [{ link: a, from: 1us }]"),
    "3: faults[0]: found a cable and no fault, expected one of loss, corrupt, duplicate, reorder or delay",
  ],
  [
    "two faults in one",
    withLines("faults: [{ link: a, loss: 1%, delay: 1us }]"),
    "3: faults[0]: found loss and delay, expected one of loss, corrupt, duplicate, reorder or delay",
  ],
  [
    "a fault without a cable",
    withLines("faults: [{ loss: 1% }]"),
    "3: faults[0].link: found nothing, expected a text",
  ],
  [
    "a word of another fault",
    withLines("faults: [{ link: a, loss: 1%, jitter: 1us }]"),
    "3: faults[0].jitter: found jitter with loss, expected it with delay only",
  ],
  [
    "packets that there are not",
    withLines("faults: [{ link: a, loss: 1%, only: RC ACKNOWLEDG }]"),
    '3: faults[0].only: found "RC ACKNOWLEDG", expected RC ACKNOWLEDGE',
  ],
  [
    "an end before the beginning",
    withLines("faults: [{ link: a, loss: 1%, from: 2us, until: 1us }]"),
    "3: faults[0].until: found an end before the beginning, expected a time after from",
  ],
  [
    "V-08: a seal of what is no damage",
    withLines("faults: [{ link: a, loss: 1%, past: icrc }]"),
    "3: faults[0].past: found past with loss, expected it with corrupt only",
  ],
  [
    "V-08: a CRC that there is not",
    withLines("faults: [{ link: a, corrupt: 1%, past: fcs }]"),
    '3: faults[0].past: found "fcs", expected icrc',
  ],
  [
    "V-08: damage in a place that a card has not",
    withLines("faults: [{ rnic: b, flip: 1%, where: cable }]"),
    '3: faults[0].where: found "cable", expected buffer, checked or bus',
  ],
  [
    "V-08: damage in the card of nobody",
    withLines("faults: [{ rnic: c, flip: 1% }]"),
    '3: faults[0].rnic: found "c", expected a host of this rack (a or b)',
  ],
  [
    "V-08: damage in no card",
    withLines("faults: [{ flip: 1% }]"),
    "3: faults[0].rnic: found nothing, expected a text",
  ],
  [
    "V-08: a card without damage",
    withLines("faults: [{ rnic: b, where: bus }]"),
    "3: faults[0].flip: found nothing, expected a share of the frames, like 1%, or all",
  ],
  [
    "V-08: one piece of data and a share of them",
    withLines("faults: [{ rnic: b, flip: 1%, nth: 2 }]"),
    "3: faults[0].nth: found nth and a share or count, expected nth alone, with all",
  ],
  [
    "V-08: one piece of data and so many of them",
    withLines("faults: [{ rnic: b, flip: all, nth: 2, count: 2 }]"),
    "3: faults[0].nth: found nth and a share or count, expected nth alone, with all",
  ],
  [
    "V-08: damage that ends before it begins",
    withLines("faults: [{ rnic: b, flip: 1%, from: 2us, until: 1us }]"),
    "3: faults[0].until: found an end before the beginning, expected a time after from",
  ],
  [
    "V-08: a cell behind the end of the SCM",
    "name: x\nhosts: { a: {}, b: { scm: { size: 4KiB } } }\nfaults: [{ scm: b, stuck: 4096 }]",
    "3: faults[0].stuck: found 4096, expected an offset into the SCM of b, below 4 KiB",
  ],
  [
    "V-08: a cell of nobody",
    withLines("faults: [{ scm: c, stuck: 0 }]"),
    '3: faults[0].scm: found "c", expected a host of this rack (a or b)',
  ],
  [
    "V-08: a ninth bit",
    withLines("faults: [{ scm: b, stuck: 0, bit: 8 }]"),
    "3: faults[0].bit: found 8, expected a whole number from 0 to 7",
  ],
  [
    "V-08: a bit that is neither",
    withLines("faults: [{ scm: b, stuck: 0, value: 2 }]"),
    "3: faults[0].value: found 2, expected a whole number from 0 to 1",
  ],
  [
    "V-05: a threshold that nobody gets above",
    hostWith("{ verifyHistory: { threshold: 100% } }"),
    '4: hosts.b.verifyHistory.threshold: found "100%", expected a share below 100%, like 99.9%',
  ],
  [
    "V-05: a history without samples",
    hostWith("{ verifyHistory: { samples: 0 } }"),
    "4: hosts.b.verifyHistory.samples: found 0, expected a whole number from 1 to 65536",
  ],
  [
    "V-04: a level that there is not",
    withLines("programs: [{ on: a, run: put, to: b, method: write-verify, level: crc }]"),
    '3: programs[0].level: found "crc", expected none, check, verify or verify-crc',
  ],
  [
    "V-01: a method that only put has",
    withLines("programs: [{ on: a, run: append, to: b, method: write-verify }]"),
    '3: programs[0].method: found "write-verify", expected write-only, write-read, send-flush, write-send, write-flush, persist-opcode, persist-address or send-read',
  ],
  [
    "a cut of what is cut",
    withLines("faults:", "  - { at: 1us, cut: a }", "  - { at: 2us, cut: a-rnic->tor }"),
    "5: faults[1].cut: found a cut of what is cut already, expected a heal before it",
  ],
  [
    "a heal of what is whole",
    withLines("faults: [{ at: 1us, heal: a }]"),
    "3: faults[0].heal: found a heal of what is whole, expected a fault before it",
  ],
  [
    "a heal of one way of a cut of both",
    withLines("faults:", "  - { at: 1us, cut: a }", "  - { at: 2us, heal: a-rnic->tor }"),
    "5: faults[1].heal: found a heal of one way, expected both ways, as they were cut together",
  ],
  [
    "a cut without a time",
    withLines("faults: [{ cut: a }]"),
    "3: faults[0].at: found nothing, expected a time > 0 with its unit, like 40us",
  ],
  [
    "leaves of a star",
    withLines("fabric: { leaves: 2 }"),
    "3: fabric.leaves: found leaves of a star, expected it with topology: leaf-spine",
  ],
  [
    "a leaf that is not there",
    "name: x\nfabric: { topology: leaf-spine }\nhosts: { a: {}, b: { leaf: 3 } }",
    "3: hosts.b.leaf: found 3, expected a leaf from 1 to 2",
  ],
  [
    "a host called as a switch is",
    "name: x\nfabric: { topology: leaf-spine }\nhosts: { a: {}, leaf1: {} }",
    '3: hosts.leaf1: found "leaf1", expected a name other than all, next, tor, leaf1, leaf2, spine1 or spine2',
  ],
  [
    "a start of the living",
    withLines("faults: [{ at: 1us, start: b }]"),
    "3: faults[0].start: found start of b, which is alive, expected a kill before it",
  ],
  [
    "a card's start without power",
    withLines("faults:", "  - { at: 1us, kill: b }", "  - { at: 2us, start: b-rnic }"),
    "5: faults[1].start: found start of an RNIC without power, expected a living host: b is killed at 1 us",
  ],
  [
    "two faults of a machine at one time",
    withLines("faults:", "  - { at: 1us, kill: b-rnic }", "  - { at: 1us, kill: b }"),
    "5: faults[1].at: found 1 us, expected another time than the fault of b before",
  ],
  [
    "a fault after the end",
    withLines("until: 1us", "faults: [{ at: 1us, kill: b }]"),
    "4: faults[0].at: found 1 us, expected a time before until, 1 us",
  ],
  [
    "an end at 0",
    withLines("until: 0"),
    "3: until: found 0, expected a time > 0 with its unit, like 1ms",
  ],
  [
    "an unknown expectation",
    withLines("expect: [survive-what-was-reported]"),
    '3: expect[0]: found "survive-what-was-reported", expected survives-what-was-reported',
  ],
  [
    "overlapping regions",
    hostWith("{ scm: { regions: { x: { at: 0, size: 8KiB }, y: { at: 4KiB, size: 64 } } } }"),
    "4: hosts.b.scm.regions.y: found a region from 4 KiB on, expected a region from 8 KiB on, where x ends",
  ],
  [
    "a region out of size",
    hostWith("{ scm: { size: 4KiB, regions: { x: { at: 4032, size: 128 } } } }"),
    "4: hosts.b.scm.regions.x: found a region that ends at 4160 B, expected an end within the SCM's 4 KiB",
  ],
  [
    "more DDIO ways than ways",
    hostWith("{ llc: { ways: 11, ddioWays: 12 } }"),
    "4: hosts.b.llc.ddioWays: found 12, expected at most 11, the LLC's ways",
  ],
  [
    "an LLC that is no whole number of sets",
    hostWith("{ llc: { size: 64KiB } }"),
    "4: hosts.b.llc.size: found 64 KiB, expected a multiple of 704 B, a line in each of 11 ways",
  ],
  [
    "more queues than fit",
    hostWith("{ queues: 8192, dram: 1MiB }"),
    "4: hosts.b.queues: found 8192, expected at most 4096 with this DRAM",
  ],
  [
    "an eviction of more than there is",
    hostWith("{ queueCache: { entries: 2, evict: several-oldest, count: 3 } }"),
    "4: hosts.b.queueCache.count: found 3, expected at most 2, the cache's entries",
  ],
  [
    "a timing by its field's name",
    hostWith("{ timing: { rnic: { sendP: 1ns } } }"),
    "4: hosts.b.timing.rnic.sendP: found an unknown key, expected send",
  ],
  [
    "a time without unit",
    hostWith("{ timing: { host: { iio: 5 } } }"),
    "4: hosts.b.timing.host.iio: found 5, expected a time with its unit, like 300ns",
  ],
  [
    "a queue that the IIO overfills",
    hostWith("{ timing: { host: { wpqLines: 4 } } }"),
    "4: hosts.b.timing.host.wpqLines: found 4, expected at least 5, more than the IIO moves at once",
  ],
  ["an empty file", "", "1: found nothing, expected a mapping with name and hosts"],
];

describe("parseScenario refuses, with line and expectation,", () => {
  for (const [name, text, message] of WRONG) {
    it(name, () => assert.deepEqual(messages(text), [message]));
  }
});
