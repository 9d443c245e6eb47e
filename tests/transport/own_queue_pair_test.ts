/** `connect` and `accept` by name with queue pairs of the program's own, and with depths of READs and atomics. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_MS } from "../../fabric/base/time.ts";
import type { Connection, Refusal } from "../../nodes/host/cm/connection.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import type { Cq, Mr, Pd } from "../../nodes/host/verbs/objects.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SERVICE = "own";
const DEPTHS = { maxSendWr: 4, maxRecvWr: 4 };

interface Side {
  readonly context: ProgramContext;
  readonly pd: Pd;
  readonly cq: Cq;
  readonly mr: Mr;
}

function* sideOf(context: ProgramContext): Steps<Side> {
  const { allocPd, createCq, regMr, must } = context.device.verbs;
  const pd = allocPd(context.device);
  const cq = must(yield* createCq(context.device, { entries: 16 }));
  const access = IBV_ACCESS_LOCAL_WRITE;
  const mr = must(yield* regMr(pd, context.cpu.allocate(64), { access }));
  return { context, pd, cq, mr };
}

function* ownQp({ context: { device: { verbs: v } }, pd, cq }: Side, type: "rc" | "ud" = "rc") {
  return v.must(yield* v.createQp(pd, { type, sendCq: cq, recvCq: cq, ...DEPTHS }));
}

function connected(made: Connection | Refusal): Connection {
  if ("refused" in made) throw new Error(made.reason);
  return made;
}

/** The server accepts with its own queue pair, sends, and waits for the end. */
function runBoth(client: (side: Side) => Steps<void>): SimulatedRack {
  const server: Program = function* (context) {
    const side = yield* sideOf(context), { cpu, device } = context, v = device.verbs;
    const qp = yield* ownQp(side);
    const listener = v.must(v.listen(device, SERVICE));
    for (;;) {
      const event = yield* v.waitEvent(listener);
      if (event?.kind !== "request") continue;
      const { request } = event;
      const made = connected(yield* v.accept(listener, request, { qp, responderResources: 2 }));
      assert.equal(made.qp, qp);
      while ((yield* v.waitEvent(listener))?.kind !== "established") continue;
      const { maxDestRdAtomic, maxRdAtomic } = v.must(yield* v.queryQp(qp)).attributes;
      cpu.report("server", { maxDestRdAtomic, maxRdAtomic });
      cpu.store(side.mr.address, new Uint8Array(64).fill(7));
      const sges = [v.sge(side.mr)];
      v.must(yield* v.postSend(qp, { opcode: "send", sendFlags: IBV_SEND_SIGNALED, sges }));
      yield* v.waitDisconnect(made);
      // The queue pair is its program's: it is in ERR, and goes by the program's call.
      yield* v.disconnect(made);
      cpu.report("left", v.must(yield* v.queryQp(qp)).state);
      cpu.report("destroyed", (yield* v.destroyQp(qp)) ?? "ok");
    }
  };
  const rack = new SimulatedRack(
    `
name: own-queue-pairs
defaults: { services: none }
hosts: { a: {}, b: {} }
programs: [{ on: b, program: ./server.ts }, { on: a, program: ./client.ts, at: 300us }]
`,
    {
      programs: {
        "./server.ts": server,
        "./client.ts": function* (context) {
          yield* client(yield* sideOf(context));
          context.cpu.report("end", "client");
        },
      },
    },
  ).run(100 * PS_PER_MS);
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.deepEqual(rack.reported("end"), ["client"]);
  return rack;
}

describe("a connection by name with a queue pair of one's own", () => {
  it("takes those in INIT with receives posted and in RESET, agrees on depths, and leaves them at its end", () => {
    const rack = runBoth(function* (side) {
      const { context: { device, cpu }, cq, mr } = side, v = device.verbs;
      const qp = yield* ownQp(side);
      v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
      v.must(yield* v.postRecv(qp, { wrId: 5, sges: [v.sge(mr)] }));
      const options = { to: "b", service: SERVICE, qp, initiatorDepth: 8, responderResources: 4 };
      const made = connected(yield* v.connect(device, options));
      assert.equal(made.qp, qp);
      const { maxDestRdAtomic, maxRdAtomic, accessFlags } = v.must(yield* v.queryQp(qp)).attributes;
      assert.deepEqual({ maxDestRdAtomic, maxRdAtomic, accessFlags }, {
        maxDestRdAtomic: 4,
        maxRdAtomic: 2,
        accessFlags: 0,
      });
      const [done] = yield* v.waitCompletion(cq);
      assert.deepEqual([done!.wrId, done!.status, cpu.load(mr.address, 1)[0]], [5, "SUCCESS", 7]);
      yield* v.disconnect(made);
      assert.equal(v.must(yield* v.queryQp(qp)).state, "err");
      assert.equal(yield* v.destroyQp(qp), undefined);
      yield* cpu.sleep(PS_PER_MS);
    });
    assert.deepEqual(rack.reported("server"), [{ maxDestRdAtomic: 2, maxRdAtomic: 4 }]);
    assert.deepEqual([rack.reported("left"), rack.reported("destroyed")], [["err"], ["ok"]]);
  });

  it("leaves it to the program where the connection is refused, which may connect it again", () => {
    runBoth(function* (side) {
      const { context: { device } } = side, v = device.verbs;
      const qp = yield* ownQp(side);
      const none = yield* v.connect(device, { to: "b", service: "none", qp });
      assert.ok("refused" in none && none.refused === "no-service");
      assert.equal(v.must(yield* v.queryQp(qp)).state, "init");
      const made = connected(yield* v.connect(device, { to: "b", service: SERVICE, qp }));
      const again = yield* v.connect(device, { to: "b", service: SERVICE, qp });
      assert.ok("refused" in again && again.refused === "local");
      assert.match(again.reason, /QP \d+ has a connection: expected one without/);
      yield* v.disconnect(made);
      const late = yield* v.connect(device, { to: "b", service: SERVICE, qp });
      assert.ok("refused" in late);
      assert.match(late.reason, /QP \d+ is in state err: expected reset or init/);
      v.must((yield* v.destroyQp(qp)) ?? 1);
      const gone = yield* v.connect(device, { to: "b", service: SERVICE, qp });
      assert.ok("refused" in gone && /gone already/.test(gone.reason));
    });
  });

  it("refuses a datagram's queue pair, and depths that no queue pair has", () => {
    runBoth(function* (side) {
      const { context: { device } } = side, v = device.verbs;
      const ud = yield* ownQp(side, "ud"), qp = yield* ownQp(side);
      const options = { to: "b", service: SERVICE };
      const found: string[] = [];
      for (
        const wrong of [
          { ...options, qp: ud },
          { ...options, qp, initiatorDepth: 17 },
          { ...options, qp, responderResources: -1 },
        ]
      ) {
        const made = yield* v.connect(device, wrong);
        assert.ok("refused" in made && made.refused === "local");
        found.push(made.reason);
      }
      assert.match(found[0]!, /is of type ud: expected rc or uc/);
      assert.match(found[1]!, /initiatorDepth.*17.*16/);
      assert.match(found[2]!, /responderResources.*-1.*16/);
    });
  });
});
