/**
 * librdmacm's ids in port space tcp: the order of events as rping and cmtime expect it, queue pairs of the
 * program's own, ends in each phase, and what is refused.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RdmaId } from "../../nodes/host/cm/rdma_id.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { Qp, VerbError } from "../../nodes/host/verbs/objects.ts";
import {
  acceptOne,
  BYTES,
  connectTo,
  expectEvent,
  expectNothing,
  listenOn,
  PORT,
  type RdmaSide,
  routeTo,
  runRdma,
} from "../support/rdma_programs.ts";
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";

const MS = 1_000_000_000;
const bytes = (length: number, value = 7) => new Uint8Array(length).fill(value);

/** A SEND from the client, which the server receives. */
function* sendOne({ v, cq, mr, context: { cpu } }: RdmaSide, qp: Qp): Steps<void> {
  cpu.store(mr.address, bytes(BYTES, 3));
  v.must(
    yield* v.postSend(qp, { opcode: "send", sendFlags: IBV_SEND_SIGNALED, sges: [v.sge(mr)] }),
  );
  assert.deepEqual((yield* v.waitCompletion(cq)).map(({ status }) => status), ["SUCCESS"]);
}

function* receiveOne({ v, cq, mr, context: { cpu } }: RdmaSide): Steps<void> {
  assert.deepEqual((yield* v.waitCompletion(cq)).map(({ status }) => status), ["SUCCESS"]);
  assert.deepEqual(cpu.load(mr.address, BYTES), bytes(BYTES, 3));
}

/** Takes a connection to its end as rping's server does. */
function* pingServer(side: RdmaSide): Steps<void> {
  const { v, pd, qp, mr, log, context: { device } } = side;
  const listener = listenOn(side);
  const { id, listenId, param } = yield* expectEvent(side, "CONNECT_REQUEST");
  assert.ok(listenId === listener);
  assert.deepEqual(param.conn?.privateData.subarray(0, 3), new Uint8Array([1, 2, 3]));
  assert.equal(param.conn?.privateData.length, 56);
  assert.deepEqual([param.conn.responderResources, param.conn.initiatorDepth], [3, 5], "swapped");
  assert.deepEqual([param.conn.retryCount, param.conn.rnrRetryCount], [6, 5]);
  assert.equal(id.peer.host, "a");
  const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
  v.must(yield* v.postRecv(own, { sges: [v.sge(mr)] }));
  v.must(yield* v.rdmaAccept(id, { privateData: bytes(196) }));
  yield* expectEvent(side, "ESTABLISHED");
  assert.equal(own.life.attributes.maxRdAtomic, 5);
  assert.equal(own.life.attributes.maxDestRdAtomic, 3);
  yield* receiveOne(side);
  yield* expectEvent(side, "DISCONNECTED");
  v.must(yield* v.rdmaDisconnect(id));
  assert.equal(own.life.state, "err");
  yield* expectEvent(side, "TIMEWAIT_EXIT");
  v.must(yield* v.rdmaDestroyQp(id));
  v.must(yield* v.rdmaDestroyId(id));
  v.must(yield* v.rdmaDestroyId(listener));
  v.must(v.rdmaDestroyEventChannel(side.channel));
  assert.equal(device.cm.agent.listeners.size, 0);
  assert.deepEqual(log, ["CONNECT_REQUEST", "ESTABLISHED", "DISCONNECTED", "TIMEWAIT_EXIT"]);
}

function* pingClient(side: RdmaSide, to: string): Steps<void> {
  const { v, pd, qp, context: { cpu } } = side;
  const id = yield* routeTo(side, to);
  const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
  assert.equal(own.life.state, "init");
  v.must(
    yield* v.rdmaConnect(id, {
      privateData: new Uint8Array([1, 2, 3]),
      initiatorDepth: 3,
      responderResources: 5,
      retryCount: 6,
      rnrRetryCount: 5,
    }),
  );
  const { param } = yield* expectEvent(side, "ESTABLISHED");
  assert.deepEqual(param.conn?.privateData, bytes(196));
  assert.deepEqual([param.conn.responderResources, param.conn.initiatorDepth], [5, 3]);
  assert.equal(own.life.state, "rts");
  assert.deepEqual([own.life.attributes.retryCnt, own.life.attributes.rnrRetry], [6, 7]);
  yield* sendOne(side, own);
  v.must(yield* v.rdmaDisconnect(id));
  yield* expectEvent(side, "DISCONNECTED");
  const at = cpu.now;
  yield* expectEvent(side, "TIMEWAIT_EXIT");
  assert.ok(cpu.now - at > MS, "time wait takes the ACK time-out, 1.05 ms");
  v.must(yield* v.rdmaDestroyQp(id));
  v.must(yield* v.rdmaDestroyId(id));
  v.must(v.rdmaDestroyEventChannel(side.channel));
}

describe("librdmacm, as rping uses it", () => {
  it("events in order at both ends, private data, depths, a message, the end", () => {
    const { sent } = runRdma(pingServer, (side) => pingClient(side, "b"));
    assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "a DREQ", "b DREP"]);
  });

  it("with a server on the own host: loopback, and the same events", () => {
    const { sent, atPort } = runRdma(pingServer, (side) => pingClient(side, "a"), { on: "a" });
    assert.deepEqual(sent, ["a REQ", "a REP", "a RTU", "a DREQ", "a DREP"]);
    assert.equal(atPort.count, 0, "no frame leaves the card");
  });

  it("the server ends it: the client is told, and both get TIMEWAIT_EXIT", () => {
    runRdma(function* (side) {
      const { v } = side;
      const id = yield* acceptOne(side);
      yield* expectEvent(side, "ESTABLISHED");
      v.must(yield* v.rdmaDisconnect(id));
      yield* expectEvent(side, "DISCONNECTED");
      yield* expectEvent(side, "TIMEWAIT_EXIT");
    }, function* (side) {
      const { v } = side;
      const id = yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      const also = v.rdmaEventsOf(side.channel);
      assert.deepEqual(yield* v.waitCompletion(side.cq, { also }), [], "an event wakes it");
      yield* expectEvent(side, "DISCONNECTED");
      assert.equal(id.qp?.life.state, "rts", "it is the program that disconnects its end");
      v.must(yield* v.rdmaDisconnect(id));
      assert.equal(id.qp?.life.state, "err");
      yield* expectEvent(side, "TIMEWAIT_EXIT");
      yield* expectNothing(side);
    });
  });
});

describe("A queue pair of one's own (qpNum)", () => {
  it("at both ends: CONNECT_RESPONSE, rdmaInitQpAttr, rdmaEstablish", () => {
    function* own(side: RdmaSide): Steps<Qp> {
      const made = yield* side.v.createQp(side.pd, { ...side.qp, type: "rc" });
      return side.v.must(made);
    }
    function* to(side: RdmaSide, id: RdmaId, qp: Qp, states: readonly ("init" | "rtr" | "rts")[]) {
      const { v } = side;
      for (const state of states) {
        v.must(yield* v.modifyQp(qp, v.must(v.rdmaInitQpAttr(id, state))));
      }
    }
    const { sent } = runRdma(function* (side) {
      const { v, mr } = side;
      listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      const qp = yield* own(side);
      yield* to(side, id, qp, ["init"]);
      v.must(yield* v.postRecv(qp, { sges: [v.sge(mr)] }));
      yield* to(side, id, qp, ["rtr", "rts"]);
      v.must(yield* v.rdmaAccept(id, { qpNum: qp.qpn }));
      yield* expectEvent(side, "ESTABLISHED");
      yield* receiveOne(side);
      yield* expectEvent(side, "DISCONNECTED");
    }, function* (side) {
      const { v } = side;
      const id = yield* routeTo(side, "b");
      const qp = yield* own(side);
      const early = v.rdmaInitQpAttr(id, "rtr");
      assert.ok(v.failed(early), "the peer is not known");
      yield* to(side, id, qp, ["init"]);
      v.must(yield* v.rdmaConnect(id, { qpNum: qp.qpn }));
      const { param } = yield* expectEvent(side, "CONNECT_RESPONSE");
      assert.ok(param.conn?.qpNum !== undefined && param.conn.qpNum > 1);
      yield* to(side, id, qp, ["rtr", "rts"]);
      v.must(yield* v.rdmaEstablish(id));
      yield* sendOne(side, qp);
      v.must(yield* v.rdmaDisconnect(id));
      yield* expectEvent(side, "DISCONNECTED");
    });
    assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "a DREQ", "b DREP"]);
  });
});

describe("What does not come about", () => {
  it("no host has the address: ADDR_ERROR with ETIMEDOUT at the time-out; the id may try again", () => {
    runRdma(function* () {}, function* (side) {
      const { v, channel, context: { cpu } } = side;
      const id = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
      const began = cpu.now;
      v.must(v.rdmaResolveAddr(id, { to: 0x0a00_00ff, port: PORT, timeoutPs: 3 * MS }));
      const { status, reason } = yield* expectEvent(side, "ADDR_ERROR");
      assert.deepEqual([status, reason], [-110, "no host of the rack has this address"]);
      assert.ok(cpu.now - began >= 3 * MS && cpu.now - began < 3.1 * MS);
      v.must(v.rdmaResolveAddr(id, { to: "b", port: PORT }));
      yield* expectEvent(side, "ADDR_RESOLVED");
    });
  });

  it("no program listens: REJECTED 8; the program refuses: REJECTED 28 with its data", () => {
    runRdma(function* (side) {
      listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      side.v.must(yield* side.v.rdmaReject(id, { privateData: bytes(148, 9) }));
      side.v.must(yield* side.v.rdmaDestroyId(id));
    }, function* (side) {
      const { v, pd, qp } = side;
      const outcomes: [number, string][] = [];
      for (const port of [PORT + 1, PORT]) {
        const id = yield* routeTo(side, "b", { port });
        v.must(yield* v.rdmaCreateQp(id, pd, qp));
        v.must(yield* v.rdmaConnect(id));
        const { status, reason, param } = yield* expectEvent(side, "REJECTED");
        outcomes.push([status, reason]);
        if (status === 28) assert.deepEqual(param.conn?.privateData, bytes(148, 9));
        assert.equal(id.qp?.life.state, "err");
        v.must(yield* v.rdmaDestroyQp(id));
        v.must(yield* v.rdmaDestroyId(id));
      }
      assert.deepEqual(outcomes, [
        [8, "reason 8 (invalid service ID: no program listens)"],
        [28, "reason 28 (consumer reject: the program has refused)"],
      ]);
    });
  });

  it("the host has no power: UNREACHABLE with ETIMEDOUT after the tries", () => {
    const { sent } = runRdma(function* (side) {
      yield* side.context.cpu.sleep(50 * MS);
    }, function* (side) {
      const { v, pd, qp, context: { cpu } } = side;
      const id = yield* routeTo(side, "b");
      v.must(yield* v.rdmaCreateQp(id, pd, qp));
      const began = cpu.now;
      v.must(yield* v.rdmaConnect(id));
      const { status, reason } = yield* expectEvent(side, "UNREACHABLE");
      assert.deepEqual([status, reason], [-110, "no answer to 3 requests"]);
      assert.ok(cpu.now - began >= 1.5 * MS && cpu.now - began < 1.6 * MS);
      yield* expectNothing(side);
    }, { faults: ["{ at: 200us, kill: b }"] });
    assert.deepEqual(sent, ["a REQ", "a REQ", "a REQ", "a REJ"]);
  });

  it("the queue pair cannot be brought up: CONNECT_ERROR, and the server is refused", () => {
    runRdma(function* (side) {
      yield* acceptOne(side);
      assert.equal((yield* expectEvent(side, "REJECTED")).status, 3);
    }, function* (side) {
      const { v, pd, qp } = side;
      const id = yield* routeTo(side, "b");
      const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
      v.must(yield* v.rdmaConnect(id));
      v.must(yield* v.modifyQp(own, { state: "err" }));
      const { status, reason } = yield* expectEvent(side, "CONNECT_ERROR");
      assert.equal(status, -22);
      assert.match(reason, /^EINVAL: Cannot modify QP/);
      yield* expectNothing(side);
    });
  });

  it("the other host dies: DISCONNECTED with ETIMEDOUT when this one disconnects", () => {
    const { sent } = runRdma(function* (side) {
      yield* acceptOne(side);
      yield* expectEvent(side, "ESTABLISHED");
      yield* side.context.cpu.sleep(50 * MS);
    }, function* (side) {
      const { v, context: { cpu } } = side;
      const id = yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      yield* cpu.sleep(5 * MS - cpu.now);
      v.must(yield* v.rdmaDisconnect(id));
      const { status, reason } = yield* expectEvent(side, "DISCONNECTED");
      assert.deepEqual([status, reason], [-110, "no answer to the DREQ"]);
    }, { faults: ["{ at: 4ms, kill: b }"] });
    assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "a DREQ", "a DREQ", "a DREQ"]);
  });

  it("the server's program fails: its listener ends, its connection too, and the client is told", () => {
    runRdma(function* (side) {
      yield* acceptOne(side);
      yield* expectEvent(side, "ESTABLISHED");
      throw new Error("out of ideas");
    }, function* (side) {
      const { v } = side;
      yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectEvent(side, "DISCONNECTED");
      yield* expectEvent(side, "TIMEWAIT_EXIT");
      const later = yield* routeTo(side, "b");
      v.must(yield* v.rdmaConnect(later, { qpNum: 99 }));
      assert.equal((yield* expectEvent(side, "REJECTED")).status, 8);
    }, { fails: "out of ideas" });
  });

  it("the server's program fails with a request and a connection of no queue pair of its own", () => {
    runRdma(function* (side) {
      const { v, pd, qp } = side;
      listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      const own = v.must(yield* v.createQp(pd, { ...qp, type: "rc" }));
      v.must(yield* v.rdmaAccept(id, { qpNum: own.qpn }));
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectEvent(side, "CONNECT_REQUEST");
      throw new Error("out of ideas");
    }, function* (side) {
      const { v } = side;
      yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      v.must(yield* v.rdmaConnect(yield* routeTo(side, "b"), { qpNum: 99 }));
      const [one, other] = [
        yield* v.rdmaGetCmEvent(side.channel),
        yield* v.rdmaGetCmEvent(side.channel),
      ];
      const names = [one, other].map((each) => v.must(each).event)
        .sort();
      assert.deepEqual(names, ["DISCONNECTED", "REJECTED"]);
    }, { fails: "out of ideas" });
  });

  it("the server's RNIC fails: DEVICE_REMOVAL for the connection, and the listener goes on", () => {
    const { rack } = runRdma(function* (side) {
      const { v, qp, context: { device } } = side;
      const id = yield* acceptOne(side);
      yield* expectEvent(side, "ESTABLISHED");
      // The agent closes the endpoint in silence: it had no card to send a DREQ by.
      assert.ok((yield* expectEvent(side, "DEVICE_REMOVAL")).id === id);
      v.must(yield* v.rdmaDisconnect(id));
      const again = yield* expectEvent(side, "CONNECT_REQUEST");
      const anew = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 64 }));
      const options = { ...qp, sendCq: cq, recvCq: cq };
      v.must(yield* v.rdmaCreateQp(again.id, anew, options));
      v.must(yield* v.rdmaAccept(again.id));
      yield* expectEvent(side, "ESTABLISHED");
    }, function* (side) {
      const { cpu } = side.context;
      for (const at of [0, 5 * MS]) {
        if (cpu.now < at) yield* cpu.sleep(at - cpu.now);
        yield* connectTo(side, "b");
        yield* expectEvent(side, "ESTABLISHED");
      }
    }, { faults: ["{ at: 2ms, kill: b-rnic }", "{ at: 3ms, start: b-rnic }"] });
    assert.equal(rack.reported("end", "b").length, 1, "the server comes to its end");
  });

  it("the RNIC fails: DEVICE_REMOVAL for each id", () => {
    runRdma(function* (side) {
      listenOn(side);
      yield* side.context.cpu.sleep(50 * MS);
    }, function* (side) {
      const one = yield* routeTo(side, "b"), other = yield* routeTo(side, "b");
      assert.ok((yield* expectEvent(side, "DEVICE_REMOVAL")).id === one);
      assert.ok((yield* expectEvent(side, "DEVICE_REMOVAL")).id === other);
      const refused = yield* side.v.rdmaConnect(one);
      assert.match(refused?.reason ?? "", /in state device-removal: expected route-resolved/);
      side.v.must(yield* side.v.rdmaDestroyId(one));
    }, { faults: ["{ at: 1ms, kill: a-rnic }", "{ at: 2ms, start: a-rnic }"] });
  });
});

describe("rdmaDisconnect and rdmaDestroyId in each phase", () => {
  for (const call of ["rdmaDisconnect", "rdmaDestroyId"] as const) {
    it(`${call} before the RTU: the active end is established, then told`, () => {
      const { sent } = runRdma(function* (side) {
        const { v, pd, qp, context: { cpu, device } } = side;
        listenOn(side);
        const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
        const own = v.must(yield* v.createQp(pd, { ...qp, type: "rc" }));
        v.must(yield* v.modifyQp(own, v.must(v.rdmaInitQpAttr(id, "init"))));
        v.must(yield* v.rdmaAccept(id, { qpNum: own.qpn }));
        v.must(yield* v[call](id));
        if (call === "rdmaDisconnect") yield* expectEvent(side, "DISCONNECTED");
        yield* cpu.sleep(5 * MS);
        assert.equal(device.cm.agent.endpoints.size, 0);
      }, function* (side) {
        yield* connectTo(side, "b");
        yield* expectEvent(side, "ESTABLISHED");
        yield* expectEvent(side, "DISCONNECTED");
      });
      assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "b DREQ", "a DREP"]);
    });

    it(`${call} while the request is on its way: the server's answer is too late`, () => {
      const { sent } = runRdma(function* (side) {
        const { v, pd, qp, context: { cpu } } = side;
        listenOn(side);
        const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
        v.must(yield* v.rdmaCreateQp(id, pd, qp));
        yield* cpu.sleep(MS);
        assert.equal((yield* expectEvent(side, "REJECTED")).status, 4);
        const late = yield* v.rdmaAccept(id);
        assert.equal(late?.reason, "The id is closed: expected a request that is not answered");
      }, function* (side) {
        const { v, context: { cpu, device } } = side;
        const id = yield* routeTo(side, "b");
        v.must(yield* v.rdmaConnect(id, { qpNum: 99 }));
        yield* cpu.sleep(0.1 * MS);
        v.must(yield* v[call](id));
        if (call === "rdmaDisconnect") yield* expectEvent(side, "DISCONNECTED");
        assert.equal(device.cm.agent.endpoints.size, 0);
        yield* expectNothing(side);
      });
      assert.deepEqual(sent, ["a REQ", "a REJ"]);
    });

    it(`${call} of a response that waits: the server is refused`, () => {
      const { sent } = runRdma(function* (side) {
        yield* acceptOne(side);
        assert.equal((yield* expectEvent(side, "REJECTED")).status, 28);
      }, function* (side) {
        const { v } = side;
        const id = yield* routeTo(side, "b");
        v.must(yield* v.rdmaConnect(id, { qpNum: 99 }));
        yield* expectEvent(side, "CONNECT_RESPONSE");
        v.must(yield* v[call](id));
        const late = yield* v.rdmaEstablish(id);
        assert.match(late?.reason ?? "", /expected a response that waits/);
      });
      assert.deepEqual(sent, ["a REQ", "b REP", "a REJ"]);
    });
  }

  it("of a listener: what waits and what comes later is refused", () => {
    runRdma(function* (side) {
      const { v, context: { cpu } } = side;
      const listener = listenOn(side);
      yield* cpu.sleep(2 * MS);
      v.must(yield* v.rdmaDestroyId(listener));
      yield* cpu.sleep(5 * MS);
      yield* expectNothing(side);
    }, function* (side) {
      const { v, context: { cpu } } = side;
      for (let i = 0; i < 2; i++) {
        const id = yield* routeTo(side, "b");
        v.must(yield* v.rdmaConnect(id, { qpNum: 99 }));
        assert.equal((yield* expectEvent(side, "REJECTED")).status, 8);
        assert.ok(cpu.now > 2 * MS);
      }
    });
  });

  it("a backlog of one: the second request waits for its repetition", () => {
    const { sent } = runRdma(function* (side) {
      const { v, channel, context: { cpu } } = side;
      const id = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
      v.must(v.rdmaBindAddr(id, { port: PORT }));
      v.must(v.rdmaListen(id, { backlog: 1 }));
      yield* cpu.sleep(0.7 * MS);
      for (let i = 0; i < 2; i++) {
        const event = yield* expectEvent(side, "CONNECT_REQUEST");
        v.must(yield* v.rdmaReject(event.id));
      }
    }, function* (side) {
      const { v } = side;
      for (let i = 0; i < 2; i++) {
        v.must(yield* v.rdmaConnect(yield* routeTo(side, "b"), { qpNum: 99 }));
      }
      for (let i = 0; i < 2; i++) yield* expectEvent(side, "REJECTED");
    });
    assert.deepEqual(sent.filter((each) => each === "a REQ").length, 3);
  });
});

describe("What is refused at the call", () => {
  it("wrong states, ports, parameters and private data: what was found, what was expected", () => {
    const { sent } = runRdma(function* () {}, function* (side) {
      const { v, channel, pd, qp, context: { device } } = side;
      const texts: string[] = [];
      const refused = (answer: unknown) => {
        assert.ok(v.failed(answer as VerbError), `a call after ${texts.at(-1)} is refused`);
        const { errno, reason } = answer as VerbError;
        texts.push(`${errno}: ${reason}`);
      };
      refused(v.rdmaCreateId(channel, { ps: "ib" as never }));
      refused(v.rdmaCreateId(channel, { ps: "tcp", retry: { tries: 0 } }));
      const id = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
      refused(v.rdmaDestroyEventChannel(channel));
      refused(v.rdmaBindAddr(id, { port: 65_536 }));
      refused(v.rdmaResolveRoute(id));
      refused(yield* v.rdmaConnect(id));
      refused(yield* v.rdmaAccept(id));
      refused(yield* v.rdmaReject(id));
      refused(yield* v.rdmaDisconnect(id));
      refused(yield* v.rdmaEstablish(id));
      refused(v.rdmaNotify(id));
      refused(v.rdmaResolveAddr(id, { to: "z", port: PORT }));
      refused(v.rdmaResolveAddr(id, { to: "b", port: 65_536 }));
      refused(v.rdmaResolveAddr(id, { to: "b", port: 1, timeoutPs: 0 }));
      refused(v.rdmaListen(id, { backlog: 1025 }));
      refused(yield* v.rdmaCreateQp(id, pd, { ...qp, type: "ud" }));
      refused(yield* v.rdmaDestroyQp(id));
      const listener = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
      v.must(v.rdmaBindAddr(listener, { port: PORT }));
      v.must(v.rdmaListen(listener));
      refused(v.rdmaListen(listener));
      refused(v.rdmaBindAddr(id, { port: PORT }));
      v.must(v.rdmaResolveAddr(id, { to: "b", port: PORT }));
      const event = yield* v.rdmaGetCmEvent(channel);
      assert.ok(!v.failed(event));
      refused(yield* v.rdmaDestroyId(id));
      v.must(v.rdmaAckCmEvent(event));
      refused(v.rdmaAckCmEvent(event));
      v.must(v.rdmaResolveRoute(id));
      yield* expectEvent(side, "ROUTE_RESOLVED");
      refused(yield* v.rdmaConnect(id));
      const qpNum = 99;
      refused(yield* v.rdmaConnect(id, { qpNum, privateData: bytes(57) }));
      refused(yield* v.rdmaConnect(id, { qpNum, responderResources: 17 }));
      refused(yield* v.rdmaConnect(id, { qpNum, retryCount: 8 }));
      refused(yield* v.rdmaConnect(id, { qpNum: 2 ** 24 }));
      const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
      refused(yield* v.rdmaCreateQp(id, pd, qp));
      refused(yield* v.rdmaConnect(id, { qpNum: own.qpn + 1 }));
      refused(yield* v.rdmaDestroyId(id));
      v.must(yield* v.rdmaDestroyQp(id));
      v.must(yield* v.rdmaDestroyId(id));
      refused(yield* v.rdmaDestroyId(id));
      assert.equal(device.cm.agent.endpoints.size, 0);
      const numbered = texts.map((text) =>
        text.replace(`qpNum is ${own.qpn + 1}`, "qpNum is N+1")
          .replace(`queue pair ${own.qpn}`, "queue pair N")
          .replace(/\w+ at rdma_cm_test\.ts:\d+:\d+: /, "")
      );
      assert.deepEqual(
        numbered,
        [
          'EINVAL: options.ps is "ib": expected one of "tcp", "udp"',
          "EINVAL: options.retry.tries is 0: expected transmissions, a whole number from 1 to 16",
          "EBUSY: The event channel has one id in state idle (port 0): expected rdmaDestroyId before",
          "EINVAL: address.port is 65536: expected 16 bits, a whole number from 0 to 65535",
          "EINVAL: The id is in state idle: expected addr-resolved",
          "EINVAL: The id is in state idle: expected route-resolved",
          "EINVAL: The id is in state idle: expected a request that is not answered",
          "EINVAL: The id is in state idle: expected a request that is not answered",
          "EINVAL: The id is in state idle: expected one with a connection",
          "EINVAL: The id is idle: expected a response that waits (CONNECT_RESPONSE)",
          "EINVAL: The id is idle: expected rep-sent",
          "ENOENT: No host is called z: expected one of a, b",
          "EINVAL: options.port is 65536: expected 16 bits, a whole number from 0 to 65535",
          "EINVAL: options.timeoutPs is 0: expected picoseconds, a whole number ≥ 1, below 2^53",
          "EINVAL: options.backlog is 1025: expected a number of connection requests, " +
          "a whole number from 0 to 1024",
          "EINVAL: The queue pair is ud: expected rc or uc in port space tcp",
          "EINVAL: The id has no queue pair",
          "EINVAL: The id is in state listen: expected addr-bound",
          `EADDRINUSE: Another id of the host holds port ${PORT} of tcp`,
          "EBUSY: 1 events of the id are not acknowledged: expected rdmaAckCmEvent before",
          "EINVAL: The event is acknowledged already",
          "EINVAL: The id has no queue pair: expected one, or its number (qpNum)",
          "EINVAL: The private data has 57 B: expected at most 56 B in a REQ",
          "EINVAL: responderResources is 17: expected a whole number from 0 to 16",
          "EINVAL: param.retryCount is 8: expected a number of retries, a whole number from 0 to 7",
          "EINVAL: param.qpNum is 16777216: expected 24 bits, a whole number from 0 to 16777215",
          "EINVAL: The id has queue pair N already",
          "EINVAL: qpNum is N+1, and the id has queue pair N: expected one of them",
          "EBUSY: The id has queue pair N: expected rdmaDestroyQp before",
          "EINVAL: The id is gone already",
        ],
      );
    });
    assert.deepEqual(sent, []);
  });
});
