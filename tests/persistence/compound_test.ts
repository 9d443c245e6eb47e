/**
 * Compound updates over the whole rack: a log's record and its tail by every method, in the round trips
 * that it needs, with the power of the responder cut at many instants, and over cables that do wrong. What
 * is wrong on purpose is caught.
 */
import { METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_S } from "../../fabric/base/time.ts";
import { madeUpBytes } from "../../nodes/host/programs/common/made_up.ts";
import type { Method } from "../../nodes/host/programs/common/persist_protocol.ts";
import { persistence } from "../../console/checks/persistence.ts";
import { withReceived } from "../../console/checks/received.ts";
import type { ImageView } from "../../console/checks/run_record.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** What `append` reports when it ends, as far as these tests need it. */
interface AppendResult {
  readonly program: "append";
  readonly status: "done" | "failed";
  readonly error?: string;
  readonly method: string;
  readonly update: string;
  readonly to: string;
  readonly records: number;
  readonly recordBytes: number;
  readonly flusher: "read" | "cpu" | "none";
  /** Whether the method is held to keep the order, and what it tells for durable. */
  readonly ordered: boolean;
  readonly promises: boolean;
  /** The first so many records are reported durable. */
  readonly told: number;
  /** The same, of a method that promises nothing too. */
  readonly claimed: number;
  readonly rounds: number;
  readonly unexpected: number;
  readonly requests: Readonly<Record<string, number>>;
  readonly object: { readonly name: string; readonly scmOffset: number; readonly length: number };
  readonly startPs: number;
  readonly endPs: number;
}

/** True for the value of a `result` report by an `append` that had begun. */
function isAppendResult(value: unknown): value is AppendResult {
  return (value as Partial<AppendResult> | null)?.program === "append" &&
    (value as Partial<AppendResult>).object !== undefined;
}

type Breach =
  /** The tail is none that was ever written. */
  | { readonly kind: "torn-tail"; readonly tail: bigint }
  /** The tail counts a record that is not there: b without a. */
  | { readonly kind: "tail-without-record"; readonly tail: number; readonly record: number }
  /** Less is counted, or there, than was reported durable. */
  | { readonly kind: "lost"; readonly tail: number; readonly told: number };

const RECORDS_AT = 64;

/**
 * What is wrong with a log after a power failure; undefined where nothing is.
 * @param survived what is in the SCM at the log's place.
 * @param told how many records must be there: what was reported durable.
 */
function firstBreach(
  result: AppendResult,
  survived: Uint8Array,
  told = result.told,
): Breach | undefined {
  const view = new DataView(survived.buffer, survived.byteOffset, survived.byteLength);
  const found = view.getBigUint64(0);
  if (found > BigInt(result.records)) return { kind: "torn-tail", tail: found };
  const tail = Number(found);
  for (let record = 0; record < tail; record++) {
    if (!isThere(result, survived, record)) return { kind: "tail-without-record", tail, record };
  }
  return tail < told ? { kind: "lost", tail, told } : undefined;
}

function isThere(result: AppendResult, survived: Uint8Array, record: number): boolean {
  const { recordBytes, object } = result;
  const expected = madeUpBytes(recordBytes, `${object.name}/${record}`);
  const at = RECORDS_AT + record * recordBytes;
  return expected.every((byte, i) => survived[at + i] === byte);
}

/** Hosts by who flushes. */
const HOSTS = {
  "flow 1": "ddio: off",
  "flow 2": "ddio: on",
  "flow 2, eADR": "ddio: on, domain: eadr",
  "whole-system persistence": "ddio: on, domain: wsp",
} as const;
type Host = keyof typeof HOSTS;

interface Run {
  readonly method: Method;
  readonly host: Host;
  readonly update?: string;
  readonly records?: number;
  readonly size?: number;
  readonly depth?: number;
  readonly more?: string;
  readonly faults?: string;
  readonly trace?: boolean;
  readonly receive?: "dram" | "scm";
  /** It breaks what it claims, on purpose. */
  readonly unsound?: string;
}

interface Ran {
  readonly rack: SimulatedRack;
  readonly result: AppendResult;
  readonly survived: Uint8Array;
}

function append(run: Run): Ran {
  const { method, host, records = 12, size = 200, depth = 1, more = "", faults = "[]" } = run;
  const rack = new SimulatedRack(
    `
name: compound
seed: 5
hosts: { a: {}, b: { ${HOSTS[host]}, scm: { size: 2MiB }, receive: ${run.receive ?? "dram"} } }
programs:
  - { on: a, run: append, to: b, method: ${method}, update: ${run.update ?? "ordered"},
      records: ${records}, size: ${size}, depth: ${depth} ${more} }
faults: ${faults}
`,
    { ...(run.trace && { trace: true }), ...(run.unsound && { unsound: run.unsound }) },
  ).run();
  const reported = rack.reported("result");
  assert.equal(reported.length, 1, JSON.stringify(rack.reported("program-failed")));
  const result: unknown = reported[0];
  assert.ok(isAppendResult(result), JSON.stringify(result));
  const { scmOffset, length } = result.object;
  const image = viewOf(rack.scm.get("b")!);
  const survived = withReceived(rack.plan, { host: "b", image }).read(
    scmOffset,
    scmOffset + length,
  );
  return { rack, result, survived };
}

function viewOf(scm: Uint8Array): ImageView {
  return { read: (from, to) => scm.subarray(from, to) };
}

/**
 * Cuts b's power at so many instants between the first post and the end. A host that loses nothing comes
 * back: what its card has kept gets into memory then.
 */
function* cuts(run: Run, count: number): Generator<Ran> {
  const { result: { startPs, endPs } } = append(run);
  for (let i = 0; i < count; i++) {
    const at = Math.round(startPs + (endPs - startPs) * (i + 0.5) / count);
    const back = run.host === "whole-system persistence" ? ", { at: 5ms, start: b }" : "";
    yield append({ ...run, faults: `[{ at: ${at}ps, kill: b }${back}]` });
  }
}

interface Expected {
  readonly rounds: number;
  readonly ordered: boolean;
  readonly promises: boolean;
  /** Requests of an update. */
  readonly requests: Partial<Record<"write" | "read" | "send" | "flush" | "recv", number>>;
}

/** What each method can do where. Only a row that is nobody's proof of itself stands here. */
function expected(method: Method, host: Host): Expected {
  const byCpu = host === "flow 2", all = host === "whole-system persistence";
  switch (method) {
    case "write-only":
      return { rounds: 1, ordered: !byCpu, promises: all, requests: { write: 2 } };
    case "write-read":
    case "librpma-apm":
      return { rounds: 1, ordered: !byCpu, promises: !byCpu, requests: { write: 2, read: 1 } };
    case "emulated-flush":
      return { rounds: 2, ordered: !byCpu, promises: !byCpu, requests: { write: 2, read: 2 } };
    case "write-imm":
      return { rounds: 1, ordered: !byCpu, promises: !byCpu, requests: { write: 2, recv: 1 } };
    case "write-imm-flush": {
      const rounds = byCpu ? 2 : 1;
      return { rounds, ordered: true, promises: true, requests: { write: 2, recv: rounds } };
    }
    case "send-flush":
      return { rounds: 1, ordered: true, promises: true, requests: { send: 1, recv: 1 } };
    case "send-read":
      return { rounds: 1, ordered: true, promises: !byCpu, requests: { send: 2, read: 1 } };
    case "write-send":
    case "librpma-gpspm":
    case "write-send-workers":
      return { rounds: 1, ordered: true, promises: true, requests: { write: 1, send: 1, recv: 1 } };
    case "write-flush":
      return { rounds: 1, ordered: true, promises: true, requests: { write: 2, flush: 2 } };
    default: {
      const requests = byCpu ? { write: 2, recv: 2 } : { write: 2 };
      return { rounds: byCpu ? 2 : 1, ordered: true, promises: true, requests };
    }
  }
}

const NAMES = Object.keys(HOSTS) as Host[];

/** How often a program waited before it posted more of the same update: its own steps, counted. */
function roundsOf(rack: SimulatedRack, update: number): number {
  const posts = rack.traces.filter(({ node, step }) =>
    node === "a" && step.step === "post-round" && step.operation === update
  );
  return new Set(posts.map(({ time }) => time)).size;
}

describe("append", () => {
  for (const method of METHODS) {
    for (const host of NAMES) {
      it(`P-10, P-11, P-50: ${method}, ${host}: all records, in the round trips that it needs`, () => {
        const records = 12;
        const run: Run = { method, host, records, receive: "scm", trace: true };
        const { rack, result, survived } = append(run);
        assert.equal(result.status, "done", result.error);
        const { rounds, ordered, promises, requests } = expected(method, host);
        assert.deepEqual(
          [result.ordered, result.promises, result.claimed, result.unexpected],
          [ordered, promises, records, 0],
        );
        for (let i = 0; i < records; i++) assert.equal(roundsOf(rack, i), rounds, `update ${i}`);
        assert.equal(result.rounds, rounds * records);
        const none = { write: 0, read: 0, send: 0, flush: 0, recv: 0 };
        const each = Object.entries({ ...none, ...requests });
        assert.deepEqual(
          result.requests,
          Object.fromEntries(each.map(([kind, count]) => [kind, count * records])),
        );
        assert.equal(result.told, promises ? records : 0);
        assert.equal(firstBreach(result, survived), undefined);
      });
    }
  }

  for (const method of METHODS) {
    for (const host of NAMES) {
      if (!expected(method, host).ordered) continue;
      // One at a time they are cut off at every instant in `tests/crash/matrix_test.ts`.
      it(`P-31, P-41: ${method}, ${host}, 3 at once: no tail without its record, ever`, () => {
        let told = 0, tails = 0;
        const run: Run = { method, host, depth: 3, receive: "scm", records: 4 };
        for (const { result, survived } of cuts(run, 5)) {
          assert.equal(firstBreach(result, survived), undefined);
          told += result.told;
          tails += survived.subarray(0, 8).some((byte) => byte !== 0) ? 1 : 0;
        }
        if (expected(method, host).promises) assert.ok(told > 0, "some run was told something");
        assert.ok(tails > 0, "some run left a tail");
      });
    }
  }

  it("leaves a log alone that is there already", () => {
    const rack = new SimulatedRack(`
name: twice
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs:
  - { on: a, run: append, to: b, records: 3, size: 64 }
  - { on: a, run: append, to: b, records: 3, size: 64, at: 2ms }
`).run();
    const [first, second] = rack.reported("result");
    assert.equal(first!.status, "done");
    assert.deepEqual([second!.status, second!.error], ["failed", "There is a log log already"]);
  });

  it("P-29: is told by the completion itself where the policy is persistence", () => {
    const more = ", policy: persistence";
    const { result } = append({ method: "persist-opcode", host: "flow 2", more });
    assert.deepEqual([result.status, result.rounds, result.requests.recv], ["done", 24, 0]);
  });

  it("P-29: takes a RECV for each write in flow 1 where the policy is reception", () => {
    const more = ", policy: reception";
    const { result } = append({ method: "persist-opcode", host: "flow 1", more, depth: 2 });
    assert.deepEqual([result.status, result.rounds, result.requests.recv], ["done", 12, 24]);
  });

  it("works for records of 8 B to 64 KiB", () => {
    for (const size of [8, 9, 64, 4097, 65_536]) {
      for (const method of METHODS) {
        const run: Run = { method, host: "flow 1", size, records: 3, depth: 2 };
        const { result, survived } = append(run);
        assert.equal(result.status, "done", `${method}, ${size} B: ${result.error}`);
        assert.equal(firstBreach(result, survived, 3), undefined, `${method}, ${size} B`);
      }
    }
  });
});

describe("append over a cable that loses", () => {
  const ORDERED = METHODS.filter((method) => expected(method, "flow 2").ordered);
  for (const method of ORDERED) {
    for (const direction of ["a-rnic->tor", "b-rnic->tor"]) {
      it(`P-30, P-31: ${method}: each frame of ${direction} in turn: the log is whole, and after a cut too`, () => {
        const records = 2;
        // Where its promise is: nothing else tells it from one that was never made.
        const host = method === "send-read" ? "flow 1" : "flow 2";
        const undisturbed = append({ method, host, receive: "scm", records });
        const from = undisturbed.result.startPs;
        let nth = 1;
        for (; nth <= 100; nth++) {
          const loss = `{ link: ${direction}, loss: all, nth: ${nth}, from: ${from}ps }`;
          const run: Run = { method, host, receive: "scm", records, faults: `[${loss}]` };
          const { result, survived, rack } = append(run);
          const [count] = rack.simulator.linkFaultCounts();
          if (count!.hit === 0) break;
          assert.equal(result.status, "done", `frame ${nth}: ${result.error}`);
          assert.equal(firstBreach(result, survived), undefined, `frame ${nth}`);
          assert.deepEqual([result.told, result.unexpected], [records, 0]);
          // In the middle of what the loss has made longer; of every other frame, as it is many runs.
          if (nth % 2 === 0) continue;
          const at = Math.round((result.startPs + result.endPs) / 2);
          const cut = append({ ...run, faults: `[${loss}, { at: ${at}ps, kill: b }]` });
          assert.equal(firstBreach(cut.result, cut.survived), undefined, `frame ${nth}, cut`);
        }
        assert.ok(nth > 4 && nth <= 100, `${nth} frames were all that there are`);
      });
    }
  }
});

/** Whether one of so many cuts finds it wrong, in this way if one is given. */
function isCaught(run: Run, count: number, kind?: Breach["kind"]): boolean {
  for (const { result, survived } of cuts({ ...run, unsound: "wrong on purpose" }, count)) {
    const breach = firstBreach(result, survived);
    if (breach !== undefined && breach.kind === (kind ?? breach.kind)) return true;
  }
  return false;
}

describe("what is wrong on purpose", () => {
  it("is caught: the tail before its record", () => {
    for (const host of ["flow 1", "flow 2"] as const) {
      const run: Run = { method: "write-flush", host, update: "tail-first" };
      assert.ok(isCaught(run, 48, "tail-without-record"), host);
    }
  });

  it("is caught: both flushed as one range, from the tail on", () => {
    const run: Run = { method: "write-send", host: "flow 2", update: "one-flush", size: 2000 };
    assert.ok(isCaught(run, 96, "tail-without-record"));
  });

  it("is caught: only the tail's range persisted", () => {
    const run: Run = { method: "write-send", host: "flow 2", update: "pipelined" };
    assert.ok(isCaught(run, 24));
    const flush: Run = { method: "write-flush", host: "flow 2", update: "pipelined" };
    assert.ok(isCaught(flush, 24));
  });

  it("is found by what the program has noted as well", () => {
    const unsound = "wrong on purpose";
    const run: Run = { method: "write-flush", host: "flow 1", update: "tail-first", unsound };
    let count = 0;
    for (const { rack, result, survived } of cuts(run, 48)) {
      if (firstBreach(result, survived)?.kind !== "tail-without-record") continue;
      count++;
      assert.notDeepEqual(persistence.check(rack.record(PS_PER_S)), []);
    }
    assert.ok(count > 0);
  });

  it("a method that has no such form says so", () => {
    const rack = new SimulatedRack(`
name: no-such
hosts: { a: {}, b: { scm: { size: 1MiB } } }
programs: [{ on: a, run: append, to: b, method: send-flush, update: tail-first }]
`).run();
    const [result] = rack.reported("result");
    assert.equal(result!.error, "send-flush has no update that is tail-first");
  });
});
