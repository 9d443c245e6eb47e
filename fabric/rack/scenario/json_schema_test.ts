/** The JSON schema against the reader: what one refuses for its shape, the other refuses as well. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Ajv } from "ajv";
import { METHODS, PROGRAMS } from "../plan/vocabulary.ts";
import { scenarioJsonSchema } from "./json_schema.ts";
import { FILE, hostWith, messages, withLines } from "./scenario_testing.ts";
import { readYaml } from "./yaml_source.ts";

const schema = scenarioJsonSchema();
// Of draft 7 alone, and no keyword that is none: `required` may name keys of a branch.
const isValid = new Ajv({ strict: true, strictTypes: false, strictRequired: false }).compile(
  schema,
);

function schemaTakes(text: string): boolean {
  return isValid(readYaml(text, FILE).source.data);
}

const PUT = "programs: [{ on: a, run: put, to: b";

const RIGHT: readonly string[] = [
  withLines(),
  withLines("seed: 0", "profile: clx-optane-cx5", "until: 1.5ms"),
  withLines("fabric:", "defaults:", "capture:", "programs:", "faults:", "expect:"),
  withLines("fabric: { rate: 100Gbps, latency: 25ns, mtu: 1024, ecn: on, pfc: off, dcqcn: {} }"),
  withLines("fabric: { ecn: { kmin: 100KiB, kmax: 400KiB, pmax: 0.2 } }"),
  withLines("fabric: { topology: leaf-spine, leaves: 2, spines: 2, convergence: 0 }"),
  withLines("fabric: { pfc: on, priorities: { dscp: 26, cnp: 48, lossless: [3] } }"),
  hostWith(
    "{ ddio: both, domain: eadr, scm: { size: 64MiB, regions: { log: { at: 0, size: 64 } } } }",
  ),
  hostWith("{ scm: { size: 67108864 }, dram: 1GiB, cores: 4, completion: interrupt }"),
  hostWith("{ verifyHistory: { threshold: 99.9%, samples: 64 }, services: none }"),
  hostWith("{ timing: { host: { iio: 110ns, scmWriteRate: 100Gbps }, rnic: { receive: 0 } } }"),
  hostWith("{ queues: 64 }"),
  withLines("fabric: { roce: v1, pfc: on }"),
  hostWith("{ roce: v1 }"),
  hostWith("{ queues: { scheme: classic, doorbell: { form: message } } }"),
  hostWith("{ queues: { count: 64, placement: both-in-3, layout: record, cache: none } }"),
  hostWith("{ queues: { placement: { depth: 1 }, cache: { entries: 4, evict: { random: 2 } } } }"),
  hostWith("{ queues: { cache: { evict: oldest } } }"),
  hostWith("{ hints: on }"),
  hostWith(
    "{ hints: { depth: 64, batch: adaptive, send: after-ack, kinds: [prefetch, warm-up] } }",
  ),
  hostWith("{ hints: { send: agreed, interval: 1us, waits: { prefetch: 30us, atomic: 1us } } }"),
  hostWith("{ hints: { queuePairs: asked, send: 1us, patience: 1ms, quota: 8, quotaTime: 1ms } }"),
  "name: x\nhosts: { h08..h11: {}, a: { leaf: 1 } }\nfabric: { topology: leaf-spine }\n",
  withLines(`${PUT}, method: all, depth: 16, size: 4KiB, at: 0 }]`),
  withLines(`${PUT}, method: [write-read, persist-opcode], bytes: 1MiB, restart: true }]`),
  withLines("programs: [{ on: [a, b], program: ./mine.ts, anything: [its, own], at: 200us }]"),
  withLines("programs: [{ on: all, run: put, to: next, bytes: 64, idle: 200us, inline: false }]"),
  withLines("programs: [{ on: a, run: log, to: [b], bytes: 4KiB, anew: true }]"),
  withLines('programs: [{ on: all, native: [./x, "1"], at: 1ms, env: { A: b }, restart: true }]'),
  withLines("programs: [{ on: b, program: ./x.ts, native: true, env: 3 }]"),
  withLines("faults: [{ at: 40us, kill: b }, { at: 60us, start: b }]"),
  withLines("faults: [{ at: 40us, cut: a-rnic/tor }, { at: 60us, heal: a-rnic/tor }]"),
  withLines('faults: [{ link: a, loss: 1%, from: 10us, until: 2ms, only: "RC ACKNOWLEDGE" }]'),
  withLines('faults: [{ link: a, loss: 99.9 % }, { link: b, loss: "0.01", from: 1us }]'),
  withLines("faults: [{ link: a, loss: 0.01 }, { link: b, corrupt: all, nth: 3, past: icrc }]"),
  withLines("faults: [{ link: a, delay: 5us, jitter: 1us, share: 10%, only: RC RDMA WRITE }]"),
  withLines("faults: [{ link: a, reorder: 5%, by: 3, hold: 100us, only: response }]"),
  withLines(
    "faults: [{ rnic: b, flip: 1%, where: bus }, { scm: b, stuck: 4096, bit: 3, value: 0 }]",
  ),
  withLines("expect: [survives-what-was-reported]", "capture: { pcap: true, perfetto: ./t.json }"),
];

const WRONG: readonly string[] = [
  withLines("programs: [{ on: b, native: [ib_write_lat, -x, 1] }]"),
  withLines("programs: [{ on: b, native: [] }]"),
  withLines("programs: [{ on: b, native: [x], nic: 2 }]"),
  withLines("fabric: { roce: 1 }"),
  hostWith("{ roce: v3 }"),
  "hosts: { a: {}, b: {} }",
  "name: x",
  "name: x\nhosts: {}",
  "name: x\nhosts: [a, b]",
  "name: x y\nhosts: { a: {} }",
  "name: x\nhosts: { a_b: {} }",
  withLines("sede: 7"),
  withLines("seed: -1"),
  withLines("seed: 1.5"),
  withLines("seed: null"),
  withLines("profile: clx"),
  withLines("until: 0"),
  withLines("until: 5"),
  withLines("fabric: { mtu: 1500 }"),
  withLines("fabric: { mtu: '4096' }"),
  withLines("fabric: { topology: ring }"),
  withLines("fabric: { latency: 0ns }"),
  withLines("fabric: { rate: 100 }"),
  withLines("fabric: { rate: 100 Gbit/s }"),
  withLines("fabric: { ecn: yes }"),
  withLines("fabric: { ecn: { pmax: 2 } }"),
  withLines("fabric: { switch: { mode: fast } }"),
  withLines("fabric: { priorities: { lossless: 3 } }"),
  withLines("fabric: { priorities: { lossless: [8] } }"),
  hostWith("{ ddio: offf }"),
  hostWith("{ ddoi: on }"),
  hostWith("{ queues: 4 }"),
  hostWith("{ queues: { placement: { depth: 3 } } }"),
  hostWith("{ queues: { layout: rows } }"),
  hostWith("{ queues: { scheme: four-space } }"),
  hostWith("{ hints: yes }"),
  hostWith("{ hints: { kinds: [] } }"),
  hostWith("{ hints: { kinds: [prefetch, prefetch] } }"),
  hostWith("{ hints: { send: later } }"),
  hostWith("{ hints: { waits: { prefetch: 0us } } }"),
  hostWith("{ hints: { batch: 65 } }"),
  hostWith("{ hints: { backOff: never } }"),
  hostWith("{ hints: { encoding: morse } }"),
  hostWith("{ scm: 64MiB }"),
  hostWith("{ scm: { size: 64 MB } }"),
  hostWith("{ scm: { size: 100 } }"),
  hostWith("{ scm: { regions: { log: { at: 0 } } } }"),
  hostWith("{ cores: 65 }"),
  hostWith("{ verifyHistory: { threshold: 100% } }"),
  hostWith("{ timing: { host: { iio: 110 } } }"),
  hostWith("{ timing: { host: { scmWriteRate: 5ns } } }"),
  hostWith("{ timing: { host: { ioi: 5ns } } }"),
  withLines("programs: { on: a, run: put }"),
  withLines("programs: [{ run: put, to: b }]"),
  withLines("programs: [{ on: a, to: b }]"),
  withLines("programs: [{ on: a, run: putt, to: b }]"),
  withLines("programs: [{ on: a, program: putt, to: b }]"),
  withLines("programs: [{ on: a, run: my_protocol.ts }]"),
  withLines("programs: [{ on: [], run: put, to: b }]"),
  withLines("programs: [{ on: a, run: put, bytes: 64 }]"),
  withLines("programs: [{ on: a, run: put, program: put, to: b }]"),
  withLines(`${PUT}, method: persist }]`),
  withLines(`${PUT}, method: [] }]`),
  withLines(`${PUT}, method: [write-read, write-read] }]`),
  withLines(`${PUT}, depth: 257 }]`),
  withLines(`${PUT}, size: 4 }]`),
  withLines(`${PUT}, inline: 1 }]`),
  withLines(`${PUT}, records: 5 }]`),
  withLines(`${PUT}, at: -1us }]`),
  withLines(`${PUT}, restart: once }]`),
  withLines("programs: [{ on: a, run: append, to: b, method: write-verify }]"),
  withLines("faults: [{ at: 40us }]"),
  withLines("faults: [{ at: 0, kill: b }]"),
  withLines("faults: [{ kill: b }]"),
  withLines("faults: [{ at: 40us, kill: a, start: b }]"),
  withLines("faults: [{ at: 40us, cut: a-rnic/tor, heal: a-rnic/tor }]"),
  withLines("faults: [{ link: a, from: 1us }]"),
  withLines("faults: [{ link: a, loss: 1%, corrupt: 1% }]"),
  withLines("faults: [{ link: a, loss: 0 }]"),
  withLines("faults: [{ link: a, loss: 101% }]"),
  withLines("faults: [{ link: a, loss: 1%, jitter: 5us }]"),
  withLines("faults: [{ link: a, loss: 1%, only: RC ACK }]"),
  withLines("faults: [{ loss: 1%, from: 5us }]"),
  withLines("faults: [{ rnic: b, flip: 1%, where: cable }]"),
  withLines("faults: [{ scm: b, stuck: 4096, bit: 8 }]"),
  withLines("faults: { at: 40us, kill: b }"),
  withLines("expect: survives-what-was-reported"),
  withLines("expect: [survives]"),
  withLines("capture: { pcap: false }"),
  withLines("capture: { pcpa: true }"),
];

describe("scenarioJsonSchema", () => {
  for (const text of RIGHT) {
    it(`takes, as the reader does: ${text.replaceAll("\n", " | ")}`, () => {
      assert.deepEqual(messages(text), []);
      assert.ok(schemaTakes(text), JSON.stringify(isValid.errors));
    });
  }

  for (const text of WRONG) {
    it(`refuses, as the reader does: ${text.replaceAll("\n", " | ")}`, () => {
      assert.notDeepEqual(messages(text), []);
      assert.ok(!schemaTakes(text));
    });
  }

  it("describes every key", () => {
    const nameless: string[] = [];
    visit(schema, "", (key, property) => {
      if (property !== true && described(property) === undefined) nameless.push(key);
    });
    assert.deepEqual(nameless, []);
  });

  it("offers methods, programs and their options", () => {
    const { properties } = schema as Record<string, Record<string, unknown>>;
    const text = JSON.stringify(properties!["programs"]);
    for (const word of ["all", ...METHODS, ...Object.keys(PROGRAMS), "quorum", "record"]) {
      assert.ok(text.includes(`"${word}"`), word);
    }
  });
});

/** Each key of each mapping in a schema. */
function visit(shape: unknown, path: string, see: (key: string, property: unknown) => void): void {
  if (typeof shape !== "object" || shape === null) return;
  for (const [key, value] of Object.entries(shape)) {
    const isBranch = path.endsWith("/if") || path.includes("/if/");
    if (key === "properties" && !isBranch) {
      for (const [name, property] of Object.entries(value)) see(`${path}/${name}`, property);
    }
    visit(value, `${path}/${key}`, see);
  }
}

function described(property: unknown): unknown {
  return (property as Readonly<Record<string, unknown>>)["description"];
}
