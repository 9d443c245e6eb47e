/**
 * Ids and channels of librdmacm that hold a port, are gone, or end before their connection stands; a connection
 * that stands without its RTU.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import {
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
      const { v, pd, qp } = side;
      listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaCreateQp(id, pd, qp));
      v.must(yield* v.rdmaAccept(id));
      v.must(v.rdmaNotify(id));
      v.must(v.rdmaNotify(id));
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectNothing(side);
    }, function* (side) {
      const { v, pd, qp } = side;
      const id = yield* routeTo(side, "b");
      v.must(yield* v.rdmaCreateQp(id, pd, qp));
      v.must(yield* v.rdmaConnect(id));
      yield* expectEvent(side, "ESTABLISHED");
      yield* expectNothing(side);
    });
  });
});

describe("Ends before a connection stands", () => {
  it("rdmaDisconnect before an RTU that never comes: DISCONNECTED", () => {
    runRdma(function* (side) {
      const { v, pd, qp } = side;
      listenOn(side);
      const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaCreateQp(id, pd, qp));
      v.must(yield* v.rdmaAccept(id));
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
