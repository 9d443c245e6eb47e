/** Programs that set rq_psn and the peer's sq_psn apart: what cards make of it is right, and is not condemned. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import { hostsByAddress } from "../../fabric/trace/trace.ts";
import { named } from "../../console/reports/summarise.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import type { Cq, Mr, Pd, Qp } from "../../nodes/host/verbs/objects.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { run, type Side, Table } from "../support/two_programs.ts";

const ACCESS = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
  IBV_ACCESS_REMOTE_ATOMIC;
const BYTES = 4096;

interface End {
  readonly pd: Pd;
  readonly cq: Cq;
  readonly mr: Mr;
  readonly qp: Qp;
}

function* endOf({ cpu, device }: ProgramContext): Steps<End> {
  const { allocPd, createCq, createQp, regMr, must } = device.verbs;
  const pd = allocPd(device), cq = must(yield* createCq(device, { entries: 64 }));
  const mr = must(yield* regMr(pd, cpu.allocate(BYTES), { access: ACCESS }));
  const sizes = { maxSendWr: 8, maxRecvWr: 8 };
  const qp = must(yield* createQp(pd, { type: "rc", sendCq: cq, recvCq: cq, ...sizes }));
  return { pd, cq, mr, qp };
}

interface Peer {
  readonly host: string;
  readonly qpn: number;
  readonly rqPsn: number;
  readonly sqPsn: number;
}

function* toRts({ cpu, device }: ProgramContext, { qp, mr }: End, peer: Peer): Steps<void> {
  const { modifyQp, postRecv, sge, must } = device.verbs;
  must(yield* modifyQp(qp, { state: "init", accessFlags: ACCESS }));
  for (let i = 0; i < 4; i++) must(yield* postRecv(qp, { wrId: 100 + i, sges: [sge(mr)] }));
  const path = {
    destAddress: cpu.addresses[peer.host]!,
    destQpn: peer.qpn,
    pathMtu: 1024,
  } as const;
  const { rqPsn, sqPsn } = peer;
  must(
    yield* modifyQp(qp, { state: "rtr", ...path, rqPsn, maxDestRdAtomic: 8, minRnrTimer: 1 }),
  );
  const timers = { timeout: 6, retryCnt: 1, rnrRetry: 1 };
  must(yield* modifyQp(qp, { state: "rts", ...timers, sqPsn, maxRdAtomic: 8 }));
}

const OPERATIONS = ["write", "send", "read", "fetch-add", "compare-swap"] as const;
type Operation = typeof OPERATIONS[number];

/** Posts some of an operation, and has the statuses of what completes. */
function* ask(
  { cpu, device }: ProgramContext,
  { qp, cq, mr }: End,
  of: { operation: Operation; count: number; va: number; rkey: number },
): Steps<string[]> {
  const { postSend, waitCompletion, sge, must } = device.verbs;
  const { operation, count, va, rkey } = of;
  const isAtomic = operation === "fetch-add" || operation === "compare-swap";
  must(
    yield* postSend(
      qp,
      Array.from({ length: count }, (_, wrId) => ({
        ...{ opcode: operation, wrId, sendFlags: IBV_SEND_SIGNALED },
        sges: [sge(mr, 0, isAtomic ? 8 : 2000)],
        ...(operation !== "send" && { remote: { va, rkey } }),
        ...(isAtomic && { atomic: { swapAdd: 1n, compare: 0n } }),
      } as const)),
    ),
  );
  const found: string[] = [];
  const deadline = cpu.now + 20 * PS_PER_MS;
  while (found.length < count) {
    const some = yield* waitCompletion(cq, { deadline });
    if (some.length === 0) return found;
    for (const { reason } of some) if (reason !== undefined) cpu.report("why", reason);
    found.push(...some.filter(({ wrId }) => wrId < 100).map(({ status }) => status));
  }
  return found;
}

/** a asks b, which expects its PSNs from `sqPsn + apart` on. */
function runApart(operation: Operation, apart: number, again?: number): SimulatedRack {
  const sqPsn = 200_000;
  const side = (host: "a" | "b"): Side =>
    function* (context, table) {
      const { cpu } = context, end = yield* endOf(context);
      const other = host === "a" ? "b" : "a";
      table.put(`qpn ${host}`, end.qp.qpn);
      table.put(`va ${host}`, end.mr.address);
      table.put(`rkey ${host}`, end.mr.rkey);
      const qpn = yield* table.get(context, `qpn ${other}`);
      const remote = {
        va: yield* table.get(context, `va ${other}`),
        rkey: yield* table.get(context, `rkey ${other}`),
      };
      const lives = [0, ...(again === undefined ? [] : [again])];
      for (const [life, shift] of lives.entries()) {
        const { modifyQp, must } = context.device.verbs;
        if (life > 0) must(yield* modifyQp(end.qp, { state: "reset" }));
        yield* toRts(context, end, {
          ...{ host: other, qpn },
          rqPsn: host === "b" ? sqPsn + shift + (again === undefined || life > 0 ? apart : 0) : 9,
          sqPsn: host === "a" ? sqPsn + shift : 9,
        });
        table.put(`up ${host} ${life}`);
        yield* table.get(context, `up ${other} ${life}`);
        if (host === "a") {
          cpu.report("got", yield* ask(context, end, { operation, count: 3, ...remote }));
          table.put(`done ${life}`);
        }
        yield* table.get(context, `done ${life}`);
      }
    };
  return run(side("a"), side("b"));
}

describe("PSNs that programs have set apart", () => {
  it("are named by the requester's card, and by its completion", () => {
    for (const [apart, expected] of [[1000, 201_000], [-1, 199_999], [-61, 199_939]] as const) {
      const rack = runApart("write", apart);
      const notes = rack.reports.filter(({ topic }) => topic === "warning");
      assert.deepEqual(notes.map(({ node }) => node), ["a-rnic"]);
      const text = `queue pair \\d+ sends from PSN 200000 .*b expects PSN ${expected} `;
      assert.match(named(String(notes[0]!.value.message), hostsByAddress(rack.plan)), RegExp(text));
      assert.match(String(rack.reported("why")[0]), /the peer's rq_psn is not the sq_psn/);
    }
    assert.deepEqual(runApart("write", 0).reported("warning"), []);
  });

  for (const operation of OPERATIONS) {
    it(`condemn no card: ${operation}, behind and ahead, near and far`, () => {
      for (const apart of [1, 3, 1000, 66_000, -1, -61, -66_000]) {
        // The run is held to every promise of the rack.
        const [found] = runApart(operation, apart).reported("got");
        assert.ok(Object(found).length > 0, `${apart}`);
      }
    });

    it(`condemn no card whose queue pair is reset with other PSNs: ${operation}`, () => {
      for (const shift of [20, 3, 0, -2, -20, 70_000]) {
        const found = runApart(operation, 0, shift).reported("got");
        assert.deepEqual(found.map((each) => new Set(Object.values(each))), [
          new Set(["SUCCESS"]),
          new Set(["SUCCESS"]),
        ], `${shift}`);
        runApart(operation, 5, shift);
      }
    });

    it(`condemn no card of a reborn host: ${operation}`, () => {
      const ended = runReborn(operation);
      assert.ok(ended.length > 0);
    });
  }
});

/** b dies; its next life has a queue pair of the same number that expects a new one of a, while the old one still asks. */
function runReborn(operation: Operation): unknown[] {
  const table = new Table();
  let life = 0;
  const server: Program = function* (context) {
    const end = yield* endOf(context), own = life++;
    table.put(`qpn b ${own}`, end.qp.qpn);
    table.put("va", end.mr.address);
    table.put(`rkey ${own}`, end.mr.rkey);
    const qpn = yield* table.get(context, `qpn a ${own}`);
    yield* toRts(context, end, { host: "a", qpn, rqPsn: own === 0 ? 100 : 6000, sqPsn: 9 });
    table.put(`up ${own}`);
    yield* context.cpu.sleep(100 * PS_PER_MS);
  };
  const client: Program = function* (context) {
    const ends = [yield* endOf(context), yield* endOf(context)];
    for (const [i, end] of ends.entries()) table.put(`qpn a ${i}`, end.qp.qpn);
    const about = { operation, va: yield* table.get(context, "va"), count: 2 };
    for (const [i, end] of ends.entries()) {
      const qpn = yield* table.get(context, `qpn b ${i}`);
      yield* toRts(context, end, { host: "b", qpn, rqPsn: 9, sqPsn: i === 0 ? 100 : 6000 });
      yield* table.get(context, `up ${i}`);
      const rkey = yield* table.get(context, `rkey ${i}`);
      // The old one first: b takes what it sends for duplicates of the new one's.
      const asked = i === 0 ? [end] : [ends[0]!, end];
      for (const one of asked) {
        context.cpu.report("got", yield* ask(context, one, { ...about, rkey }));
      }
      yield* context.cpu.sleep(2 * PS_PER_MS);
    }
  };
  const rack = new SimulatedRack(
    `
name: reborn
defaults: { services: none }
hosts: { a: {}, b: {} }
programs: [{ on: b, program: ./server.ts, restart: true }, { on: a, program: ./client.ts }]
faults: [{ at: 1ms, kill: b }, { at: 1200us, start: b }]
`,
    { programs: { "./server.ts": server, "./client.ts": client } },
  ).run(80 * PS_PER_MS);
  assert.deepEqual(rack.reported("program-failed"), []);
  return rack.reported("got");
}
