/**
 * P-31: plain writes, writes that persist and FLUSHes in any mixture on one queue pair, over the whole
 * rack, with the responder's power cut. The responder runs the shipped service (`persistd`). What a
 * completion promises is worked out here, from the order of the posts alone: a write that persists
 * promises all that was written before it on its queue pair, a FLUSH its range.
 */
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_FLUSH_PERSISTENT,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { type Rng, rngFor } from "../../fabric/base/rng.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { openOnB, persistdWithout } from "../support/persistd_object.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import type { SendRequest } from "../../nodes/host/verbs/objects.ts";
import type { Program } from "../../nodes/host/program_context.ts";

/** The object in the SCM of `b`, in units of the SCM (P-41), of which each write has its own values. */
const UNITS = 4096, UNIT = 8;
/** Requests that are outstanding at once: as many as the service is told of, it has receives for. */
const WINDOW = 24;

type Kind = "plain" | "persist" | "empty persist" | "flush";

/** One request, in units of the region. */
interface Op {
  readonly kind: Kind;
  readonly from: number;
  readonly to: number;
}

/** Each unit that request `i` writes: its number, and the unit's, neither of them 0. */
function valueOf(i: number, unit: number): bigint {
  return BigInt(i + 1) << 32n | BigInt(unit + 1);
}

function contentOf(i: number, { from, to }: Op): Uint8Array {
  return new Uint8Array(
    BigUint64Array.from({ length: to - from }, (_, k) => valueOf(i, from + k)).buffer,
  );
}

function requestOf(
  op: Op,
  of: { wrId: number; va: number; rkey: number; address: number; lkey: number },
): SendRequest {
  const { kind, from, to } = op;
  const { wrId, rkey, address, lkey } = of, sendFlags = IBV_SEND_SIGNALED;
  const remote = { va: of.va + from * UNIT, rkey }, length = (to - from) * UNIT;
  const sges = [{ address, length, lkey }];
  switch (kind) {
    case "plain":
      return { opcode: "write", sendFlags, wrId, sges, remote };
    case "persist":
      return { opcode: "write-persistence", sendFlags, wrId, sges, remote };
    case "empty persist":
      return { opcode: "write-persistence", sendFlags, wrId, sges: [], remote };
    case "flush": {
      const placement = IBV_FLUSH_PERSISTENT;
      return {
        opcode: "flush",
        sendFlags,
        wrId,
        remote,
        flush: { placement, selectivity: "range", length },
      };
    }
  }
}

function clientOf(ops: readonly Op[]): Program {
  return function* ({ cpu, device }): Steps<void> {
    const v = device.verbs;
    const object = { name: "mixed", length: UNITS * UNIT, depth: WINDOW / 2 };
    const { client, region } = yield* openOnB(device, object);
    cpu.report("opened", { scmOffset: region.scmOffset });
    const places: number[] = [];
    let bytes = 0;
    for (const { from, to } of ops) {
      places.push(bytes);
      bytes += (to - from) * UNIT;
    }
    const buffer = cpu.allocate(bytes);
    const mr = v.must(yield* v.regMr(client.pd, buffer, { access: IBV_ACCESS_LOCAL_WRITE }));
    for (const [i, op] of ops.entries()) cpu.store(buffer.address + places[i]!, contentOf(i, op));
    const { va, rkey } = region;
    let done = 0;
    for (let posted = 0; done < ops.length;) {
      for (; posted < ops.length && posted < done + WINDOW; posted++) {
        const address = buffer.address + places[posted]!;
        const of = { wrId: posted, va, rkey, address, lkey: mr.lkey };
        v.must(yield* v.postSend(client.connection.qp, requestOf(ops[posted]!, of)));
      }
      for (const { wrId, status } of yield* v.waitCompletion(client.cq)) {
        if (status !== "SUCCESS") return cpu.report("ended", { status });
        cpu.report("completed", { i: wrId });
        done++;
      }
    }
    cpu.report("ended", { status: "SUCCESS" });
  };
}

interface Run {
  readonly ops: readonly Op[];
  readonly host: string;
  readonly faults?: string;
  readonly isDeaf?: boolean;
}

function run({ ops, host, faults = "[]", isDeaf = false }: Run): SimulatedRack {
  const programs = { "./deaf.ts": persistdWithout("clwb"), "./client.ts": clientOf(ops) };
  const service = isDeaf ? "{ on: b, run: ./deaf.ts }," : "";
  const services = isDeaf ? "services: none," : "";
  const rack = new SimulatedRack(
    `
name: mixed
seed: 9
hosts: { a: {}, b: { ${host}, ${services} scm: { size: 1MiB } } }
programs: [${service} { on: a, run: ./client.ts, at: 200us }]
faults: ${faults}
`,
    { programs, trace: true },
  ).run(1e11);
  assert.deepEqual(rack.reported("program-failed"), []);
  return rack;
}

/** For each unit the number of the last request whose data in it is promised, −1 where none's is. */
function promisedBy(ops: readonly Op[], completed: readonly number[]): Int32Array {
  const promised = new Int32Array(UNITS).fill(-1);
  const written = new Int32Array(UNITS).fill(-1);
  const told = new Set(completed);
  for (const [i, { kind, from, to }] of ops.entries()) {
    if (kind === "plain" || kind === "persist") written.fill(i, from, to);
    if (!told.has(i)) continue;
    if (kind === "flush") promised.set(written.subarray(from, to), from);
    else if (kind !== "plain") promised.set(written);
  }
  return promised;
}

/** What is wrong with the SCM: each unit is what was promised, or a later request's. */
function firstBroken(ops: readonly Op[], rack: SimulatedRack): string | undefined {
  const completed = rack.reported("completed").map(({ i }) => Number(i));
  const promised = promisedBy(ops, completed);
  const [{ scmOffset } = {}] = rack.reported("opened");
  const from = Number(scmOffset);
  const scm = rack.scm.get("b")!.slice(from, from + UNITS * UNIT);
  for (const [unit, found] of new BigUint64Array(scm.buffer).entries()) {
    const least = promised[unit]!;
    const writer = Number(found >> 32n) - 1;
    if (writer < least) return `unit ${unit}: ${writer} is found, ${least} was promised`;
    if (found === 0n) continue;
    const { from, to, kind } = ops[writer] ?? { from: 0, to: 0 };
    const isWriters = found === valueOf(writer, unit) && from <= unit && unit < to;
    if (!isWriters || kind === "flush") return `unit ${unit}: ${found.toString(16)} is nobody's`;
  }
  return undefined;
}

/** The same write, as one whose completion promises it. */
function persisting(op: Op): Op {
  return op.kind === "plain" ? { ...op, kind: "persist" } : op;
}

/** Places of all sizes: on no line's bounds, across packets, on top of each other. */
function someOps(rng: Rng, count: number): Op[] {
  return Array.from({ length: count }, (): Op => {
    const draw = rng.below(100);
    const kind = draw < 70
      ? "plain"
      : draw < 85
      ? "persist"
      : draw < 90
      ? "empty persist"
      : "flush";
    const most = rng.below(8) === 0 ? 700 : 24;
    const from = rng.below(UNITS - most);
    const length = kind === "empty persist" ? 0 : 1 + rng.below(most);
    return { kind, from, to: from + (kind === "flush" ? 2 * length : length) };
  }).map((op): Op => ({ ...op, to: Math.min(op.to, UNITS) }));
}

/** Many small writes far from each other: more spans than the RNIC keeps apart, or tells a CPU of. */
function scattered(count: number): Op[] {
  const step = Math.floor(UNITS / count);
  const writes = Array.from({ length: count }, (_, i): Op => {
    // In no order, and each once: the count and 37 have no divisor in common.
    const from = (i * 37 % count) * step;
    return { kind: "plain", from, to: from + 1 + i % 5 };
  });
  return [...writes, { kind: "persist", from: UNITS - 3, to: UNITS }];
}

/** Cuts b's power right behind completions and between them. */
function* cuts(of: Run, count: number): Generator<SimulatedRack> {
  const whole = run(of);
  assert.deepEqual(whole.reported("ended"), [{ status: "SUCCESS" }]);
  const times = whole.reports.filter(({ topic }) => topic === "completed").map(({ time }) => time);
  for (let i = 0; i < count; i++) {
    const nth = Math.min(times.length - 1, Math.floor((i + 1) * times.length / count));
    const behind = i % 2 === 0 || nth === 0 ? times[nth]! + 1 : (times[nth - 1]! + times[nth]!) / 2;
    yield run({ ...of, faults: `[{ at: ${Math.round(behind)}ps, kill: b }]` });
  }
}

const HOSTS = {
  "flow 1": "ddio: off",
  "flow 1 by the NS bit": "ddio: on, architecture: ddio+ns",
  "flow 2": "ddio: on",
  "flow 2, a small LLC, any line evicted":
    "ddio: on, llc: { size: 8KiB, ways: 4, ddioWays: 2, evict: random }",
  "flow 2, eADR": "ddio: on, domain: eadr",
  "whole-system persistence": "ddio: on, domain: wsp",
} as const;

describe("plain and persistent writes and FLUSHes on one queue pair", () => {
  for (const [name, host] of Object.entries(HOSTS)) {
    it(`P-31, P-41: ${name}: each completion's promise is kept, wherever the power is cut`, () => {
      for (let seed = 1; seed <= 2; seed++) {
        const ops = someOps(rngFor(seed, name), 90);
        // Nothing is volatile that the bus has taken: a plain write's completion promises as much.
        const promising = name !== "whole-system persistence" ? ops : ops.map(persisting);
        for (const rack of cuts({ ops, host }, 5)) {
          assert.equal(firstBroken(promising, rack), undefined, `seed ${seed}`);
        }
      }
    });
  }

  for (const count of [9, 90]) {
    it(`P-26, P-31: flow 2: ${count} places far from each other, made persistent by one write`, () => {
      const ops = scattered(count);
      const undisturbed = run({ ops, host: HOSTS["flow 2"] });
      const flushes = undisturbed.traces.filter(({ step }) => step.step === "S1008");
      assert.equal(flushes.length, 1);
      // As many as the RECV's memory has room for, and the message's own.
      assert.equal(flushes[0]!.step.text.match(/ B at VA /g)?.length, 9);
      assert.equal(undisturbed.reported("completed").length, count + 1);
      assert.equal(firstBroken(ops, undisturbed), undefined);
    });
  }

  it("P-31: a service that flushes the last range only is found out", () => {
    const ops = [...scattered(9), ...scattered(9)];
    const broken = [...cuts({ ops, host: HOSTS["flow 2"], isDeaf: true }, 4)]
      .map((rack) => firstBroken(ops, rack));
    assert.ok(broken.some((each) => each !== undefined));
  });

  it("P-12, P-31: without any that persists nothing is promised, and something is lost", () => {
    const ops = scattered(90).slice(0, -1);
    for (const host of [HOSTS["flow 1"], HOSTS["flow 2"]]) {
      const lost = [...cuts({ ops, host }, 6)].filter((rack) => {
        const told = rack.reported("completed").map(({ i }) => Number(i));
        assert.equal(firstBroken(ops, rack), undefined);
        return told.length > 0 && firstBroken(ops.map(persisting), rack) !== undefined;
      });
      assert.ok(lost.length > 0, host);
    }
  });
});
