/**
 * Loopback: queue pairs of one card that are each other's peers, RC and UD, connected by hand and by the
 * connection manager. Every run ends with all checkers (`frames-are-conserved` sees the way inside the card).
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation } from "../../fabric/capture/observation.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { Cq, Mr, Pd, Qp } from "../../nodes/host/verbs/objects.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_ATOMIC,
  IBV_ACCESS_REMOTE_READ,
  IBV_ACCESS_REMOTE_WRITE,
} from "../../nodes/host/verbs/flags.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";
import { rcOptions } from "../support/two_programs.ts";

const BYTES = 10_000;

interface Own {
  readonly pd: Pd;
  readonly cq: Cq;
  readonly from: Mr;
  readonly to: Mr;
}

function* objects({ cpu, device }: ProgramContext): Steps<Own> {
  const { allocPd, createCq, regMr, must } = device.verbs;
  const pd = allocPd(device);
  const cq = must(yield* createCq(device, { entries: 64 }));
  const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
    IBV_ACCESS_REMOTE_ATOMIC;
  const from = must(yield* regMr(pd, cpu.allocate(BYTES), { access }));
  const to = must(yield* regMr(pd, cpu.allocate(BYTES), { access }));
  cpu.store(from.address, new Uint8Array(BYTES).map((_, i) => i % 251));
  return { pd, cq, from, to };
}

/** Waits for as many completions. @returns their opcodes and statuses, sorted. */
function* completions({ device }: ProgramContext, cq: Cq, count: number): Steps<string[]> {
  const all: string[] = [];
  while (all.length < count) {
    for (const { opcode, status } of yield* device.verbs.waitCompletion(cq)) {
      all.push(`${opcode} ${status}`);
    }
  }
  return all.sort();
}

/** Runs one program on host `a`; what it has reported, and the frames at its port and inside its card. */
function runOn(program: Program, defaults = "{}", fabric = "{}") {
  const frames = { port: 0, sent: 0, received: 0 };
  const see = (seen: Observation) => {
    if (seen.kind === "looped") {
      frames[seen.end]++;
      // At the port's rate of 100 Gb/s, 80 ps a byte, with FCS, preamble and gap.
      assert.equal(seen.endPs - seen.startPs, 80 * Math.max(84, seen.frame.length + 24));
    }
    if (seen.kind === "sent" && seen.frame !== undefined) frames.port++;
  };
  const rack = new SimulatedRack(
    `
name: loopback
defaults: ${defaults}
fabric: ${fabric}
hosts: { a: { services: none }, b: { services: none } }
programs: [{ on: a, run: ./mine.ts }]
`,
    { programs: { "./mine.ts": program }, observer: { scope: "wire", see, commit: () => {} } },
  ).run(1e11);
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.deepEqual(rack.reported("end").length, 1, "the program comes to its end");
  return { rack, frames };
}

function* connectTo(
  { device, cpu }: ProgramContext,
  qp: Qp,
  destQpn: number,
): Steps<void> {
  const { modifyQp, must } = device.verbs;
  const accessFlags = 0xf;
  must(yield* modifyQp(qp, { state: "init", accessFlags }));
  must(
    yield* modifyQp(qp, {
      state: "rtr",
      destAddress: cpu.addresses.a!,
      pathMtu: 1024,
      destQpn,
      rqPsn: 7,
      ...(qp.type === "rc" && { maxDestRdAtomic: 12, minRnrTimer: 1 }),
    }),
  );
  const timers = { timeout: 8, retryCnt: 7, rnrRetry: 7, maxRdAtomic: 12 };
  must(yield* modifyQp(qp, { state: "rts", sqPsn: 7, ...(qp.type === "rc" && timers) }));
}

/** Two queue pairs of the card that are each other's peers. */
function* twoPeers(
  context: ProgramContext,
  { pd, cq }: Pick<Own, "pd" | "cq">,
  type: "rc" | "uc" = "rc",
): Steps<[Qp, Qp]> {
  const { createQp, must } = context.device.verbs;
  const plan = { ...rcOptions(cq), type };
  const one = must(yield* createQp(pd, plan)), other = must(yield* createQp(pd, plan));
  yield* connectTo(context, one, other.qpn);
  yield* connectTo(context, other, one.qpn);
  return [one, other];
}

describe("Loopback", () => {
  for (const roce of ["v2", "v1"]) {
    it(`RC (RoCE${roce}): WRITE, READ and SEND between two queue pairs of one card`, () => {
      const { frames } = runOn(function* (context) {
        const { cpu, device: { verbs: v } } = context;
        const { pd, cq, from, to } = yield* objects(context);
        const [one, other] = yield* twoPeers(context, { pd, cq });
        const remote = { va: to.address, rkey: to.rkey };
        v.must(yield* v.postSend(one, { opcode: "write", sges: [v.sge(from)], remote }));
        assert.deepEqual(yield* completions(context, cq, 1), ["write SUCCESS"]);
        assert.deepEqual(cpu.load(to.address, BYTES), cpu.load(from.address, BYTES));
        cpu.store(to.address, new Uint8Array(BYTES).fill(9));
        v.must(yield* v.postSend(one, { opcode: "read", sges: [v.sge(from)], remote }));
        assert.deepEqual(yield* completions(context, cq, 1), ["read SUCCESS"]);
        assert.deepEqual(cpu.load(from.address, BYTES), new Uint8Array(BYTES).fill(9));
        v.must(yield* v.postRecv(other, { sges: [v.sge(to)] }));
        cpu.store(from.address, new Uint8Array(BYTES).fill(5));
        v.must(yield* v.postSend(one, { opcode: "send", sges: [v.sge(from)] }));
        assert.deepEqual(yield* completions(context, cq, 2), ["recv SUCCESS", "send SUCCESS"]);
        assert.deepEqual(cpu.load(to.address, BYTES), new Uint8Array(BYTES).fill(5));
        cpu.report("end", {});
      }, roce === "v1" ? "{ roce: v1 }" : "{}");
      // Ten packets of each message, and answers; none is at the port.
      assert.ok(frames.sent > 30, `${frames.sent} frames inside`);
      assert.deepEqual(frames, { port: 0, sent: frames.sent, received: frames.sent });
    });
  }

  it("UC: WRITE with immediate and SEND between two queue pairs of one card", () => {
    const { frames } = runOn(function* (context) {
      const { cpu, device: { verbs: v } } = context;
      const { pd, cq, from, to } = yield* objects(context);
      const [one, other] = yield* twoPeers(context, { pd, cq }, "uc");
      v.must(yield* v.postRecv(other, [{ sges: [v.sge(to)] }, { sges: [v.sge(to)] }]));
      const remote = { va: to.address, rkey: to.rkey };
      const write = {
        opcode: "write-immediate",
        immediate: 7,
        sges: [v.sge(from)],
        remote,
      } as const;
      v.must(yield* v.postSend(one, write));
      yield* completions(context, cq, 2);
      assert.deepEqual(cpu.load(to.address, BYTES), cpu.load(from.address, BYTES));
      cpu.store(from.address, new Uint8Array(BYTES).fill(5));
      v.must(yield* v.postSend(one, { opcode: "send", sges: [v.sge(from)] }));
      assert.deepEqual(yield* completions(context, cq, 2), ["recv SUCCESS", "send SUCCESS"]);
      assert.deepEqual(cpu.load(to.address, BYTES), new Uint8Array(BYTES).fill(5));
      cpu.report("end", {});
    });
    assert.deepEqual(frames, { port: 0, sent: 20, received: 20 }, "ten packets each, no answers");
  });

  for (const fabric of ["{ pfc: on }", "{ ecn: on, dcqcn: on }"]) {
    it(`RC on a rack with fabric: ${fabric}`, () => {
      const { frames } = runOn(
        function* (context) {
          const { cpu, device: { verbs: v } } = context;
          const { pd, cq, from, to } = yield* objects(context);
          const [one] = yield* twoPeers(context, { pd, cq });
          const remote = { va: to.address, rkey: to.rkey };
          v.must(yield* v.postSend(one, { opcode: "write", sges: [v.sge(from)], remote }));
          assert.deepEqual(yield* completions(context, cq, 1), ["write SUCCESS"]);
          assert.deepEqual(cpu.load(to.address, BYTES), cpu.load(from.address, BYTES));
          cpu.report("end", {});
        },
        "{}",
        fabric,
      );
      assert.deepEqual(frames.sent, frames.received);
      assert.equal(frames.port, 0);
    });
  }

  it("RC: a queue pair may be its own peer", () => {
    runOn(function* (context) {
      const { cpu, device: { verbs: v } } = context;
      const { pd, cq, from, to } = yield* objects(context);
      const plan = rcOptions(cq);
      const qp = v.must(yield* v.createQp(pd, plan));
      yield* connectTo(context, qp, qp.qpn);
      const remote = { va: to.address, rkey: to.rkey };
      v.must(yield* v.postSend(qp, { opcode: "write", sges: [v.sge(from)], remote }));
      assert.deepEqual(yield* completions(context, cq, 1), ["write SUCCESS"]);
      assert.deepEqual(cpu.load(to.address, BYTES), cpu.load(from.address, BYTES));
      cpu.report("end", {});
    });
  });

  it("RC: an error is an error: a key that is not registered is refused by the responder", () => {
    runOn(function* (context) {
      const { cpu, device: { verbs: v } } = context;
      const { pd, cq, from, to } = yield* objects(context);
      const [one] = yield* twoPeers(context, { pd, cq });
      const remote = { va: to.address, rkey: to.rkey ^ 0x100 };
      v.must(yield* v.postSend(one, { opcode: "write", sges: [v.sge(from)], remote }));
      assert.deepEqual(yield* completions(context, cq, 1), ["write REM_ACCESS_ERR"]);
      cpu.report("end", {});
    });
  });

  it("UD: a datagram to the own address, with its sender's address and QPN", () => {
    const { frames } = runOn(function* (context) {
      const { cpu, device: { verbs: v } } = context;
      const { pd, cq, from, to } = yield* objects(context);
      const plan = { ...rcOptions(cq), type: "ud" } as const;
      const qps = [
        v.must(yield* v.createQp(pd, plan)),
        v.must(yield* v.createQp(pd, plan)),
      ] as const;
      for (const qp of qps) {
        v.must(yield* v.modifyQp(qp, { state: "init", qKey: 77 }));
        v.must(yield* v.modifyQp(qp, { state: "rtr" }));
        v.must(yield* v.modifyQp(qp, { state: "rts", sqPsn: 0 }));
      }
      const [one, other] = qps;
      v.must(yield* v.postRecv(other, { sges: [v.sge(to)] }));
      const ah = v.must(v.createAh(pd, { address: cpu.addresses.a! }));
      const ud = { ah, qpn: other.qpn, qKey: 77 };
      v.must(yield* v.postSend(one, { opcode: "send", sges: [v.sge(from, 0, 100)], ud }));
      const seen = [];
      while (seen.length < 2) seen.push(...yield* v.waitCompletion(cq));
      const received = seen.find(({ opcode }) => opcode === "recv")!;
      assert.deepEqual([received.status, received.byteLen], ["SUCCESS", 140]);
      assert.equal(received.srcQp, one.qpn);
      const reply = v.must(v.createAhFromWc(pd, cpu.load(to.address, 40)));
      assert.equal(reply.address, cpu.addresses.a);
      assert.deepEqual(cpu.load(to.address + 40, 100), cpu.load(from.address, 100));
      cpu.report("end", {});
    });
    assert.deepEqual(frames, { port: 0, sent: 1, received: 1 });
  });

  it("a WRITE over the way inside is as fast as one over the wire, but for cables and switch", () => {
    const timeOf = (to: "a" | "b") => {
      const times: number[] = [];
      const side = (own: "a" | "b"): Program =>
        function* (context) {
          const { cpu, device } = context;
          const { verbs: v } = device;
          const { pd, cq, from, to: region } = yield* objects(context);
          const qp = { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4, sqSigAll: true };
          if (own === to) {
            const listener = v.must(v.listen(device, "loop"));
            cpu.spawn("server", function* (inner) {
              const event = yield* v.waitEvent({ ...listener, device: inner.device });
              assert.ok(event?.kind === "request");
              const privateData = new Uint8Array(12);
              const view = new DataView(privateData.buffer);
              view.setFloat64(0, region.address);
              view.setUint32(8, region.rkey);
              const made = yield* v.accept(listener, event.request, { qp, privateData });
              assert.ok(!v.refused(made), "accepted");
            });
          }
          if (own !== "a") return;
          yield* cpu.sleep(300_000_000);
          const made = yield* v.connect(device, { to, service: "loop", qp });
          if (v.refused(made)) throw new Error(made.reason);
          const view = new DataView(made.privateData.buffer, made.privateData.byteOffset);
          const remote = { va: view.getFloat64(0), rkey: view.getUint32(8) };
          const sges = [v.sge(from, 0, 64)];
          for (let i = 0; i < 3; i++) {
            const began = cpu.now;
            v.must(yield* v.postSend(made.qp, { opcode: "write", sges, remote }));
            yield* completions(context, cq, 1);
            times.push(cpu.now - began);
          }
          yield* v.disconnect(made);
        };
      const rack = new SimulatedRack(
        `
name: times
hosts: { a: { services: none }, b: { services: none } }
programs: [{ on: a, run: ./a.ts }, { on: b, run: ./b.ts }]
`,
        { programs: { "./a.ts": side("a"), "./b.ts": side("b") } },
      ).run(1e11);
      assert.deepEqual(rack.reported("program-failed"), []);
      const cable = rack.plan.cables.find(({ kind }) => kind === "network")!;
      return { ps: times.at(-1)!, latencyPs: cable.latencyPs };
    };
    const near = timeOf("a"), far = timeOf("b");
    // Two cables each way, and at least their latency of difference; the card's own stages remain.
    const savedPs = far.ps - near.ps;
    assert.ok(savedPs >= 4 * far.latencyPs, `${near.ps} ps inside, ${far.ps} ps over the wire`);
    assert.ok(near.ps > 500_000, `${near.ps} ps`);
  });
});
