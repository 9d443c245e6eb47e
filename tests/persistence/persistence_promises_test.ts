/**
 * No promise of persistence without the means, over the whole rack: whatever was written by whichever
 * operation is there after a power failure right behind the completion of the FLUSH or of the persistent
 * WRITE. P-02, P-24: with the architecture `ddio+ns` the RNIC itself sees to it, so nothing that it puts
 * into the peer's SCM may be left in the LLC. P-26, P-31: with DDIO alone the peer's CPU does, and is told
 * all that it has to flush. P-21, P-22: DRAM promises nothing at all.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Mr } from "../../nodes/host/verbs/memory_region.ts";
import type { SendRequest } from "../../nodes/host/verbs/post.ts";
import type { Program, Steps } from "../../nodes/host/cpu/program.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

/** The region in the SCM of `b`. */
const OFFSET = 65_536, BYTES = 65_536;
/** More than one packet; neither end is on a line of the cache. */
const LENGTH = 4900, START = 24;

interface Case {
  readonly opcode: SendRequest["opcode"];
  /** Takes a receive. */
  readonly receives?: true;
  /** Changes eight bytes: what they are afterwards. */
  readonly word?: readonly number[];
}

const WORD = [1, 2, 3, 4, 5, 6, 7, 8] as const;
const SUM = [9, 0, 0, 0, 0, 0, 0, 0] as const;

const CASES: readonly Case[] = [
  { opcode: "send", receives: true },
  { opcode: "send-immediate", receives: true },
  { opcode: "write" },
  { opcode: "write-immediate", receives: true },
  { opcode: "atomic-write", word: WORD },
  { opcode: "fetch-add", word: SUM },
  { opcode: "compare-swap", word: SUM },
];

/** How the requester has it made persistent (P-31, P-50). */
const MEANS = ["flush of the range", "flush of the region", "empty persistent WRITE"] as const;
type Means = typeof MEANS[number];

function requestOf(
  { opcode, word }: Case,
  { mr, remote }: { readonly mr: Mr; readonly remote: { va: number; rkey: number } },
): SendRequest {
  const sges = [{ address: mr.address, length: word === undefined ? LENGTH : 8, lkey: mr.lkey }];
  if (opcode.startsWith("send")) return { opcode, sges };
  const request: SendRequest = { opcode, sges, remote };
  if (opcode === "fetch-add") return { ...request, atomic: { swapAdd: 9n, compare: 0n } };
  if (opcode === "compare-swap") return { ...request, atomic: { swapAdd: 9n, compare: 0n } };
  return request;
}

function meansOf(
  means: Means,
  { remote, length }: { readonly remote: { va: number; rkey: number }; readonly length: number },
): SendRequest {
  if (means === "empty persistent WRITE") return { opcode: "write-persistence", sges: [], remote };
  const placement = ["persistent"] as const;
  return means === "flush of the range"
    ? { opcode: "flush", remote, flush: { placement, selectivity: "range", length } }
    : { opcode: "flush", remote, flush: { placement, selectivity: "mr" } };
}

/** What the two programs tell each other outside of the rack. */
interface Table {
  server?: { readonly va: number; readonly rkey: number };
}

const FLAGS = [
  "localWrite",
  "remoteWrite",
  "remoteRead",
  "remoteAtomic",
  "flushGlobal",
  "flushPersistent",
] as const;

/** What flushes at `b`: its RNIC; its CPU; a CPU that looks at the message's own range only. */
type Flusher = "rnic" | "cpu" | "deaf cpu";

/** Memory of a RECV that persistence consumes. */
const RECV_BYTES = 128;

function serverOf(
  each: Case,
  { table, flusher }: { readonly table: Table; readonly flusher: Flusher },
): Program {
  return function* ({ cpu, device }): Steps<void> {
    const v = device.verbs;
    const pd = v.allocPd(device);
    const cq = v.must(yield* v.createCq(device, { entries: 64 }));
    const region = { offset: OFFSET, length: BYTES, access: FLAGS };
    const log = v.must(yield* v.regMr(pd, cpu.scm, region));
    const listener = v.must(v.listen(device, "log"));
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") throw new Error(`No request: ${event?.kind}`);
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
    const connection = v.must(yield* v.accept(listener, event.request, { qp }));
    if (v.refused(connection)) throw new Error("refused");
    if (each.receives) {
      const sges = each.opcode.startsWith("send") ? [v.sge(log, START, LENGTH)] : [];
      v.must(yield* v.postRecv(connection.qp, { sges }));
    }
    const buffer = cpu.allocate(RECV_BYTES);
    const inbox = v.must(yield* v.regMr(pd, buffer, { access: ["localWrite"] }));
    v.must(yield* v.postRecv(connection.qp, { sges: [v.sge(inbox, 0, RECV_BYTES)] }));
    table.server = { va: log.address, rkey: log.rkey };
    if (flusher === "rnic") return yield* cpu.sleep(1e9);
    for (;;) {
      for (const completion of yield* v.waitCompletion(cq)) {
        if (completion.opcode !== "recv-persistence") continue;
        const ranges = v.persistRanges(cpu, completion, buffer.address);
        const own = ranges.filter(() => completion.byteLen > 0).slice(-1);
        for (const { va, length } of flusher === "cpu" ? ranges : own) yield* cpu.flush(va, length);
        const immediate = completion.psn;
        v.must(yield* v.postSend(connection.qp, { opcode: "persistence-ack", immediate }));
      }
    }
  };
}

function clientOf(each: Case, { means, table }: { means: Means; table: Table }): Program {
  return function* ({ cpu, device }): Steps<void> {
    const v = device.verbs;
    const pd = v.allocPd(device);
    const cq = v.must(yield* v.createCq(device, { entries: 64 }));
    const buffer = cpu.allocate(16_384);
    const mr = v.must(yield* v.regMr(pd, buffer, { access: ["localWrite"] }));
    cpu.store(buffer.address, contentOf(each));
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
    const connection = yield* v.connect(device, { to: "b", service: "log", qp });
    if (v.refused(connection)) throw new Error("refused");
    while (table.server === undefined) yield* cpu.sleep(1e6);
    const { va, rkey } = table.server;
    const remote = { va: va + START, rkey };
    const { length } = contentOf(each);
    // But for the range's FLUSH, what is named is not where the data is.
    const named = means === "flush of the range" ? remote : { va: va + BYTES - 8, rkey };
    v.must(
      yield* v.postSend(connection.qp, [
        { ...requestOf(each, { mr, remote }), signaled: false },
        { ...meansOf(means, { remote: named, length }), fence: true },
      ]),
    );
    const [completion] = yield* v.waitCompletion(cq);
    cpu.report("promised", { status: completion!.status });
  };
}

function contentOf({ word }: Case): Uint8Array {
  if (word !== undefined) return Uint8Array.from(word);
  return Uint8Array.from({ length: LENGTH }, (_, i) => (i * 131 + 7) % 255 + 1);
}

interface Setting {
  readonly means: Means;
  readonly faults: string;
  readonly flusher: Flusher;
}

function rack(each: Case, { means, faults, flusher }: Setting): SimulatedRack {
  const table: Table = {};
  const programs = {
    "./server.ts": serverOf(each, { table, flusher }),
    "./client.ts": clientOf(each, { means, table }),
  };
  return new SimulatedRack(
    `
name: promises
hosts:
  a: {}
  b: { ddio: on, architecture: ${flusher === "rnic" ? "ddio+ns" : "ddio"}, scm: { size: 1MiB } }
programs: [{ on: b, run: ./server.ts }, { on: a, run: ./client.ts, at: 200us }]
faults: ${faults}
`,
    { programs },
  ).run(1e10);
}

/** What is in place of the data after a power failure right behind the promise. */
function survivors(each: Case, setting: Omit<Setting, "faults">): Uint8Array {
  const undisturbed = rack(each, { ...setting, faults: "[]" });
  assert.deepEqual(undisturbed.reported("program-failed"), []);
  const [promise] = undisturbed.reports.filter(({ topic }) => topic === "promised");
  assert.equal(promise?.value["status"], "SUCCESS");
  const cut = rack(each, { ...setting, faults: `[{ at: ${promise.time + 1}ps, kill: b }]` });
  assert.deepEqual(cut.reported("promised"), [promise.value]);
  const from = OFFSET + START;
  return cut.scm.get("b")!.slice(from, from + contentOf(each).length);
}

for (
  const [name, flusher, proves] of [
    ["ddio+ns", "rnic", "P-02, P-41"],
    ["ddio", "cpu", "P-26, P-31, P-41"],
  ] as const
) {
  describe(`architecture ${name}`, () => {
    for (const each of CASES) {
      for (const means of MEANS) {
        it(`${proves}: ${each.opcode}, ${means}: what it promises survives`, () => {
          assert.deepEqual(survivors(each, { means, flusher }), contentOf(each));
        });
      }
    }
  });
}

describe("a CPU that flushes the message's own range only", () => {
  it("P-31: says of earlier plain WRITEs what is not true", () => {
    const found = survivors({ opcode: "write" }, {
      means: "empty persistent WRITE",
      flusher: "deaf cpu",
    });
    assert.ok(found.every((byte) => byte === 0), "all of it was in the LLC");
  });
});

describe("a region in DRAM", () => {
  for (const ddio of ["off", "on"] as const) {
    it(`P-21, P-22, DDIO ${ddio}: no right to persistence, no answer to the opcode, no byte of it`, () => {
      const table: Table = {};
      const server: Program = function* ({ cpu, device }) {
        const v = device.verbs;
        const pd = v.allocPd(device);
        const cq = v.must(yield* v.createCq(device, { entries: 64 }));
        const buffer = cpu.allocate(BYTES);
        const plain = ["localWrite", "remoteWrite"] as const;
        for (const right of ["remoteWritePersistence", "flushPersistent"] as const) {
          const refusal = yield* v.regMr(pd, buffer, { access: [...plain, right] });
          cpu.report("refused", { errno: v.failed(refusal) && refusal.errno });
        }
        const mr = v.must(yield* v.regMr(pd, buffer, { access: plain }));
        const listener = v.must(v.listen(device, "log"));
        const event = yield* v.waitEvent(listener);
        if (event?.kind !== "request") throw new Error(`No request: ${event?.kind}`);
        const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
        const connection = v.must(yield* v.accept(listener, event.request, { qp }));
        if (v.refused(connection)) throw new Error("refused");
        v.must(yield* v.postRecv(connection.qp, { sges: [] }));
        table.server = { va: mr.address, rkey: mr.rkey };
        yield* cpu.sleep(1e9);
        cpu.report("memory", {
          untouched: cpu.load(buffer.address, BYTES).every((byte) => byte === 0),
        });
      };
      const each: Case = { opcode: "write-persistence" };
      const rack = new SimulatedRack(
        `
name: dram
hosts: { a: {}, b: { ddio: ${ddio}, scm: { size: 1MiB } } }
programs: [{ on: b, run: ./server.ts }, { on: a, run: ./client.ts, at: 200us }]
`,
        {
          programs: {
            "./server.ts": server,
            "./client.ts": clientOf(each, { means: "empty persistent WRITE", table }),
          },
        },
      ).run(1e10);
      assert.deepEqual(rack.reported("program-failed"), []);
      assert.deepEqual(rack.reported("refused"), [{ errno: "EINVAL" }, { errno: "EINVAL" }]);
      assert.deepEqual(rack.reported("promised"), [{ status: "REM_ACCESS_ERR" }]);
      assert.deepEqual(rack.reported("memory"), [{ untouched: true }]);
    });
  }
});
