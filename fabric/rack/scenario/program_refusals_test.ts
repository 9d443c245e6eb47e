/** What is wrong with a program of a scenario. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { messages, type Refusal, withLines } from "./scenario_testing.ts";

const WRONG: readonly Refusal[] = [
  [
    "a number without quotes in a native program's command",
    withLines("programs: [{ on: b, native: [ib_write_lat, -x, 1] }]"),
    '3: programs[0].native[2]: found 1, expected a text, a number in quotes, like "100"',
  ],
  [
    "a native program without a command",
    withLines("programs: [{ on: b, native: [] }]"),
    '3: programs[0].native: found an empty list, expected a list of a program and its arguments, like [ib_write_lat, -x, "1"]',
  ],
  [
    "an option that a native program has not",
    withLines("programs: [{ on: b, native: [ib_write_lat], nic: 2 }]"),
    "3: programs[0].nic: found an unknown key, expected on, native, recover, env, at, restart, service, privileged or weight",
  ],
  [
    "a native program by the name of a shipped one",
    withLines("programs: [{ on: b, native: [put] }]"),
    `3: programs[0].native[0]: found "put", the name of a shipped program, expected the binary's path`,
  ],
  [
    "a program in TypeScript as a native one",
    withLines("programs: [{ on: b, native: [./x.ts] }]"),
    '3: programs[0].native[0]: found "./x.ts", a program in TypeScript, expected a binary, or program: for this one',
  ],
  [
    "a recovery without a command",
    withLines("programs: [{ on: b, native: [x], recover: [] }]"),
    '3: programs[0].recover: found an empty list, expected a list of a program and its arguments, like [ib_write_lat, -x, "1"]',
  ],
  [
    "a recovery in TypeScript",
    withLines("programs: [{ on: b, native: [x], recover: [./x.ts] }]"),
    '3: programs[0].recover[0]: found "./x.ts", a program in TypeScript, expected a binary, or program: for this one',
  ],
  [
    "two recoveries of a host",
    withLines(
      "programs: [{ on: all, native: [x], recover: [y] }, { on: b, native: [x], recover: [z] }]",
    ),
    "3: programs[1].recover: found a second recovery of b, expected one recovery for each host, that has SCM",
  ],
  [
    "the rack's own variable in a native program's environment",
    withLines("programs: [{ on: b, native: [x], env: { LD_PRELOAD: y } }]"),
    `3: programs[0].env.LD_PRELOAD: found "y", expected another variable, as this one is the rack's own`,
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
    "a peer without the service that it asks",
    "name: x\nhosts: { a: , b: { services: none } }\nprograms: [{ on: a, run: put, to: b }]",
    '3: programs[0].to: found "b", expected a host with the service persistd, which b has not',
  ],
  [
    "one of several copies without a service",
    "name: x\nhosts: { a: , b: , c: { services: none } }\n" +
    "programs: [{ on: a, run: log, to: [b, c], bytes: 4KiB, record: 1KiB }]",
    '3: programs[0].to[1]: found "c", expected a host with the service persistd, which c has not',
  ],
  [
    "a next host without a service, as it has a native program",
    "name: x\nhosts: { a: , b: }\n" +
    "programs: [{ on: b, native: [x] }, { on: a, run: get, from: next, name: y }]",
    '3: programs[1].from: found "next", expected a host with the service persistd, which b has not: it has a native program',
  ],
  [
    "an RNIC as its own host's peer",
    "name: x\nhosts: { a: { nics: 2 }, b: }\nprograms: [{ on: a, run: get, from: a-rnic2, name: x }]",
    '3: programs[0].from: found "a-rnic2", expected another host than the one it runs on',
  ],
  [
    "an RNIC that a host has not",
    "name: x\nhosts: { a: , b: { nics: 2 } }\nprograms: [{ on: a, run: list, from: b-rnic3 }]",
    '3: programs[0].from: found "b-rnic3", expected b-rnic2, a host',
  ],
  [
    "the second RNIC of a host with one",
    "name: x\nhosts: { a: { nics: 2 }, b: }\nprograms: [{ on: all, run: list, from: next, nic: 2 }]",
    "3: programs[0].nic: found 2, expected 1, as b has one RNIC",
  ],
  [
    "the third RNIC of a host with two",
    "name: x\nhosts: { a: { nics: 2 }, b: }\nprograms: [{ on: a, run: list, from: b, nic: 3 }]",
    "3: programs[0].nic: found 3, expected 1 to 2, as a has 2 RNICs",
  ],
  [
    "next of a lone host",
    "name: x\nhosts: { a: }\nprograms: [{ on: a, run: put, to: next }]",
    '3: programs[0].to: found "next", expected a second host to be next',
  ],
  [
    "a log's quorum of 0 of three",
    "name: x\nhosts: { a: , b: , c: , d: }\nprograms: [{ on: a, run: log, to: [b, c, d], quorum: 0 }]",
    "3: programs[0].quorum: found 0, expected a whole number ≥ 1, below 2^53",
  ],
  [
    "a log's quorum of 1 of three",
    "name: x\nhosts: { a: , b: , c: , d: }\nprograms: [{ on: a, run: log, to: [b, c, d], quorum: 1 }]",
    "3: programs[0].quorum: found 1, expected 2 to 3, more than half of the 3 hosts",
  ],
  [
    "a log's quorum of 4 of three",
    "name: x\nhosts: { a: , b: , c: , d: }\nprograms: [{ on: a, run: log, to: [b, c, d], quorum: 4 }]",
    "3: programs[0].quorum: found 4, expected 2 to 3, more than half of the 3 hosts",
  ],
  [
    "half of a log's replicas",
    "name: x\nhosts: { a: , b: , c: }\nprograms: [{ on: a, run: log-read, from: [b, c], quorum: 1 }]",
    "3: programs[0].quorum: found 1, expected 2, more than half of the 2 hosts",
  ],
  [
    "a log's replicas on two RNICs of one host",
    "name: x\nhosts: { a: , b: { nics: 2 }, c: }\nprograms: [{ on: a, run: log, to: [b, c, b-rnic2] }]",
    '3: programs[0].to[2]: found "b-rnic2": the same host as "b", expected each host once',
  ],
  [
    "more queue pairs than there are numbers for",
    withLines("programs: [{ on: a, run: many-queues, to: b, qps: [1, 65537] }]"),
    "3: programs[0].qps: found a list, expected a number of queue pairs from 1 to 65536, or a list of different ones",
  ],
  [
    "a number of queue pairs twice",
    withLines("programs: [{ on: a, run: many-queues, to: b, qps: [4, 4] }]"),
    "3: programs[0].qps: found a list, expected a number of queue pairs from 1 to 65536, or a list of different ones",
  ],
  [
    "an unknown order of queue pairs",
    withLines("programs: [{ on: a, run: many-queues, to: b, order: sorted }]"),
    '3: programs[0].order: found "sorted", expected round-robin, random or zipf',
  ],
  [
    "an unknown program",
    withLines("programs: [{ on: a, run: putt, to: b }]"),
    '3: programs[0].run: found "putt", expected put',
  ],
  [
    "no program",
    withLines("programs: [{ on: a, programm: ./mine.ts }]"),
    "3: programs[0].run: found nothing, expected a shipped program's name, or in its place program: with the path of your own, or native: with a command",
  ],
  [
    "a missing option",
    withLines("programs: [{ on: a, run: put }]"),
    "3: programs[0].to: found nothing, expected a text",
  ],
  [
    "an option of another program",
    withLines("programs: [{ on: a, run: list, from: b, dept: 1 }]"),
    "3: programs[0].dept: found an unknown key, expected on, run, at, restart, service, privileged, weight, nic, from, completion, attempts, pause or idle",
  ],
  [
    "a privilege of some kind",
    withLines("programs: [{ on: a, run: put, to: b, privileged: root }]"),
    '3: programs[0].privileged: found "root", expected true or false',
  ],
  [
    "a weight of nothing",
    withLines("programs: [{ on: a, run: put, to: b, weight: 0 }]"),
    "3: programs[0].weight: found 0, expected a whole number from 1 to 255",
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
    "3: programs[0].size: found 7, expected a size from 8 B to 1 MiB, like 4KiB",
  ],
  [
    "a message above 1 MiB",
    withLines("programs: [{ on: a, run: put, to: b, size: 2MiB }]"),
    '3: programs[0].size: found "2MiB", expected a size from 8 B to 1 MiB, like 4KiB',
  ],
  [
    "programs that vary methods differently",
    withLines(
      "programs:",
      "  - { on: a, run: put, to: b, method: [write-read, write-send] }",
      "  - { on: b, run: put, to: a, method: all }",
    ),
    "5: programs[1].method: found write-only, write-read, send-flush, write-send, write-flush, persist-opcode, persist-address, send-read, librpma-apm, emulated-flush, write-imm, write-imm-flush, librpma-gpspm, write-send-workers, expected write-read, write-send, as above",
  ],
  [
    "V-04: a level that there is not",
    withLines("programs: [{ on: a, run: put, to: b, method: write-verify, level: crc }]"),
    '3: programs[0].level: found "crc", expected none, check, verify, verify-crc, read-back or crc-after',
  ],
  [
    "V-01: a method that only put has",
    withLines("programs: [{ on: a, run: append, to: b, method: write-verify }]"),
    '3: programs[0].method: found "write-verify", expected write-only, write-read, send-flush, write-send, write-flush, persist-opcode, persist-address, send-read, librpma-apm, emulated-flush, write-imm, write-imm-flush, librpma-gpspm or write-send-workers',
  ],
];

describe("parseScenario refuses, with line and expectation,", () => {
  for (const [name, text, message] of WRONG) {
    it(name, () => assert.deepEqual(messages(text), [message]));
  }
});
