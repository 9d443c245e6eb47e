/**
 * Ids and channels of librdmacm that hold a port, are gone, or end before their connection stands; a connection
 * that stands without its RTU; queue pairs of the wrong type, made twice, and known from before.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
  acceptOne,
  connectTo,
  expectEvent,
  expectNothing,
  listenOn,
  PORT,
  routeTo,
  runRdma,
} from "../support/rdma_programs.ts";

const MS = 1_000_000_000;

describe("Ports of ids", () => {
  it("one id of a port space holds a port, until it is destroyed, by any thread of the host", () => {
    const { rack } = runRdma(function* ({ v, channel, context: { cpu } }) {
      v.must(v.rdmaBindAddr(v.must(v.rdmaCreateId(channel, { ps: "tcp" })), { port: PORT }));
      yield* cpu.settle();
    }, function* ({ v, channel, context: { device, cpu } }) {
      const make = (ps: "tcp" | "udp") => v.must(v.rdmaCreateId(channel, { ps }));
      const first = make("tcp");
      const second = make("tcp");
      v.must(v.rdmaBindAddr(first, { port: PORT }));
      assert.deepEqual(v.rdmaBindAddr(second, { port: PORT }), {
        errno: "EADDRINUSE",
        reason: `Another id of the host holds port ${PORT} of tcp`,
      });
      assert.equal(second.state, "idle");
      v.must(v.rdmaBindAddr(make("udp"), { port: PORT }));
      cpu.spawn("other", function* () {
        yield* cpu.settle();
        const other = v.must(v.rdmaCreateId(v.rdmaCreateEventChannel(device), { ps: "tcp" }));
        const wrong = v.rdmaBindAddr(other, { port: PORT });
        assert.ok(v.failed(wrong) && wrong.errno === "EADDRINUSE");
        cpu.report("refused", "other");
      });
      yield* cpu.sleep(MS);
      v.must(yield* v.rdmaDestroyId(first));
      v.must(v.rdmaBindAddr(second, { port: PORT }));
      v.must(v.rdmaListen(second));
    });
    assert.equal(rack.reported("refused").length, 1);
  });

  it("a port that is drawn is no other id's; none is left: EADDRNOTAVAIL, and the id stays idle", () => {
    runRdma(function* () {}, function* ({ v, channel, context: { cpu, device } }) {
      const make = () => v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
      v.must(v.rdmaBindAddr(make(), { port: 32_769 }));
      const drawn = [make(), make()];
      for (const id of drawn) v.must(v.rdmaBindAddr(id, { port: 0 }));
      assert.deepEqual(drawn.map(({ port }) => port), [32_768, 32_770]);
      const ids = Array.from({ length: 28_232 }, (_, i) => ({
        ps: "tcp" as const,
        port: 32_768 + i,
        isBound: true,
        device,
      }));
      const full = { program: "full", signal: "full", events: [], ids };
      device.cm.agent.channels.add(full);
      const id = make();
      const reason = "Ids hold all ports of tcp from 32768 to 60999";
      const none = { errno: "EADDRNOTAVAIL", reason };
      assert.deepEqual(v.rdmaBindAddr(id, { port: 0 }), none);
      assert.deepEqual(v.rdmaListen(id), none);
      assert.deepEqual(v.rdmaResolveAddr(id, { to: "b", port: PORT }), none);
      assert.equal(id.state, "idle");
      device.cm.agent.channels.delete(full);
      yield* cpu.settle();
    });
  });

  it("the id of a request does not hold its listener's port", () => {
    runRdma(function* (side) {
      const { v, channel } = side;
      const listener = listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaReject(id));
      v.must(yield* v.rdmaDestroyId(listener));
      assert.equal(id.port, PORT);
      v.must(v.rdmaBindAddr(v.must(v.rdmaCreateId(channel, { ps: "tcp" })), { port: PORT }));
    }, function* (side) {
      side.v.must(yield* side.v.rdmaConnect(yield* routeTo(side, "b"), { qpNum: 99 }));
      yield* expectEvent(side, "REJECTED");
    });
  });
});

describe("rdmaGetCmEvent of a channel that is gone", () => {
  const gone = { errno: "EINVAL", reason: "The event channel is gone" };

  it("EINVAL at once, also for a thread that waits", () => {
    const { rack } = runRdma(function* () {}, function* ({ v, channel, context: { cpu } }) {
      cpu.spawn("waiting", function* () {
        assert.deepEqual(yield* v.rdmaGetCmEvent(channel), gone);
        cpu.report("woken", cpu.now);
      });
      yield* cpu.sleep(MS);
      const at = cpu.now;
      v.must(v.rdmaDestroyEventChannel(channel));
      assert.deepEqual(yield* v.rdmaGetCmEvent(channel), gone);
      assert.equal(cpu.now, at);
    });
    assert.equal(rack.reported("woken").length, 1);
  });
});

describe("rdmaNotify", () => {
  it("the first message has come without the RTU: ESTABLISHED, once", () => {
    runRdma(function* (side) {
      const { v } = side;
      const id = yield* acceptOne(side);
      v.must(v.rdmaNotify(id));
      v.must(v.rdmaNotify(id));
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectNothing(side);
    }, function* (side) {
      yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectNothing(side);
    });
  });
});

describe("Ends before a connection stands", () => {
  it("rdmaDisconnect before an RTU that never comes: DISCONNECTED", () => {
    runRdma(function* (side) {
      const { v } = side;
      const id = yield* acceptOne(side);
      v.must(yield* v.rdmaDisconnect(id));
      const { status, reason } = yield* expectEvent(side, "DISCONNECTED");
      assert.deepEqual([status, reason], [-110, "no answer to the REP"]);
      assert.equal(id.state, "disconnect");
      yield* expectNothing(side);
    }, function* (side) {
      const { v, context: { cpu } } = side;
      const id = yield* routeTo(side, "b");
      v.must(yield* v.rdmaConnect(id, { qpNum: 99 }));
      yield* cpu.sleep(20 * MS);
    });
  });

  it("the RTU is lost, then the client disconnects: DISCONNECTED and TIMEWAIT_EXIT all the same", () => {
    const { rack, sent } = runRdma(function* (side) {
      yield* acceptOne(side);
      yield* expectEvent(side, "DISCONNECTED");
      yield* expectEvent(side, "TIMEWAIT_EXIT");
      yield* expectNothing(side);
    }, function* (side) {
      const { v } = side;
      const id = yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      v.must(yield* v.rdmaDisconnect(id));
      yield* expectEvent(side, "DISCONNECTED");
    }, {
      faults: ["{ link: a-rnic->tor, loss: all, nth: 2, only: UD SEND ONLY, from: 200us }"],
    });
    assert.deepEqual(sent, ["a REQ", "b REP", "a RTU", "a DREQ", "b DREP"]);
    assert.equal(rack.reported("end", "b").length, 1);
  });

  it("the listener is destroyed between a request and its answer: the request has an id of its own", () => {
    runRdma(function* (side) {
      const { v, pd, qp, context: { cpu } } = side;
      const listener = listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaDestroyId(listener));
      v.must(yield* v.rdmaCreateQp(id, pd, qp));
      v.must(yield* v.rdmaAccept(id));
      yield* expectEvent(side, "ESTABLISHED");
      const datagrams = listenOn(side, "udp");
      const asked = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaDestroyId(datagrams));
      v.must(yield* v.rdmaAccept(asked.id, { qpNum: 99 }));
      yield* cpu.settle();
    }, function* (side) {
      const { v } = side;
      yield* connectTo(side, "b");
      yield* expectEvent(side, "ESTABLISHED");
      const later = yield* routeTo(side, "b");
      v.must(yield* v.rdmaConnect(later, { qpNum: 99 }));
      assert.equal((yield* expectEvent(side, "REJECTED")).status, 8);
      v.must(yield* v.rdmaConnect(yield* routeTo(side, "b", { ps: "udp" })));
      yield* expectEvent(side, "ESTABLISHED");
    });
  });

  for (const call of ["rdmaAccept", "rdmaReject"] as const) {
    it(`${call} of a request for a service after a failure of the RNIC: EINVAL`, () => {
      const { sent } = runRdma(function* (side) {
        const { v } = side;
        listenOn(side, "udp");
        const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
        yield* expectEvent(side, "DEVICE_REMOVAL");
        const wrong = call === "rdmaAccept"
          ? yield* v.rdmaAccept(id, { qpNum: 99 })
          : yield* v.rdmaReject(id);
        const reason = "The id is closed: expected a request that is not answered";
        assert.deepEqual(wrong, { errno: "EINVAL", reason });
        side.context.cpu.report("server-end", call);
      }, function* (side) {
        const id = yield* routeTo(side, "b", { ps: "udp" });
        side.v.must(yield* side.v.rdmaConnect(id));
        yield* expectEvent(side, "UNREACHABLE");
      }, { faults: ["{ at: 1ms, kill: b-rnic }", "{ at: 2ms, start: b-rnic }"] });
      assert.ok(!sent.includes("b SIDR_REP"));
    });
  }
});

describe("Queue pairs of ids", () => {
  it("of another type than the request's: EINVAL, and the request may still be answered", () => {
    runRdma(function* (side) {
      const { v, pd, qp } = side;
      listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaCreateQp(id, pd, qp));
      const reason = "The id's queue pair is rc, and the request's uc";
      assert.deepEqual(yield* v.rdmaAccept(id), { errno: "EINVAL", reason });
      v.must(yield* v.rdmaDestroyQp(id));
      v.must(yield* v.rdmaCreateQp(id, pd, { ...qp, type: "uc" }));
      v.must(yield* v.rdmaAccept(id));
      yield* expectEvent(side, "ESTABLISHED");
    }, function* (side) {
      const { v, pd, qp } = side;
      const id = yield* routeTo(side, "b");
      v.must(yield* v.rdmaCreateQp(id, pd, { ...qp, type: "uc" }));
      v.must(yield* v.rdmaConnect(id));
      yield* expectEvent(side, "ESTABLISHED");
    });
  });

  it("made by two threads at once: one is the id's, and the other is not left", () => {
    runRdma(function* () {}, function* ({ v, channel, pd, qp, context: { cpu, device } }) {
      const id = v.must(v.rdmaCreateId(channel, { ps: "tcp" }));
      const made: unknown[] = [];
      for (const name of ["one", "other"]) {
        cpu.spawn(name, function* () {
          made.push(v.failed(yield* v.rdmaCreateQp(id, pd, qp)));
        });
      }
      while (made.length < 2) yield* cpu.sleep(MS);
      assert.deepEqual(made.toSorted(), [false, true]);
      v.must(yield* v.rdmaDestroyQp(id));
      assert.deepEqual([...device.state.queuePairs.keys()], [1]);
    });
  });

  it("a queue pair's number of before its RNIC failed: stale connection (10), whose server is told", () => {
    const { rack, sent } = runRdma(function* (side) {
      const { v } = side;
      const id = yield* acceptOne(side);
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectEvent(side, "DISCONNECTED");
      v.must(yield* v.rdmaDisconnect(id));
      yield* expectEvent(side, "TIMEWAIT_EXIT");
      yield* expectEvent(side, "CONNECT_REQUEST");
    }, function* (side) {
      const { v, pd, qp, context: { cpu, device } } = side;
      const first = yield* routeTo(side, "b");
      const { qpn } = v.must(yield* v.rdmaCreateQp(first, pd, qp));
      v.must(yield* v.rdmaConnect(first));
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectEvent(side, "DEVICE_REMOVAL");
      const cq = v.must(yield* v.createCq(device, { entries: 64 }));
      const anew = v.allocPd(device), options = { ...qp, sendCq: cq, recvCq: cq };
      const again = yield* routeTo(side, "b");
      const own = v.must(yield* v.rdmaCreateQp(again, anew, options));
      assert.equal(own.qpn, qpn);
      v.must(yield* v.rdmaConnect(again));
      const { status, reason } = yield* expectEvent(side, "REJECTED");
      assert.deepEqual([status, reason], [10, "reason 10 (stale connection)"]);
      yield* cpu.sleep(5 * MS);
      v.must(yield* v.rdmaConnect(yield* routeTo(side, "b"), { qpNum: qpn }));
    }, { faults: ["{ at: 2ms, kill: a-rnic }", "{ at: 3ms, start: a-rnic }"] });
    const reconnect = sent.slice(3);
    assert.deepEqual(reconnect.slice(0, 4), ["a REQ", "b REJ", "b DREQ", "a DREP"]);
    assert.equal(rack.reported("end", "b").length, 1, "the server has been asked again");
  });
});
