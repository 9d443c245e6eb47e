/** What is wrong with a scenario, but for its programs (`program_refusals_test.ts`) and faults. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { hostWith, messages, type Refusal, withLines } from "./scenario_testing.ts";

const WRONG: readonly Refusal[] = [
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
    "C-01: a version of RoCE that there is not",
    withLines("fabric: { roce: v3 }"),
    '3: fabric.roce: found "v3", expected v1 or v2',
  ],
  [
    "C-01: marks of congestion without an IP header, once for each that asks for them",
    withLines("fabric: { roce: v1, ecn: on, dcqcn: on, pfc: on }"),
    "3: fabric.ecn: found on, expected off, as the card of a speaks RoCEv1, which has no IP header to mark: use pfc",
    "3: fabric.dcqcn: found on, expected off, as the card of a speaks RoCEv1, which has no IP header to mark: use pfc",
  ],
  [
    "C-01: marks of congestion with one such card",
    "name: x\nhosts:\n  a: {}\n  b: { roce: v1 }\nfabric: { ecn: on }\n",
    "5: fabric.ecn: found on, expected off, as the card of b speaks RoCEv1, which has no IP header to mark: use pfc",
  ],
  [
    "C-01: two versions on one cable",
    "name: x\nfabric: { topology: direct }\nhosts:\n  a: { roce: v1 }\n  b: {}\n",
    "5: hosts.b: found RoCEv2 at b, expected v1, as the card of a at the other end of the cable",
  ],
  [
    "C-01: a program between cards of two versions",
    hostWith("{ roce: v1 }") + "programs: [{ on: a, run: put, to: b, bytes: 64 }]",
    '5: programs[0].to: found "b": the card of b speaks RoCEv1, expected a host whose card speaks RoCEv2, as that of a',
  ],
  [
    "C-01: each host's next one, of which two speak another version",
    "name: x\nfabric: { roce: v1 }\nhosts: { a: {}, b: {}, c: { roce: v2 } }\n" +
    "programs: [{ on: all, run: put, to: next, bytes: 64 }]",
    '4: programs[0].to: found "next": the card of c speaks RoCEv2, expected a host whose card speaks RoCEv1, as that of b',
    '4: programs[0].to: found "next": the card of a speaks RoCEv1, expected a host whose card speaks RoCEv2, as that of c',
  ],
  [
    "H-04: a kind of hint that there is not",
    hostWith("{ hints: { kinds: [prefetch, postfetch] } }"),
    "4: hosts.b.hints.kinds: found a list, expected a list of prefetch, warm-up, receive or atomic, each once",
  ],
  [
    "H-06: a request that goes before its hint",
    hostWith("{ hints: { send: 0us } }"),
    '4: hosts.b.hints.send: found "0us", expected at-once, agreed, after-ack, or a time > 0 with its unit, like 1us',
  ],
  [
    "H-02: a batch beyond what is looked ahead",
    hostWith("{ hints: { depth: 4, batch: 8 } }"),
    "4: hosts.b.hints.batch: found 8, expected at most 4, the depth",
  ],
  [
    "H-02: a batch of nothing",
    hostWith("{ hints: { batch: 0 } }"),
    "4: hosts.b.hints.batch: found 0, expected adaptive, or a whole number from 1 to 64",
  ],
  [
    "H-02: a back-off that there is not",
    hostWith("{ hints: { backOff: 8 } }"),
    "4: hosts.b.hints.backOff: found 8, expected on or off",
  ],
  [
    "H-07 × H-08: hints that cannot go that way",
    hostWith("{ hints: { encoding: flagged, transport: carrier } }"),
    "4: hosts.b.hints.transport: found carrier, of hints that are flagged, expected another transport, as a READ or WRITE of no bytes names no other queue pair",
  ],
  [
    "H-07 × H-08: hints in other packets, to a group",
    hostWith("{ hints: { encoding: header, transport: trusted } }"),
    "4: hosts.b.hints.transport: found trusted, of hints that are header, expected another transport, as a hint to a group is a datagram of its own, as each other takes a receive",
  ],
  [
    "H-07: an encoding that there is not",
    hostWith("{ hints: { encoding: morse } }"),
    '4: hosts.b.hints.encoding: found "morse", expected opcode, header, payload or flagged',
  ],
  [
    "[0114]: work of hints where it cannot be done",
    hostWith("{ hints: { work: { map: firmware } } }"),
    "4: hosts.b.hints.work.map: found firmware, expected another place, as pages are the kernel's, or the hypervisor's behind it",
  ],
  [
    "[0114]: work of hints by an IOMMU that is not there",
    hostWith("{ hints: { work: iommu } }"),
    "4: hosts.b.hints.work.request: found iommu, expected another place, as the host has no IOMMU",
  ],
  [
    "[0114]: work of hints by somebody else",
    hostWith("{ hints: { work: magic } }"),
    '4: hosts.b.hints.work: found "magic", expected hardware, firmware, iommu, driver, hypervisor or a mapping',
  ],
  [
    "hints neither on nor off",
    hostWith("{ hints: maybe }"),
    '4: hosts.b.hints: found "maybe", expected on, off or a mapping with queuePairs, kinds, depth or batch …',
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
  [
    "more memory than the LLC has tags for",
    hostWith("{ dram: 64GiB, scm: { size: 64GiB } }"),
    "4: hosts.b.scm: found 64 GiB of SCM beside 64 GiB of DRAM, expected less than 128 GiB together",
  ],
  [
    "an object's name that is a folder's",
    "name: x\nhosts: { a: , b: }\nprograms: [{ on: a, run: get, from: b, name: .. }]",
    `3: programs[0].name: found "..", expected an object's name of 1 to 96 bytes without control characters, and not "." or ".."`,
  ],
  [
    "an object's name that is too long for the directory",
    `name: x\nhosts: { a: , b: }\nprograms: [{ on: a, run: put, to: b, name: ${"x".repeat(97)} }]`,
    `3: programs[0].name: found "${
      "x".repeat(76)
    }…", expected an object's name of 1 to 96 bytes without control characters, and not "." or ".."`,
  ],
  [
    "a negative seed",
    withLines("seed: -1"),
    "3: seed: found -1, expected a whole number ≥ 0, below 2^53",
  ],
  [
    "a seed beyond exact numbers",
    withLines("seed: 9007199254740993"),
    "3: seed: found 9007199254740992, expected a whole number ≥ 0, below 2^53",
  ],
  [
    "a missing name",
    "hosts: { a: {} }",
    "1: name: found nothing, expected a name of letters, digits and '-', at most 40",
  ],
  ["no hosts", "name: x\nhosts: {}", "2: hosts: found 0 hosts, expected 1 to 65534 hosts"],
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
    '2: hosts.a-rnic: found "a-rnic", expected a name that does not end in -rnic, -rnic2 and so on, as RNICs\' names do',
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
    "V-05: a threshold of 100%",
    hostWith("{ verifyHistory: { threshold: 100% } }"),
    '4: hosts.b.verifyHistory.threshold: found "100%", expected a share below 100%, like 99.9%',
  ],
  [
    "V-05: a history without samples",
    hostWith("{ verifyHistory: { samples: 0 } }"),
    "4: hosts.b.verifyHistory.samples: found 0, expected a whole number from 1 to 65536",
  ],
  [
    "leaves of a star",
    withLines("fabric: { leaves: 2 }"),
    "3: fabric.leaves: found leaves of a star, expected it with topology: leaf-spine",
  ],
  [
    "a coherent bus that no host is on",
    "name: x\nfabric: { coherentBus: { latency: 20ns } }\nhosts: { a: {}, b: {} }",
    "2: fabric.coherentBus: found a coherent bus, and no host on it, expected at least one host " +
    "with attach: coherent",
  ],
  [
    "an attachment that is none",
    "name: x\nhosts: { a: { attach: qpi }, b: {} }",
    '2: hosts.a.attach: found "qpi", expected pcie or coherent',
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
    "Q-05: a field in a space that may not hold it",
    hostWith("{ queues: { placement: { hostPointer: 2, depth: 3 } } }"),
    "4: hosts.b.queues.placement.hostPointer: found 2, expected 3, the only space for it",
    "4: hosts.b.queues.placement.depth: found 3, expected 1 or 2",
  ],
  [
    "Q-05: a placement by no name",
    hostWith("{ queues: { placement: both-in-2 } }"),
    '4: hosts.b.queues.placement: found "both-in-2", expected default, pointer-in-3, both-in-3 or a mapping',
  ],
  [
    "Q-10: a pointer in doorbells of the classic scheme",
    hostWith("{ queues: { scheme: classic, doorbell: { carries: pointer } } }"),
    "4: hosts.b.queues.doorbell.carries: found pointer, expected number, as the classic scheme has no pointer in its doorbells",
  ],
  [
    "Q-07: two ways of eviction",
    hostWith("{ queues: { cache: { evict: { oldest: 2, random: 2 } } } }"),
    "4: hosts.b.queues.cache.evict: found a mapping, expected one of oldest, olderThan and random",
  ],
  [
    "Q-07: an eviction of more than the cache has",
    hostWith("{ queues: { cache: { entries: 2, evict: { random: 3 } } } }"),
    "4: hosts.b.queues.cache: found a mapping, expected an eviction of at most 2, the cache's entries",
  ],
  [
    "too few queues",
    hostWith("{ queues: 4 }"),
    "4: hosts.b.queues: found 4, expected a whole number from 8 to 262144 or a mapping",
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
  for (const [name, text, ...expected] of WRONG) {
    it(name, () => assert.deepEqual(messages(text), expected));
  }
});
