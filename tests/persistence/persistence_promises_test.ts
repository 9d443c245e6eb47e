/**
 * No promise of persistence without the means, over the whole rack: whatever was written by whichever
 * operation is there after a power failure right behind the completion of the FLUSH or of the persistent
 * WRITE. P-02, P-24: with the architecture `ddio+ns` the RNIC itself sees to it, so nothing that it puts
 * into the peer's SCM may be left in the LLC. P-26, P-31: with DDIO alone the peer's CPU does, and is told
 * all that it has to flush. P-21, P-22: DRAM promises nothing at all. The peer runs the shipped service
 * (`persistd`); what its objects do not take (atomics, SENDs right into SCM) goes to a server that flushes
 * by the service's own function.
 */
import {
  IBV_ACCESS_FLUSH_GLOBAL,
  IBV_ACCESS_FLUSH_PERSISTENT,
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_FENCE,
  IBV_SEND_SIGNALED,
  RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE,
} from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { flushRanges } from "../../nodes/host/verbs/persist_ranges.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { slotsFor } from "../../nodes/host/programs/common/persist_protocol.ts";
import { openOnB, persistdWithout } from "../support/persistd_object.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { Cq, Mr, Pd, Qp, SendRequest } from "../../nodes/host/verbs/objects.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";

/** Bytes of the region in the SCM of `b`; and where a server of the test's own has it. */
const BYTES = 65_536, OWN_OFFSET = 65_536;
/** More than one packet; neither end is on a line of the cache. */
const LENGTH = 4900, START = 24;

interface Case {
  readonly opcode: SendRequest["opcode"];
  /** No object of `persistd` takes it. */
  readonly ownServer?: true;
  /** Takes a receive. */
  readonly receives?: true;
  /** Changes eight bytes: what they are afterwards. */
  readonly word?: readonly number[];
}

const WORD = [1, 2, 3, 4, 5, 6, 7, 8] as const;
const SUM = [9, 0, 0, 0, 0, 0, 0, 0] as const;

const CASES: readonly Case[] = [
  { opcode: "send", receives: true, ownServer: true },
  { opcode: "send-immediate", receives: true, ownServer: true },
  { opcode: "write" },
  { opcode: "write-immediate", receives: true },
  { opcode: "atomic-write", word: WORD },
  { opcode: "fetch-add", word: SUM, ownServer: true },
  { opcode: "compare-swap", word: SUM, ownServer: true },
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
  const placement = IBV_FLUSH_PERSISTENT;
  return means === "flush of the range"
    ? { opcode: "flush", remote, flush: { placement, selectivity: "range", length } }
    : { opcode: "flush", remote, flush: { placement, selectivity: "mr" } };
}

/** What the two programs tell each other outside of the rack. */
interface Table {
  server?: { readonly va: number; readonly rkey: number };
}

const FLAGS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
  IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_FLUSH_GLOBAL | IBV_ACCESS_FLUSH_PERSISTENT;

/** Memory of a RECV that persistence consumes. */
const RECV_BYTES = 128;

function serverOf(each: Case, table: Table): Program {
  return function* ({ cpu, device }): Steps<void> {
    const v = device.verbs;
    const pd = v.allocPd(device);
    const cq = v.must(yield* v.createCq(device, { entries: 64 }));
    const region = { offset: OWN_OFFSET, length: BYTES, access: FLAGS };
    const log = v.must(yield* v.regMr(pd, cpu.scm, region));
    const listener = v.must(v.listen(device, "log"));
    const event = yield* v.waitEvent(listener);
    if (event?.kind !== "request") throw new Error(`No request: ${event?.kind}`);
    const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
    const connection = v.must(yield* v.accept(listener, event.request, { qp }));
    if (v.refused(connection)) throw new Error("refused");
    if (each.receives) {
      v.must(yield* v.postRecv(connection.qp, { sges: [v.sge(log, START, LENGTH)] }));
    }
    const buffer = cpu.allocate(RECV_BYTES);
    const inbox = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
    v.must(yield* v.postRecv(connection.qp, { sges: [v.sge(inbox, 0, RECV_BYTES)] }));
    table.server = { va: log.address, rkey: log.rkey };
    for (;;) {
      for (const completion of yield* v.waitCompletion(cq)) {
        if (completion.opcode !== "recv-persistence") continue;
        yield* flushRanges(cpu, v.persistRanges(cpu, completion, buffer.address));
        const immediate = completion.psn;
        v.must(yield* v.postSend(connection.qp, { opcode: "persistence-ack", immediate }));
      }
    }
  };
}

/** A connection to b, and where its region is. */
interface Opened {
  readonly qp: Qp;
  readonly cq: Cq;
  readonly pd: Pd;
  readonly va: number;
  readonly rkey: number;
}

function* connectToOwn({ cpu, device }: ProgramContext, table: Table): Steps<Opened> {
  const v = device.verbs;
  const pd = v.allocPd(device);
  const cq = v.must(yield* v.createCq(device, { entries: 64 }));
  const queues = { pd, sendCq: cq, recvCq: cq, maxSendWr: 32, maxRecvWr: 32 };
  const connection = yield* v.connect(device, { to: "b", service: "log", qp: queues });
  if (v.refused(connection)) throw new Error("refused");
  while (table.server === undefined) yield* cpu.sleep(1e6);
  return { qp: connection.qp, cq, pd, ...table.server };
}

function* openObject({ cpu, device }: ProgramContext): Steps<Opened> {
  const { client, region } = yield* openOnB(device, { name: "log", length: BYTES, depth: 16 });
  cpu.report("opened", { scmOffset: region.scmOffset });
  const { connection: { qp }, cq, pd } = client;
  return { qp, cq, pd, va: region.va, rkey: region.rkey };
}

/** @param to.table absent: to an object of `persistd`. */
function clientOf(each: Case, to: { readonly means: Means; readonly table?: Table }): Program {
  return function* (context): Steps<void> {
    const { cpu, device: { verbs: v } } = context;
    const { means, table } = to;
    const opened = table ? yield* connectToOwn(context, table) : yield* openObject(context);
    const { qp, cq, pd, va, rkey } = opened;
    const buffer = cpu.allocate(16_384);
    const mr = v.must(yield* v.regMr(pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
    cpu.store(buffer.address, contentOf(each));
    const remote = { va: va + START, rkey };
    const { length } = contentOf(each);
    // But for the range's FLUSH, what is named is not where the data is.
    const named = means === "flush of the range" ? remote : { va: va + BYTES - 8, rkey };
    v.must(
      yield* v.postSend(qp, [
        { ...requestOf(each, { mr, remote }), sendFlags: 0 },
        {
          ...meansOf(means, { remote: named, length }),
          sendFlags: IBV_SEND_SIGNALED | IBV_SEND_FENCE,
        },
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
  readonly architecture: "ddio" | "ddio+ns";
  /** Instead of the host's own service. */
  readonly service?: Program;
}

function rack(each: Case, setting: Setting & { readonly faults: string }): SimulatedRack {
  const { means, architecture, faults } = setting;
  const table: Table | undefined = each.ownServer ? {} : undefined;
  const server = table ? serverOf(each, table) : setting.service;
  const programs = {
    ...(server && { "./server.ts": server }),
    "./client.ts": clientOf(each, { means, ...(table && { table }) }),
  };
  const services = server ? "services: none," : "";
  return new SimulatedRack(
    `
name: promises
hosts:
  a: {}
  b: { ddio: on, architecture: ${architecture}, ${services} scm: { size: 1MiB } }
programs: [${server ? "{ on: b, run: ./server.ts }," : ""} { on: a, run: ./client.ts, at: 200us }]
faults: ${faults}
`,
    { programs },
  ).run(1e10);
}

/** What is in place of the data after a power failure right behind the promise. */
function survivors(each: Case, setting: Setting): Uint8Array {
  const undisturbed = rack(each, { ...setting, faults: "[]" });
  assert.deepEqual(undisturbed.reported("program-failed"), []);
  const [promise] = undisturbed.reports.filter(({ topic }) => topic === "promised");
  assert.equal(promise?.value["status"], "SUCCESS");
  const cut = rack(each, { ...setting, faults: `[{ at: ${promise.time + 1}ps, kill: b }]` });
  assert.deepEqual(cut.reported("promised"), [promise.value]);
  const [{ scmOffset = OWN_OFFSET } = {}] = cut.reported("opened");
  const from = Number(scmOffset) + START;
  return cut.scm.get("b")!.slice(from, from + contentOf(each).length);
}

for (
  const [architecture, proves] of [
    ["ddio+ns", "P-02, P-41"],
    ["ddio", "P-26, P-31, P-41"],
  ] as const
) {
  describe(`architecture ${architecture}`, () => {
    for (const each of CASES) {
      for (const means of MEANS) {
        it(`${proves}: ${each.opcode}, ${means}: what it promises survives`, () => {
          assert.deepEqual(survivors(each, { means, architecture }), contentOf(each));
        });
      }
    }
  });
}

describe("a service whose core does not flush", () => {
  it("P-31: says of earlier plain WRITEs what is not true", () => {
    const found = survivors({ opcode: "write" }, {
      means: "empty persistent WRITE",
      architecture: "ddio",
      service: persistdWithout("clwb", "flush"),
    });
    assert.ok(found.every((byte) => byte === 0), "all of it was in the LLC");
  });
});

describe("the service's receives", () => {
  it("are posted again when a WRITE with immediate data has consumed them", () => {
    const depth = 1, writes = 2 * slotsFor(depth);
    const client: Program = function* ({ cpu, device }) {
      const v = device.verbs;
      const { client, region } = yield* openOnB(device, { name: "log", length: BYTES, depth });
      const remote = { va: region.va, rkey: region.rkey };
      for (let i = 0; i < writes; i++) {
        const sendFlags = IBV_SEND_SIGNALED;
        const write = {
          opcode: "write-immediate",
          sendFlags,
          sges: [],
          remote,
          immediate: i,
        } as const;
        v.must(yield* v.postSend(client.connection.qp, write));
        const [completion] = yield* v.waitCompletion(client.cq);
        cpu.report("done", { status: completion!.status });
      }
    };
    const rack = new SimulatedRack(
      "name: receives\nhosts: { a: {}, b: {} }\nprograms: [{ on: a, run: ./client.ts }]\n",
      { programs: { "./client.ts": client } },
    ).run(1e10);
    assert.deepEqual(rack.reported("done"), new Array(writes).fill({ status: "SUCCESS" }));
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
        const plain = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        const rights = [RACKMESH_ACCESS_REMOTE_WRITE_PERSISTENCE, IBV_ACCESS_FLUSH_PERSISTENT];
        for (const right of rights) {
          const refusal = yield* v.regMr(pd, buffer, { access: plain | right });
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
