/**
 * Several requesters at one responder whose power is cut, two of which replace one object; and every method at
 * hosts in which other things are volatile than in an ordinary one. Over the whole rack.
 */
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Method } from "../../nodes/host/programs/common/persist_protocol.ts";
import { withReceived } from "../../console/checks/received.ts";
import { type FoundEntry, objectsIn } from "../../console/checks/scm_objects.ts";
import { firstLoss, isIntact, isPutResult, type PutResult } from "../../console/checks/survival.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** Bytes of which none is 0, and none is in the same place of another's. */
function contentOf(bytes: number, salt: number): Uint8Array {
  return Uint8Array.from({ length: bytes }, (_, i) => ((i * 31 + (i >> 8)) % 80) * 3 + 1 + salt);
}

interface Writer {
  readonly on: string;
  readonly method: Method;
  /** Name of the object, and of the file: which content it is. */
  readonly object: string;
  readonly file: string;
}

interface Run {
  readonly host: string;
  readonly writers: readonly Writer[];
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly faults?: string;
}

function run({ host, writers, files, faults = "[]" }: Run): SimulatedRack {
  const names = [...new Set(["b", ...writers.map(({ on }) => on)])];
  const hosts = names.map((on) => on === "b" ? `b: { ${host}, scm: { size: 2MiB } }` : `${on}: {}`);
  const programs = writers.map(({ on, method, object, file }) =>
    `  - { on: ${on}, run: put, to: b, file: ${file}, name: ${object}, method: ${method}, ` +
    `size: 1000, depth: 4 }`
  );
  const rack = new SimulatedRack(
    `
name: several-requesters
seed: 7
hosts: { ${hosts.join(", ")} }
programs:
${programs.join("\n")}
faults: ${faults}
`,
    { inputs: files },
  ).run();
  assert.deepEqual(rack.reported("program-failed"), []);
  return rack;
}

function putsOf(rack: SimulatedRack): PutResult[] {
  return (rack.reported("result") as readonly unknown[]).filter(isPutResult);
}

/** What b's next life finds in the object's place. */
function survivorOf(rack: SimulatedRack, { object }: PutResult): Uint8Array {
  const scm = rack.scm.get("b")!;
  const image = { read: (from: number, to: number) => scm.subarray(from, to) };
  const { scmOffset, length } = object;
  return withReceived(rack.plan, { host: "b", image }).read(scmOffset, scmOffset + length);
}

/** What b's next life finds under the name. */
function objectIn(rack: SimulatedRack, name: string): FoundEntry | undefined {
  const scm = rack.scm.get("b")!;
  const object = objectsIn({ read: (from, to) => scm.subarray(from, to) }, scm.length).get(name);
  assert.ok(object === undefined || object.state === "complete");
  return object;
}

/** Cuts b's power at so many instants from when all have begun to the last completion. */
function* cuts(of: Run, count: number): Generator<SimulatedRack> {
  const puts = putsOf(run(of));
  const from = Math.max(...puts.map(({ startPs }) => startPs));
  const to = Math.max(...puts.map(({ endPs }) => endPs));
  for (let i = 0; i < count; i++) {
    const at = Math.round(from + (to - from) * (i + 0.5) / count);
    yield run({ ...of, faults: `[{ at: ${at}ps, kill: b }]` });
  }
}

const BYTES = 10_000;
const FILES = { one: contentOf(BYTES, 0), two: contentOf(BYTES, 1), three: contentOf(BYTES, 2) };
type FileName = keyof typeof FILES;

function contentAt(file: string): Uint8Array {
  return FILES[file as FileName];
}

describe("several requesters at one responder", () => {
  const mixes: readonly [host: string, methods: readonly Method[]][] = [
    ["ddio: off", ["persist-opcode", "write-read", "write-flush"]],
    ["ddio: on", ["persist-address", "write-send", "send-flush"]],
  ];
  for (const [host, methods] of mixes) {
    it(`P-30, P-41: ${host}: what each of three was told survives, at any of 12 instants`, () => {
      const files = Object.keys(FILES) as FileName[];
      const writers = ["a", "c", "d"].map((on, i): Writer => {
        return { on, method: methods[i]!, object: `of-${on}`, file: files[i]! };
      });
      const told = new Map<string, number>();
      for (const rack of cuts({ host, writers, files: FILES }, 12)) {
        const puts = putsOf(rack);
        assert.equal(puts.length, 3);
        for (const put of puts) {
          const file = contentAt(put.file), survived = survivorOf(rack, put);
          assert.equal(firstLoss(put, file, survived), undefined, put.method);
          told.set(put.method, (told.get(put.method) ?? 0) + put.confirmedMessages);
        }
      }
      for (const method of methods) {
        assert.ok(told.get(method)! > 0, `${method} was told something`);
      }
    });
  }
});

describe("two requesters that replace the same object", () => {
  const pairs: readonly [host: string, methods: readonly [Method, Method]][] = [
    ["ddio: off", ["write-read", "persist-opcode"]],
    ["ddio: on", ["persist-address", "send-flush"]],
    ["ddio: on", ["write-flush", "write-send"]],
  ];
  for (const [host, [first, second]] of pairs) {
    it(`P-41: ${host}, ${first} and ${second}: it is one's as a whole, the last that was stored`, () => {
      const writers: Writer[] = [
        { on: "a", method: first, object: "shared", file: "one" },
        { on: "c", method: second, object: "shared", file: "two" },
      ];
      const found = new Set<string>();
      const whole = run({ host, writers, files: FILES });
      for (const rack of [...cuts({ host, writers, files: FILES }, 8), whole]) {
        const puts = putsOf(rack);
        const places = new Set(puts.map(({ object: { scmOffset } }) => scmOffset));
        assert.equal(places.size, 2, "each has a place of its own");
        const object = objectIn(rack, "shared");
        const isStored = puts.some(({ stored }) => stored === "complete");
        if (object === undefined) {
          assert.ok(!isStored, "one was stored");
          found.add("none");
          continue;
        }
        const put = puts.find(({ object: { scmOffset } }) => scmOffset === object.offset)!;
        assert.ok(isIntact(contentAt(put.file), survivorOf(rack, put)), put.method);
        found.add(put.file);
      }
      assert.ok(found.size >= 2, `found ${[...found]}`);
      assert.deepEqual(putsOf(whole).map(({ stored }) => stored), ["complete", "complete"]);
    });
  }
});

/** Nothing else makes these persistent than that a READ, or an answer, pushes what was written before it. */
const BY_READ: ReadonlySet<string> = new Set(
  ["write-read", "send-read", "librpma-apm", "emulated-flush", "write-imm"],
);

/** Hosts in which other things are volatile, or leave their place in another order. */
const HOSTS = {
  "eADR": { host: "ddio: on, domain: eadr", byCpu: false, all: false },
  "ddio+ns": { host: "ddio: on, architecture: ddio+ns", byCpu: false, all: false },
  "whole-system persistence": { host: "ddio: on, domain: wsp", byCpu: false, all: true },
  "an LLC of 8 KiB that evicts any line": {
    host: "ddio: on, llc: { size: 8KiB, ways: 4, ddioWays: 1, evict: random }",
    byCpu: true,
    all: false,
  },
} as const;

describe("P-01, P-02, P-04: hosts of other kinds", () => {
  for (const [name, { host, byCpu, all }] of Object.entries(HOSTS)) {
    it(`P-10, P-41: ${name}: every method says what it promises, and keeps it`, () => {
      for (const method of METHODS) {
        const writer: Writer = { on: "a", method, object: "data", file: "one" };
        // Receive buffers are in SCM, so that a SEND too is persistent wherever its bytes are.
        const of: Run = { host: `${host}, receive: scm`, writers: [writer], files: FILES };
        const expected = method === "write-only" ? all : !BY_READ.has(method) || !byCpu;
        let told = 0;
        for (const rack of cuts(of, 3)) {
          const [put] = putsOf(rack);
          assert.equal(put!.promises, expected, method);
          const file = contentAt("one"), survived = survivorOf(rack, put!);
          assert.equal(firstLoss(put!, file, survived), undefined, method);
          told += put!.confirmedMessages;
        }
        assert.equal(told > 0, expected, method);
        const whole = run(of);
        const [put] = putsOf(whole);
        assert.equal(put!.status, "done", `${method}: ${put!.error}`);
        if (expected) assert.ok(isIntact(contentAt("one"), survivorOf(whole, put!)), method);
      }
    });
  }
});
