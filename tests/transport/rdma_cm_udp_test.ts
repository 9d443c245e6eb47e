/**
 * librdmacm's ids in port space udp (service ID resolution, architecture §12.11), as udaddy uses them: which
 * queue pair has the service, a datagram to it, and what is refused.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import {
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
const GRH = 40;

/** As udaddy's server: tells its queue pair to the one who asks, and receives a datagram. */
function* server(side: RdmaSide): Steps<void> {
  const { v, pd, qp, mr, cq, context: { cpu } } = side;
  const listener = listenOn(side, "udp");
  const { id, listenId, param } = yield* expectEvent(side, "CONNECT_REQUEST");
  assert.ok(listenId === listener);
  assert.deepEqual(param.ud?.privateData, bytes(180, 5));
  assert.deepEqual([id.peer.host, param.ud?.qpNum], ["a", undefined]);
  const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
  assert.deepEqual([own.type, own.life.state], ["ud", "rts"]);
  v.must(yield* v.postRecv(own, { sges: [v.sge(mr)] }));
  v.must(yield* v.rdmaAccept(id, { privateData: bytes(136, 6) }));
  const [received] = yield* v.waitCompletion(cq);
  assert.deepEqual([received?.status, received?.byteLen], ["SUCCESS", GRH + 64]);
  assert.deepEqual(cpu.load(mr.address + GRH, 64), bytes(64, 3));
  yield* expectNothing(side);
  const late = yield* v.rdmaAccept(id);
  assert.equal(late?.reason, "The id is answered: expected a request that is not answered");
  const none = yield* v.rdmaDisconnect(id);
  assert.equal(none?.reason, "The id is in state connect: expected one with a connection");
  v.must(yield* v.rdmaDestroyQp(id));
  v.must(yield* v.rdmaDestroyId(id));
  v.must(yield* v.rdmaDestroyId(listener));
}

function* client(side: RdmaSide, to: string): Steps<void> {
  const { v, pd, qp, mr, cq, context: { cpu, device } } = side;
  const id = yield* routeTo(side, to, { ps: "udp" });
  const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
  v.must(yield* v.rdmaConnect(id, { privateData: bytes(180, 5) }));
  const { param: { ud } } = yield* expectEvent(side, "ESTABLISHED");
  assert.deepEqual(ud?.privateData, bytes(136, 6));
  assert.deepEqual([ud?.address, ud?.qKey], [cpu.addresses[to], 0x0123_4567]);
  const ah = v.must(v.createAh(pd, { address: ud!.address! }));
  cpu.store(mr.address, bytes(64, 3));
  const request = { ah, qpn: ud!.qpNum!, qKey: ud!.qKey! };
  v.must(
    yield* v.postSend(own, {
      opcode: "send",
      sendFlags: IBV_SEND_SIGNALED,
      sges: [v.sge(mr, 0, 64)],
      ud: request,
    }),
  );
  assert.deepEqual((yield* v.waitCompletion(cq)).map(({ status }) => status), ["SUCCESS"]);
  v.must(yield* v.rdmaDestroyQp(id));
  v.must(yield* v.rdmaDestroyId(id));
  assert.equal(device.cm.agent.sidr.size, to === "a" ? 1 : 0, "the own answer is remembered");
}

describe("librdmacm in port space udp, as udaddy uses it", () => {
  it("SIDR REQ, SIDR REP with the queue pair, a datagram", () => {
    const { sent } = runRdma(server, (side) => client(side, "b"));
    assert.deepEqual(sent, ["a SIDR_REQ", "b SIDR_REP"]);
  });

  it("with a server on the own host", () => {
    const { sent, atPort } = runRdma(server, (side) => client(side, "a"), { on: "a" });
    assert.deepEqual(sent, ["a SIDR_REQ", "a SIDR_REP"]);
    assert.equal(atPort.count, 0);
  });

  it("no program listens: UNREACHABLE 1; refused: UNREACHABLE 2 with its data; the id may ask again", () => {
    runRdma(function* (side) {
      const { v, pd, qp } = side;
      listenOn(side, "udp");
      const first = yield* expectEvent(side, "CONNECT_REQUEST");
      const tooMuch = yield* v.rdmaReject(first.id, { privateData: bytes(137) });
      const text = "The private data has 137 B: expected at most 136 B in a SIDR_REP";
      assert.equal(tooMuch?.reason, text);
      v.must(yield* v.rdmaReject(first.id, { privateData: bytes(136, 8) }));
      const second = yield* expectEvent(side, "CONNECT_REQUEST");
      v.must(yield* v.rdmaCreateQp(second.id, pd, qp));
      assert.equal((yield* v.rdmaAccept(second.id, { privateData: bytes(137) }))?.reason, text);
      v.must(yield* v.rdmaAccept(second.id));
    }, function* (side) {
      const { v } = side;
      const none = yield* routeTo(side, "b", { ps: "udp", port: PORT + 1 });
      v.must(yield* v.rdmaConnect(none));
      const { status, reason } = yield* expectEvent(side, "UNREACHABLE");
      assert.deepEqual([status, reason], [
        1,
        "status 1 (service ID not supported: no program listens)",
      ]);
      const id = yield* routeTo(side, "b", { ps: "udp" });
      const tooMuch = yield* v.rdmaConnect(id, { privateData: bytes(181) });
      assert.equal(
        tooMuch?.reason,
        "The private data has 181 B: expected at most 180 B in a SIDR_REQ",
      );
      v.must(yield* v.rdmaConnect(id));
      const refused = yield* expectEvent(side, "UNREACHABLE");
      assert.deepEqual([refused.status, refused.param.ud?.privateData], [2, bytes(136, 8)]);
      v.must(yield* v.rdmaConnect(id));
      yield* expectEvent(side, "ESTABLISHED");
    });
  });

  it("a connection (REQ) to a port of udp finds no service, and a SIDR REQ none of tcp", () => {
    for (const [mine, other] of [["tcp", "udp"], ["udp", "tcp"]] as const) {
      runRdma(function* (side) {
        listenOn(side, mine);
        yield* side.context.cpu.sleep(5 * MS);
        yield* expectNothing(side);
      }, function* (side) {
        const id = yield* routeTo(side, "b", { ps: other });
        side.v.must(yield* side.v.rdmaConnect(id, { qpNum: 99 }));
        yield* expectEvent(side, other === "tcp" ? "REJECTED" : "UNREACHABLE");
      });
    }
  });

  it("no answer: UNREACHABLE with ETIMEDOUT after the tries", () => {
    const { sent } = runRdma(function* () {}, function* (side) {
      const id = yield* routeTo(side, "b", { ps: "udp" });
      side.v.must(yield* side.v.rdmaConnect(id));
      const { status, reason } = yield* expectEvent(side, "UNREACHABLE");
      assert.deepEqual([status, reason], [-110, "no answer to 3 requests"]);
    }, { faults: ["{ at: 200us, kill: b }"] });
    assert.deepEqual(sent, ["a SIDR_REQ", "a SIDR_REQ", "a SIDR_REQ"]);
  });

  it("the end of listening answers what waits: UNREACHABLE 1", () => {
    runRdma(function* (side) {
      const { v, context: { cpu } } = side;
      const listener = listenOn(side, "udp");
      yield* cpu.sleep(0.7 * MS);
      v.must(yield* v.rdmaDestroyId(listener));
      yield* expectNothing(side);
    }, function* (side) {
      const id = yield* routeTo(side, "b", { ps: "udp" });
      side.v.must(yield* side.v.rdmaConnect(id));
      assert.equal((yield* expectEvent(side, "UNREACHABLE")).status, 1);
    });
  });
});
