/** Queues that get another size in use, by the driver's verbs against the real RNIC. */
import { IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { encodeField } from "../../fabric/wire/host_bus/queue_placement.ts";
import { PS_PER_US } from "../../fabric/base/time.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Cq, WorkCompletion } from "../../nodes/host/verbs/objects.ts";
import { bringUp, connected, rcOptions } from "../support/two_programs.ts";

/** Waits until so many have completed. */
function* completed(context: ProgramContext, cq: Cq, count: number): Steps<WorkCompletion[]> {
  const all: WorkCompletion[] = [];
  while (all.length < count) all.push(...yield* context.device.verbs.waitCompletion(cq));
  return all;
}

function upTo(count: number, from = 0): number[] {
  return Array.from({ length: count }, (_, i) => from + i);
}

describe("queues that get another size in use", () => {
  it("Q-09: SQ and RQ grow under traffic, in place and in new memory: all complete once, in order", () => {
    const SENDS = 180;
    connected(
      function* (context, { qp, mr }, table) {
        const { postSend, resizeQp, sge, must, pollCq } = context.device.verbs;
        yield* table.get(context, "posted");
        const done: number[] = [];
        const sizes = [20, 40, 200];
        for (let wrId = 0; wrId < SENDS;) {
          const wrong = yield* postSend(qp, {
            opcode: "send-immediate",
            wrId,
            immediate: wrId,
            sendFlags: wrId % 3 === 0 ? IBV_SEND_SIGNALED : 0,
            sges: [sge(mr, 0, 8)],
          });
          if (wrong === undefined) {
            wrId++;
          } else {
            assert.equal(wrong.errno, "ENOMEM");
            const maxSendWr = sizes.shift();
            // In the middle of what is under way: nothing has been polled since the ring was full.
            if (maxSendWr !== undefined) must(yield* resizeQp(qp, { maxSendWr }));
            else for (const { wrId } of yield* pollCq(qp.sendCq, 8)) done.push(wrId);
          }
        }
        assert.deepEqual([sizes.length, qp.sq.requestsMax, qp.caps.maxSendWr], [0, 200, 200]);
        const missing = SENDS / 3 - done.length;
        done.push(...(yield* completed(context, qp.sendCq, missing)).map(({ wrId }) => wrId));
        assert.deepEqual(done, upTo(SENDS / 3).map((i) => 3 * i));
      },
      function* (context, { qp, mr }, table) {
        const { postRecv, resizeQp, resizeCq, must, sge } = context.device.verbs;
        let posted = 0;
        function* post(count: number): Steps<void> {
          for (let i = 0; i < count; i++) {
            must(yield* postRecv(qp, { wrId: posted++, sges: [sge(mr, 0, 64)] }));
          }
        }
        yield* post(8);
        assert.equal((yield* postRecv(qp, { sges: [] }))?.errno, "ENOMEM");
        table.put("posted");
        const taken: WorkCompletion[] = [];
        for (const maxRecvWr of [12, 60, 400]) {
          taken.push(...yield* completed(context, qp.recvCq, 3));
          must(yield* resizeCq(qp.recvCq, maxRecvWr + 20));
          must(yield* resizeQp(qp, { maxRecvWr }));
          yield* post(3);
        }
        while (taken.length < SENDS) {
          if (posted < SENDS) yield* post(1);
          taken.push(...yield* completed(context, qp.recvCq, 1));
        }
        assert.deepEqual(taken.map(({ immData }) => immData), upTo(SENDS), "nothing is lost");
        assert.deepEqual(taken.map(({ wrId }) => wrId), upTo(SENDS), "RECVs are taken in order");
      },
      {},
      { sqSigAll: false },
    );
  });

  const ways = [
    { placement: "default", lockAnswer: "message" },
    { placement: "pointer-in-3", lockAnswer: "memory" },
    { placement: "both-in-3", lockAnswer: "memory" },
    // `depth` is not the first field of space 2.
    { placement: { wqeAddress: 2, indexAddress: 2 }, lockAnswer: "memory", layout: "record" },
  ] as const;
  for (const queues of ways) {
    it(`Q-04, Q-05, Q-09: the depth by value and under the lock, by ${JSON.stringify(queues)}`, () => {
      connected(function* (context, { qp, mr }, table) {
        const { postSend, storeSpace2, writeSpace2, sge, must } = context.device.verbs;
        const remote = {
          va: yield* table.get(context, "va"),
          rkey: yield* table.get(context, "rkey"),
        };
        const { queue } = qp.sq;
        const depth = (units: number) => ({
          queue,
          offset: context.device.state.store.offsets.depth,
          data: encodeField("depth", units),
        });
        const { depth: first, room } = qp.sq;
        assert.deepEqual([first, room / 64], [64, 64], "a page");
        const post = (wrId: number) =>
          postSend(qp, { opcode: "write", wrId, sges: [sge(mr, 0, 8)], remote });
        const done: number[] = [];
        function* take(count: number): Steps<void> {
          done.push(...(yield* completed(context, qp.sendCq, count)).map(({ wrId }) => wrId));
        }
        for (let wrId = 0; wrId < 8; wrId++) must(yield* post(wrId));
        assert.equal((yield* writeSpace2(context.device, depth(128)))?.errno, "EINVAL", "no room");
        assert.equal((yield* storeSpace2(context.device, depth(4)))?.errno, "EBUSY", "8 are there");
        assert.equal((yield* writeSpace2(context.device, depth(3)))?.errno, "EBUSY");
        assert.equal(
          (yield* storeSpace2(context.device, depth(48)))?.errno,
          "EINVAL",
          "no power of 2",
        );
        must(yield* storeSpace2(context.device, depth(16)));
        yield* take(8);
        assert.equal(qp.sq.depth, 16);
        for (let wrId = 8; wrId < 48; wrId++) {
          must(yield* post(wrId));
          if (wrId % 8 === 3) {
            must(yield* writeSpace2(context.device, depth(wrId % 3 === 0 ? 32 : 64)));
          }
          if (wrId % 8 === 7) yield* take(8);
        }
        assert.deepEqual(done, upTo(48));
        table.put("done");
      }, function* (context, { mr }, table) {
        table.put("va", mr.address);
        table.put("rkey", mr.rkey);
        yield* table.get(context, "done");
      }, { queues });
    });
  }

  it("Q-04, Q-05: where no field lies in space 2 there is no lock, and nothing to hand over", () => {
    const queues = { placement: { depth: 1, unitBytes: 1 } };
    connected(
      function* (context, { qp }) {
        const { storeSpace2, writeSpace2 } = context.device.verbs;
        const { queue } = qp.sq;
        const change = { queue, offset: 0, data: encodeField("depth", 16) };
        assert.equal((yield* storeSpace2(context.device, change))?.errno, "EINVAL");
        assert.equal((yield* writeSpace2(context.device, change))?.errno, "EINVAL");
        const lock = yield* context.cpu.command({ op: "lock-space2", queue });
        assert.ok(lock.status === "error" && /no field in space 2/.test(lock.reason));
      },
      function* () {},
      { queues },
    );
  });

  it("Q-09: a shared receive queue grows and shrinks in use; all that is posted is taken once", () => {
    const SENDS = 90;
    connected(function* (context, { connect }, table) {
      const { postSend, must } = context.device.verbs;
      const [one, two] = [yield* connect("one"), yield* connect("two")];
      yield* table.get(context, "posted");
      for (let i = 0; i < SENDS; i++) {
        const to = i % 2 === 0 ? one : two;
        const request = {
          opcode: "send-immediate",
          immediate: i,
          sges: [],
          sendFlags: IBV_SEND_SIGNALED,
        } as const;
        must(yield* postSend(to, request));
        yield* completed(context, to.sendCq, 1);
      }
    }, function* (context, { pd, mr }, table) {
      const verbs = context.device.verbs;
      const { createSrq, createCq, createQp, modifySrq, postSrqRecv, querySrq, must, sge } = verbs;
      const srq = must(yield* createSrq(pd, { maxWr: 4 }));
      const cq = must(yield* createCq(context.device, { entries: 64 }));
      const plan = rcOptions(cq, { maxSendWr: 1, maxRecvWr: 0, srq });
      for (const name of ["one", "two"]) {
        const qp = must(yield* createQp(pd, plan));
        yield* bringUp(context, table, { qp, side: "right", name });
      }
      let posted = 0;
      function* post(count: number): Steps<void> {
        for (let i = 0; i < count; i++) {
          must(yield* postSrqRecv(srq, { wrId: posted++, sges: [sge(mr, 0, 8)] }));
        }
      }
      yield* post(4);
      table.put("posted");
      const taken: WorkCompletion[] = [];
      let more = 4;
      for (const maxWr of [12, 300, 20]) {
        taken.push(...yield* completed(context, cq, more));
        must(yield* modifySrq(srq, { maxWr }));
        more = Math.min(12, maxWr);
        yield* post(more);
      }
      assert.equal(must(yield* querySrq(srq)).maxWr, 20);
      assert.equal((yield* modifySrq(srq, { maxWr: 1 }))?.errno, "EBUSY");
      while (taken.length < SENDS) {
        if (posted < SENDS) yield* post(1);
        taken.push(...yield* completed(context, cq, 1));
      }
      assert.deepEqual(taken.map(({ immData }) => immData), upTo(SENDS));
      assert.deepEqual(taken.map(({ wrId }) => wrId).sort((x, y) => x - y), upTo(SENDS));
    });
  });

  it("Q-09: a post that comes while another thread resizes the queue goes on behind it", () => {
    let waited = false, posted = false;
    connected(
      function* (context, { qp, mr }) {
        const { resizeQp, sge, must, postSend } = context.device.verbs;
        context.cpu.spawn("poster", function* ({ cpu }) {
          yield* cpu.sleep(PS_PER_US);
          waited = qp.sq.resizing;
          must(yield* postSend(qp, { opcode: "send", sges: [sge(mr, 0, 8)] }));
          posted = true;
        });
        must(yield* resizeQp(qp, { maxSendWr: 200 }));
        yield* context.cpu.sleep(100 * PS_PER_US);
      },
      function* (context, { qp, mr }) {
        const { postRecv, must, sge } = context.device.verbs;
        must(yield* postRecv(qp, { sges: [sge(mr, 0, 64)] }));
        assert.equal((yield* completed(context, qp.recvCq, 1))[0]!.byteLen, 8);
      },
    );
    assert.deepEqual({ waited, posted }, { waited: true, posted: true });
  });

  for (const what of ["the completion queue", "the receive queue"] as const) {
    it(`Q-09: who begins to wait for a completion while another thread resizes ${what} gets it`, () => {
      let waited = false;
      connected(
        function* (context, { qp, mr }, table) {
          const { postSend, sge, must } = context.device.verbs;
          yield* table.get(context, "waiting");
          yield* context.cpu.sleep(50 * PS_PER_US);
          must(yield* postSend(qp, { opcode: "send", sges: [sge(mr, 0, 8)] }));
        },
        function* (context, { qp, mr }, table) {
          const { postRecv, must, sge, resizeCq, resizeQp, waitCompletion } = context.device.verbs;
          must(yield* postRecv(qp, { sges: [sge(mr, 0, 64)] }));
          const cq = qp.recvCq;
          context.cpu.spawn("resizer", function* () {
            must(
              yield* what === "the receive queue"
                ? resizeQp(qp, { maxRecvWr: 200 })
                : resizeCq(cq, 500),
            );
          });
          yield* context.cpu.sleep(PS_PER_US);
          waited = cq.place.resizing;
          table.put("waiting");
          const deadline = context.cpu.now + 1_000 * PS_PER_US;
          assert.equal((yield* waitCompletion(cq, { deadline })).length, 1);
        },
      );
      assert.ok(waited, "it was being resized");
    });
  }
});
