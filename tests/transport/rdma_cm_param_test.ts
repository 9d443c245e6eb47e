/**
 * What the two ends of a connection of librdmacm agree on: the REP's depths and RNR retries are those of the
 * active end's queue pair, the REQ's those of the passive end's, and an undefined field says nothing.
 */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { RdmaConnParam } from "../../nodes/host/cm/rdma_id.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import {
  IBV_ACCESS_LOCAL_WRITE,
  IBV_ACCESS_REMOTE_READ,
  IBV_SEND_SIGNALED,
} from "../../nodes/host/verbs/flags.ts";
import type { Qp } from "../../nodes/host/verbs/objects.ts";
import {
  BYTES,
  expectEvent,
  listenOn,
  type RdmaSide,
  routeTo,
  runRdma,
} from "../support/rdma_programs.ts";

/** As programs without types may say it. */
const UNDEFINED = undefined as never;

/** `retryCnt`, `rnrRetry`, `maxRdAtomic` and `maxDestRdAtomic` of a queue pair. */
function agreed({ life: { attributes } }: Qp): (number | undefined)[] {
  const { retryCnt, rnrRetry, maxRdAtomic, maxDestRdAtomic } = attributes;
  return [retryCnt, rnrRetry, maxRdAtomic, maxDestRdAtomic];
}

/** Both ends' {@link agreed} with these parameters; `use` is what the client does with its connection. */
function agreedWith(
  { asked, accepted, use = function* () {} }: {
    readonly asked: RdmaConnParam;
    readonly accepted: RdmaConnParam;
    readonly use?: (side: RdmaSide, qp: Qp, privateData: Uint8Array) => Steps<void>;
  },
): { readonly active: unknown; readonly passive: unknown } {
  const found: { active?: unknown; passive?: unknown } = {};
  runRdma(function* (side) {
    const { v, pd, qp, context: { cpu } } = side;
    const access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
    const mr = v.must(yield* v.regMr(pd, cpu.allocate(BYTES), { access }));
    const privateData = new Uint8Array(12);
    const view = new DataView(privateData.buffer);
    view.setBigUint64(0, BigInt(mr.address));
    view.setUint32(8, mr.rkey);
    listenOn(side);
    const { id } = yield* expectEvent(side, "CONNECT_REQUEST");
    const own = v.must(yield* v.rdmaCreateQp(id, pd, qp));
    v.must(yield* v.rdmaAccept(id, { privateData, ...accepted }));
    yield* expectEvent(side, "ESTABLISHED");
    found.passive = agreed(own);
    yield* expectEvent(side, "DISCONNECTED");
  }, function* (side) {
    const { v, pd, qp } = side;
    const id = yield* routeTo(side, "b");
    const own = v.must(yield* v.rdmaCreateQp(id, pd, { ...qp, maxSendWr: 8 }));
    v.must(yield* v.rdmaConnect(id, asked));
    const { param } = yield* expectEvent(side, "ESTABLISHED");
    found.active = agreed(own);
    yield* use(side, own, param.conn!.privateData);
    v.must(yield* v.rdmaDisconnect(id));
    yield* expectEvent(side, "DISCONNECTED");
  });
  return found as { active: unknown; passive: unknown };
}

/** Eight READs at once, of the region that the private data names. */
function* readEight(side: RdmaSide, qp: Qp, privateData: Uint8Array): Steps<void> {
  const { v, cq, mr } = side;
  const view = new DataView(privateData.buffer, privateData.byteOffset);
  const remote = { va: Number(view.getBigUint64(0)), rkey: view.getUint32(8) };
  for (let wrId = 0; wrId < 8; wrId++) {
    const sges = [v.sge(mr, 8 * wrId, 8)];
    const request = { opcode: "read", wrId, sges, remote, sendFlags: IBV_SEND_SIGNALED } as const;
    v.must(yield* v.postSend(qp, request));
  }
  const statuses: string[] = [];
  while (statuses.length < 8) {
    statuses.push(...(yield* v.waitCompletion(cq)).map(({ status }) => status));
  }
  assert.deepEqual(new Set(statuses), new Set(["SUCCESS"]));
}

describe("What a connection of ids agrees on", () => {
  it("the server answers one READ at a time: eight READs succeed", () => {
    const accepted = { responderResources: 1 };
    const { active, passive } = agreedWith({ asked: {}, accepted, use: readEight });
    assert.deepEqual(active, [7, 7, 1, 16]);
    assert.deepEqual(passive, [7, 7, 16, 1]);
  });

  it("depths: the lower of what the client asks and the server answers; the server's own depth", () => {
    const { active, passive } = agreedWith({
      asked: { initiatorDepth: 3, responderResources: 9 },
      accepted: { responderResources: 8, initiatorDepth: 2 },
      use: readEight,
    });
    assert.deepEqual(active, [7, 7, 3, 2]);
    assert.deepEqual(passive, [7, 7, 2, 8]);
  });

  it("depths: an answer with a greater depth than was asked for gives no more than that", () => {
    for (const responderResources of [0, 8]) {
      const { active, passive } = agreedWith({
        asked: { initiatorDepth: 0, responderResources },
        accepted: { responderResources: 16, initiatorDepth: 16 },
      });
      assert.deepEqual(active, [7, 7, 0, responderResources]);
      assert.deepEqual(passive, [7, 7, 16, 16], "as its program says");
    }
  });

  it("RNR retries are those of the other end's sends, and the retries the client's at both ends", () => {
    const { active, passive } = agreedWith({
      asked: { retryCount: 6, rnrRetryCount: 5 },
      accepted: { retryCount: 1, rnrRetryCount: 2 },
    });
    assert.deepEqual(active, [6, 2, 16, 16]);
    assert.deepEqual(passive, [6, 5, 16, 16]);
  });

  it("an undefined field of an accept is as the request has it", () => {
    const { active, passive } = agreedWith({
      asked: { initiatorDepth: 3, responderResources: 5, retryCount: UNDEFINED },
      accepted: { responderResources: UNDEFINED, initiatorDepth: UNDEFINED },
    });
    assert.deepEqual(active, [7, 7, 3, 5]);
    assert.deepEqual(passive, [7, 7, 5, 3]);
  });

  it("an undefined time-out or number of tries is the default's", () => {
    runRdma(function* () {}, function* (side) {
      const { v, pd, qp, channel, context: { cpu, device } } = side;
      const retry = { timeoutPs: UNDEFINED, tries: UNDEFINED };
      const id = v.must(v.rdmaCreateId(channel, { ps: "tcp", retry }));
      assert.deepEqual(id.retry, { timeoutPs: 500_000_000, tries: 3 });
      const { queue } = v.must(v.listen(device, "x", { retry }));
      assert.deepEqual(queue.retry, { timeoutPs: 500_000_000, tries: 3 });
      const transport = { timeout: UNDEFINED, rnrRetry: UNDEFINED };
      const options = { qp: { pd, ...qp }, service: "none", retry, transport };
      const none = yield* v.connect(device, { ...options, to: "b" });
      assert.ok(v.refused(none));
      assert.equal(none.refused, "no-service");
      for (const to of ["z", "toString", "__proto__"]) {
        const unknown = yield* v.connect(device, { ...options, to });
        assert.ok(v.refused(unknown));
        assert.equal(unknown.reason, `No host is called ${to}: expected one of a, b`);
      }
      const listener = v.must(v.listen(device, "own"));
      cpu.spawn("accepting", function* () {
        const event = yield* v.waitEvent(listener);
        assert.ok(event?.kind === "request");
        const answer = yield* v.accept(listener, event.request, { qp: { pd, ...qp }, transport });
        assert.ok(!v.refused(answer));
        assert.equal(answer.qp.life.attributes.rnrRetry, 7);
      });
      const made = yield* v.connect(device, { ...options, service: "own", to: "a" });
      assert.ok(!v.refused(made));
      assert.deepEqual(agreed(made.qp), [7, 7, 16, 16]);
      assert.equal(made.qp.life.attributes.timeout, 8);
    });
  });
});
