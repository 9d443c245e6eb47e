/**
 * Ends of connections and of listening on a rack: what each side is told, and what is refused at the call
 * with what was found and what was expected.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Observation } from "../../fabric/capture/observation.ts";
import { decodeCm } from "../../fabric/wire/roce/cm.ts";
import { NEVER } from "../../fabric/base/time.ts";
import { GSI_QPN } from "../../fabric/wire/roce/bth.ts";
import { decodePacket, isRefusal } from "../../fabric/wire/roce/packet.ts";
import type { Connection, Refusal } from "../../nodes/host/cm/connection.ts";
import type { AcceptOptions, ConnectRequest, Listener } from "../../nodes/host/cm/listen.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const SERVICE = "ends";
const MS = 1_000_000_000;
/** Programs stay beyond the end of the run: what they have made would be taken back with their ends. */
const RUN_PS = 100 * MS, AFTER_PS = 2 * RUN_PS;

interface Side {
  readonly context: ProgramContext;
  readonly qp: AcceptOptions["qp"];
}

type Server = (side: Side & { readonly listener: Listener }) => Steps<void>;
type Client = (side: Side) => Steps<void>;

function* sideOf(context: ProgramContext): Steps<Side> {
  const { allocPd, createCq, must } = context.device.verbs;
  const pd = allocPd(context.device);
  const cq = must(yield* createCq(context.device, { entries: 64 }));
  return { context, qp: { pd, sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 } };
}

/** Runs both on two hosts to their ends. `sent`: types of the CM's messages, by sender, in order. */
function runBoth(server: Server, client: Client) {
  const sent: string[] = [];
  const see = (seen: Observation) => {
    if (seen.kind !== "sent" || seen.frame === undefined) return;
    const { name, kind } = rack.plan.nodes[seen.node]!;
    const packet = decodePacket(seen.frame);
    if (kind !== "rnic" || isRefusal(packet) || packet.bth.destQpn !== GSI_QPN) return;
    sent.push(`${name[0]} ${decodeCm(packet.payload)?.type}`);
  };
  const programs: Record<string, Program> = {
    "./server.ts": function* (context) {
      const side = yield* sideOf(context);
      const { listen, must } = context.device.verbs;
      yield* server({ ...side, listener: must(listen(context.device, SERVICE)) });
      context.cpu.report("end", "server");
      yield* context.cpu.sleep(AFTER_PS);
    },
    "./client.ts": function* (context) {
      yield* client(yield* sideOf(context));
      context.cpu.report("end", "client");
      yield* context.cpu.sleep(AFTER_PS);
    },
  };
  const rack = new SimulatedRack(
    `
name: ends
hosts: { a: { services: none }, b: { services: none } }
programs: [{ on: b, run: ./server.ts }, { on: a, run: ./client.ts, at: 300us }]
`,
    { programs, observer: { scope: "wire", see, commit: () => {} } },
  );
  rack.run(RUN_PS);
  assert.deepEqual(rack.reported("program-failed"), []);
  assert.equal(rack.reported("end").length, 2, "both programs come to their ends");
  return { rack, sent };
}

function* nextRequest({ context, listener }: { context: ProgramContext; listener: Listener }) {
  const event = yield* context.device.verbs.waitEvent(listener, context.cpu.now + 10 * MS);
  assert.ok(event?.kind === "request", `a request, not ${event?.kind}`);
  return event.request;
}

function connected(made: Connection | Refusal): Connection {
  if ("refused" in made) throw new Error(made.reason);
  return made;
}

function* connectTo({ context: { device }, qp }: Side): Steps<Connection> {
  return connected(yield* device.verbs.connect(device, { to: "b", service: SERVICE, qp }));
}

describe("The end of a connection", () => {
  it("by the passive side is told to the active one, and the other way round", () => {
    for (const ends of ["server", "client"] as const) {
      const { sent } = runBoth(function* ({ context, qp, listener }) {
        const { accept, disconnect, waitEvent, isDisconnected } = context.device.verbs;
        const made = connected(
          yield* accept(listener, yield* nextRequest({ context, listener }), { qp }),
        );
        assert.equal((yield* waitEvent(listener))?.kind, "established");
        if (ends === "server") assert.equal(isDisconnected(made), false);
        if (ends === "server") yield* disconnect(made);
        const event = yield* waitEvent(listener, context.cpu.now + 10 * MS);
        assert.ok(event?.kind === "closed");
        assert.deepEqual(event.endpoint.end, { kind: "disconnected" });
        assert.equal(event.endpoint, made.endpoint);
        if (ends === "client") yield* disconnect(made);
      }, function* (side) {
        const { cpu, device: { verbs: v } } = side.context;
        const made = yield* connectTo(side);
        if (ends === "client") return yield* v.disconnect(made);
        assert.equal(yield* v.waitDisconnect(made, cpu.now + 10 * MS), "disconnected");
        assert.equal(v.isDisconnected(made), true);
        yield* v.disconnect(made);
      });
      const [one, other] = ends === "server" ? ["b", "a"] : ["a", "b"];
      assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", `${one} DREQ`, `${other} DREP`]);
    }
  });

  it("wakes a program that waits for completions", () => {
    runBoth(function* ({ context, qp, listener }) {
      const { accept, disconnect, waitEvent } = context.device.verbs;
      const made = connected(
        yield* accept(listener, yield* nextRequest({ context, listener }), { qp }),
      );
      yield* waitEvent(listener);
      yield* disconnect(made);
    }, function* (side) {
      const { cpu, device: { verbs: v } } = side.context;
      const made = yield* connectTo(side);
      const also = v.disconnecting(made);
      const found = yield* v.waitCompletion(side.qp.sendCq, { deadline: cpu.now + 10 * MS, also });
      assert.deepEqual([found.length, v.isDisconnected(made)], [0, true]);
      assert.equal(yield* v.waitDisconnect(made, cpu.now), "disconnected");
    });
  });

  it("waitDisconnect ends at its deadline", () => {
    runBoth(function* ({ context, qp, listener }) {
      connected(
        yield* context.device.verbs.accept(listener, yield* nextRequest({ context, listener }), {
          qp,
        }),
      );
    }, function* (side) {
      const { cpu, device: { verbs: v } } = side.context;
      const made = yield* connectTo(side);
      const deadline = cpu.now + MS;
      assert.equal(yield* v.waitDisconnect(made, deadline), "timeout");
      assert.equal(cpu.now, deadline);
    });
  });

  it("before the RTU has come: the DREQ follows it, and the active side is told", () => {
    const { sent } = runBoth(function* ({ context, qp, listener }) {
      const { accept, disconnect } = context.device.verbs;
      const made = connected(
        yield* accept(listener, yield* nextRequest({ context, listener }), { qp }),
      );
      assert.equal(made.endpoint.phase, "rep-sent");
      yield* disconnect(made);
      assert.deepEqual(made.endpoint.end, { kind: "disconnected" });
      assert.equal(context.device.state.queuePairs.has(made.qp.qpn), false);
    }, function* (side) {
      const { cpu, device: { verbs: v } } = side.context;
      const made = yield* connectTo(side);
      assert.equal(yield* v.waitDisconnect(made, cpu.now + 10 * MS), "disconnected");
    });
    assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "b DREQ", "a DREP"]);
  });
});

describe("The end of listening", () => {
  it("later requests find no service, who waits is told, and the connection stands", () => {
    const { rack } = runBoth(function* ({ context, qp, listener }) {
      const { accept, unlisten, waitEvent, must, failed } = context.device.verbs;
      const made = connected(
        yield* accept(listener, yield* nextRequest({ context, listener }), { qp }),
      );
      yield* waitEvent(listener);
      must(yield* unlisten(listener));
      assert.equal((yield* waitEvent(listener))?.kind, "ended");
      const again = yield* unlisten(listener);
      assert.ok(failed(again) && again.errno === "EINVAL");
      assert.equal(made.endpoint.phase, "established");
      // Another program may listen for the service now.
      assert.ok(!failed(context.device.verbs.listen(context.device, "other")));
      yield* context.cpu.sleep(5 * MS);
    }, function* (side) {
      const { cpu, device } = side.context;
      yield* connectTo(side);
      yield* cpu.sleep(MS);
      const later = yield* device.verbs.connect(device, { to: "b", service: SERVICE, qp: side.qp });
      assert.ok("refused" in later);
      cpu.report("refused", { refused: later.refused, reason: later.reason });
    });
    assert.deepEqual(rack.reported("refused"), [{
      refused: "no-service",
      reason: "Rejected, reason 8 (invalid service ID: no program listens)",
    }]);
  });

  it("a request that is not answered is refused", () => {
    runBoth(function* ({ context, listener, qp }) {
      const { unlisten, must, accept, reject, failed } = context.device.verbs;
      const request = yield* nextRequest({ context, listener });
      must(yield* unlisten(listener));
      const late = yield* accept(listener, request, { qp });
      assert.ok("refused" in late, "too late");
      const rejected = yield* reject(listener, request);
      assert.ok(failed(rejected));
      assert.equal(rejected.reason, "The request is closed: expected req-received");
    }, function* (side) {
      const { device } = side.context;
      const made = yield* device.verbs.connect(device, { to: "b", service: SERVICE, qp: side.qp });
      assert.ok("refused" in made && made.refused === "no-service");
    });
  });
});

describe("Options of a connection are refused at the call, and nothing is sent", () => {
  const bytes = (length: number) => new Uint8Array(length).fill(7);

  it("private data beyond the room of REQ, REP and REJ; what fits arrives whole", () => {
    const { sent } = runBoth(function* ({ context, listener, qp }) {
      const { accept, reject, failed } = context.device.verbs;
      const asked = function* (request: ConnectRequest, length: number) {
        return yield* accept(listener, request, { qp, privateData: bytes(length) });
      };
      const first = yield* nextRequest({ context, listener });
      assert.deepEqual(first.privateData, bytes(88));
      const tooMuch = yield* asked(first, 193);
      assert.ok("refused" in tooMuch);
      assert.equal(tooMuch.reason, "The private data has 193 B: expected at most 192 B in a REP");
      connected(yield* asked(first, 192));
      const twice = yield* asked(first, 0);
      assert.ok("refused" in twice);
      assert.match(twice.reason, /The request is (rep-sent|established): expected req-received/);
      let second: ConnectRequest | undefined;
      while (second === undefined) {
        const event = yield* context.device.verbs.waitEvent(listener);
        if (event?.kind === "request") second = event.request;
      }
      const refusal = yield* reject(listener, second, { privateData: bytes(149) });
      assert.ok(failed(refusal) && refusal.errno === "EINVAL");
      assert.equal(refusal.reason, "The private data has 149 B: expected at most 148 B in a REJ");
      context.device.verbs.must(yield* reject(listener, second, { privateData: bytes(148) }));
    }, function* ({ context: { device }, qp }) {
      const { connect } = device.verbs;
      const options = { to: "b", service: SERVICE, qp };
      const tooMuch = yield* connect(device, { ...options, privateData: bytes(89) });
      assert.ok("refused" in tooMuch);
      assert.equal(tooMuch.reason, "The private data has 89 B: expected at most 88 B in a REQ");
      const made = connected(yield* connect(device, { ...options, privateData: bytes(88) }));
      assert.deepEqual(made.privateData, bytes(192));
      const rejected = yield* connect(device, options);
      assert.ok("refused" in rejected);
      assert.match(rejected.reason, /reason 28 \(consumer reject/);
      assert.deepEqual(rejected.privateData, bytes(148));
    });
    assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "a REQ", "b REJ"]);
  });

  it("time-outs, tries and timers out of range", () => {
    const { sent } = runBoth(function* ({ context: { cpu, device } }) {
      const { listen, failed } = device.verbs;
      yield* cpu.sleep(1);
      for (const timeoutPs of [0, -1, 1.5, NaN, 1e19]) {
        const wrong = listen(device, "other", { retry: { timeoutPs } });
        assert.ok(failed(wrong) && wrong.errno === "EINVAL", `${timeoutPs}`);
        assert.match(
          wrong.reason,
          /retry\.timeoutPs is .*: expected picoseconds, a whole number ≥ 1, below 2\^53/,
        );
      }
    }, function* ({ context: { device }, qp }) {
      const options = { to: "b", service: SERVICE, qp };
      for (
        const [wrong, text] of [
          [{ transport: { timeout: 32 } }, /transport\.timeout is 32: .* 0 to 31/],
          [{ transport: { retryCnt: 8 } }, /transport\.retryCnt is 8: .* 0 to 7/],
          [{ transport: { rnrRetry: -1 } }, /transport\.rnrRetry is -1: .* 0 to 7/],
          [{ transport: { minRnrTimer: 2.5 } }, /transport\.minRnrTimer is 2\.5: .* 0 to 31/],
          [{ initiatorDepth: 17 }, /initiatorDepth is 17: .* 0 to 16/],
          [{ path: { trafficClass: 256 } }, /path\.trafficClass is 256: .* 0 to 255/],
          [{ path: { hopLimit: -1 } }, /path\.hopLimit is -1: .* 0 to 255/],
          [{ retry: { tries: 0 } }, /retry\.tries is 0: .* 1 to 16/],
          [{ retry: { tries: 17 } }, /retry\.tries is 17: .* 1 to 16/],
          [{ service: "much too long" }, /service is much too long: expected 1 to 8 ASCII/],
        ] as const
      ) {
        const made = yield* device.verbs.connect(device, { ...options, ...wrong });
        assert.ok("refused" in made && made.refused === "local");
        assert.match(made.reason, text);
      }
      assert.equal(device.state.queuePairs.size, 1, "QP 1 alone");
    });
    assert.deepEqual(sent, []);
  });
});

/** A client SENDs (rnr_retry 7) to a server that posts no receive. @param returns whose program returns early. */
function sendUnreceived(returns: "client" | "server" | "neither"): SimulatedRack {
  const server: Program = function* (context) {
    const { qp } = yield* sideOf(context);
    const { listen, accept, waitEvent, must } = context.device.verbs;
    const listener = must(listen(context.device, SERVICE));
    const request = yield* nextRequest({ context, listener });
    connected(yield* accept(listener, request, { qp, transport: { minRnrTimer: 20 } }));
    if (returns === "server") return void (yield* context.cpu.sleep(MS));
    for (;;) context.cpu.report("heard", (yield* waitEvent(listener))?.kind);
  };
  const client: Program = function* (context) {
    const side = yield* sideOf(context);
    const { regMr, postSend, sge, waitCompletion, must } = context.device.verbs;
    const mr = must(
      yield* regMr(side.qp.pd, context.cpu.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE }),
    );
    const { qp } = yield* connectTo(side);
    must(yield* postSend(qp, { opcode: "send", sendFlags: IBV_SEND_SIGNALED, sges: [sge(mr)] }));
    if (returns === "client") return void (yield* context.cpu.sleep(MS));
    for (const { status } of yield* waitCompletion(side.qp.sendCq)) {
      context.cpu.report("completed", status);
    }
  };
  // deno-lint-ignore require-yield -- it only looks
  const looking: Program = function* ({ cpu, device: { state: { queuePairs, regions } } }) {
    cpu.report("left", [queuePairs.size, regions.size]);
  };
  const programs = { "./server.ts": server, "./client.ts": client, "./looking.ts": looking };
  return new SimulatedRack(
    `
name: unreceived
hosts: { a: { services: none }, b: { services: none } }
programs:
  - { on: b, run: ./server.ts }
  - { on: a, run: ./client.ts, at: 300us }
  - { on: a, run: ./looking.ts, at: 50ms }
`,
    { programs },
  ).run(1e14);
}

describe("A SEND that gets no receive", () => {
  const leftOf = (rack: SimulatedRack) => {
    assert.equal(rack.simulator.next, NEVER, "nothing is left to happen");
    assert.deepEqual(rack.reported("program-failed"), []);
    return rack.simulator.unfinished().filter(({ value }) => !value.serves);
  };

  it("lets the run end, with a warning, where its program waits for it", () => {
    const rack = sendUnreceived("neither");
    const [left, ...others] = leftOf(rack);
    assert.deepEqual(others, []);
    assert.equal(left!.value.program.split("#")[0], "./client.ts");
    assert.match(left!.value.waitsFor, /waitCompletion/);
    const [warning, ...more] = rack.reported("warning");
    assert.match(String(warning?.message), /^queue pair \d+ retries for ever: RNR NAK/);
    assert.deepEqual(more, []);
  });

  it("ends with its program, whose queue pair is taken back as a kernel does, and the peer is told", () => {
    const rack = sendUnreceived("client");
    assert.deepEqual(leftOf(rack), []);
    assert.deepEqual(rack.reported("heard"), ["established", "closed"]);
    assert.deepEqual(rack.reported("warning"), []);
    assert.deepEqual(rack.reported("left"), [[1, 2]], "QP 1 and its buffers");
  });

  it("exhausts its retries where the server's program has returned, whose queue pair is gone", () => {
    const rack = sendUnreceived("server");
    assert.deepEqual(leftOf(rack), []);
    assert.deepEqual(rack.reported("completed"), ["RETRY_EXC_ERR"]);
    assert.deepEqual(rack.reported("warning"), []);
  });
});
