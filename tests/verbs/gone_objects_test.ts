/** What was destroyed, closed or refused has no effect on what comes after it, whatever numbers that gets. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { Program, ProgramContext } from "../../nodes/host/program_context.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import { IBV_ACCESS_LOCAL_WRITE, IBV_SEND_SIGNALED } from "../../nodes/host/verbs/flags.ts";
import type { VerbError } from "../../nodes/host/verbs/objects.ts";
import { alone } from "../support/alone.ts";
import { connected, statuses } from "../support/two_programs.ts";

function errnoOf(answer: unknown): string | undefined {
  return (answer as VerbError | undefined)?.errno;
}

/** What a call throws, as text. */
function* thrownBy(steps: Steps<unknown>): Steps<string> {
  try {
    return `it returned ${JSON.stringify(yield* steps)}`;
  } catch (error) {
    return String(error);
  }
}

describe("a completion queue that was destroyed", () => {
  it("is refused by every call, and the next one of its number is left alone", () => {
    let ended = false;
    alone(function* ({ device, cpu }) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const gone = v.must(yield* v.createCq(device, { entries: 8 }));
      v.must(yield* v.destroyCq(gone));
      const next = v.must(yield* v.createCq(device, { entries: 8 }));
      assert.equal(next.cqn, gone.cqn, "the card gives the number again");
      const sizes = { type: "rc", maxSendWr: 4, maxRecvWr: 4 } as const;
      const refusals = [
        yield* v.destroyCq(gone),
        yield* v.resizeCq(gone, 100),
        yield* v.reqNotifyCq(gone),
        yield* v.getCqEvent(gone),
        yield* v.createQp(pd, { ...sizes, sendCq: gone, recvCq: next }),
        yield* v.createQp(pd, { ...sizes, sendCq: next, recvCq: gone }),
      ];
      assert.deepEqual(refusals.map(errnoOf), Array(refusals.length).fill("EINVAL"));
      // A wait would have no end, nor would a loop that polls.
      for (const taken of [() => v.waitCompletion(gone), () => v.pollCq(gone, 8)]) {
        assert.match(yield* thrownBy(taken()), /EINVAL: Completion queue \d+ is gone already/);
      }
      assert.equal(errnoOf(v.startPoll(gone)), "EINVAL");
      assert.equal(next.entries, 16, "its ring is as it was");
      // Nothing was armed: no interrupt comes for what completes there.
      const qp = v.must(yield* v.createQp(pd, { ...sizes, sendCq: next, recvCq: next }));
      v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
      v.must(yield* v.postRecv(qp, { wrId: 5, sges: [] }));
      v.must(yield* v.modifyQp(qp, { state: "err" }));
      const deadline = cpu.now + 50_000_000;
      assert.equal(yield* v.getCqEvent(next, { deadline }), "timeout");
      const [flushed] = yield* v.pollCq(next, 8);
      assert.deepEqual([flushed?.wrId, flushed?.status], [5, "WR_FLUSH_ERR"]);
      v.must(yield* v.destroyQp(qp));
      v.must(yield* v.destroyCq(next));
      ended = true;
    });
    assert.ok(ended);
  });
});

describe("a thread that waits while another destroys what it waits for", () => {
  for (const mode of ["poll", "interrupt"] as const) {
    it(`is told of a completion queue, which it awaits by ${mode}`, () => {
      const told: unknown[] = [];
      alone(function* ({ cpu, device }) {
        const v = device.verbs;
        const cq = v.must(yield* v.createCq(device, { entries: 8 }));
        cpu.spawn("waits", function* () {
          told.push(yield* thrownBy(v.waitCompletion(cq, { mode })));
        });
        cpu.spawn("other", function* ({ device, cpu }) {
          yield* cpu.sleep(1e6);
          v.must(yield* v.destroyCq(cq));
          // The next of its number is another one: its end is none of the first one's.
          told.push(v.must(yield* v.createCq(device, { entries: 8 })).cqn === cq.cqn);
        });
        yield* cpu.sleep(1e9);
        assert.equal(told.length, 2, `${told}`);
      });
      assert.match(
        String(told.find((each) => each !== true)),
        /EINVAL: Completion queue \d+ is gone already/,
      );
    });
  }

  it("is told of a completion queue whose events it awaits, of a completion channel, and of an event channel", () => {
    const told: Record<string, unknown> = {};
    alone(function* ({ cpu, device }) {
      const v = device.verbs;
      const cq = v.must(yield* v.createCq(device, { entries: 8 }));
      const other = v.must(yield* v.createCq(device, { entries: 8 }));
      const channel = v.createCompChannel(device);
      const events = v.rdmaCreateEventChannel(device);
      cpu.spawn("event", function* () {
        told["event"] = errnoOf(yield* v.getCqEvent(cq));
      });
      cpu.spawn("channel", function* () {
        told["channel"] = errnoOf(yield* v.getChannelEvent(channel));
      });
      cpu.spawn("ids", function* () {
        const also = v.rdmaEventsOf(events);
        told["ids"] = (yield* v.waitCompletion(other, { also })).length;
        told["then"] = errnoOf(yield* v.rdmaGetCmEvent(events));
      });
      yield* cpu.sleep(1e8);
      assert.deepEqual(told, {}, "they wait");
      v.must(yield* v.destroyCq(cq));
      v.must(v.destroyCompChannel(channel));
      v.must(v.rdmaDestroyEventChannel(events));
      yield* cpu.sleep(1e8);
    });
    assert.deepEqual(told, { event: "EINVAL", channel: "EINVAL", ids: 0, then: "EINVAL" });
  });

  it("is not in the way of an event that is not acknowledged: EBUSY, as ibv_destroy_cq waits for it", () => {
    let answers: unknown[] = [];
    alone(function* ({ device }) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const cq = v.must(yield* v.createCq(device, { entries: 8 }));
      const sizes = { type: "rc", maxSendWr: 4, maxRecvWr: 4 } as const;
      const qp = v.must(yield* v.createQp(pd, { ...sizes, sendCq: cq, recvCq: cq }));
      v.must(yield* v.modifyQp(qp, { state: "init", accessFlags: 0 }));
      v.must(yield* v.reqNotifyCq(cq));
      v.must(yield* v.postRecv(qp, { sges: [] }));
      v.must(yield* v.modifyQp(qp, { state: "err" }));
      assert.equal(yield* v.getCqEvent(cq), "event");
      v.must(yield* v.destroyQp(qp));
      const early = yield* v.destroyCq(cq);
      v.must(v.ackCqEvents(cq, 1));
      answers = [errnoOf(early), errnoOf(yield* v.destroyCq(cq))];
    });
    assert.deepEqual(answers, ["EBUSY", undefined]);
  });
});

describe("two threads that destroy one completion queue", () => {
  it("do so once, whoever makes the next of its number meanwhile", () => {
    const answers: unknown[] = [];
    alone(function* ({ cpu, device }) {
      const v = device.verbs;
      for (let round = 0; round < 3; round++) {
        const cq = v.must(yield* v.createCq(device, { entries: 8 }));
        for (const name of ["one", "two"]) {
          cpu.spawn(`${name}${round}`, function* ({ device }): Steps<void> {
            answers.push(errnoOf(yield* v.destroyCq(cq)) ?? "ok");
            const next = v.must(yield* v.createCq(device, { entries: 8 }));
            yield* cpu.sleep(1e8);
            assert.equal(errnoOf(yield* v.resizeCq(next, 20)), undefined);
            v.must(yield* v.destroyCq(next));
          });
        }
        yield* cpu.sleep(1e9);
      }
    });
    assert.deepEqual(answers.sort(), ["EINVAL", "EINVAL", "EINVAL", "ok", "ok", "ok"]);
  });
});

describe("objects that were destroyed", () => {
  it("are refused the second time, queue pairs by every call about them", () => {
    let ended = false;
    alone(function* ({ device, cpu }) {
      const v = device.verbs;
      const pd = v.allocPd(device);
      const channel = v.createCompChannel(device);
      const cq = v.must(yield* v.createCq(device, { entries: 8, channel }));
      const sizes = { type: "ud", sendCq: cq, recvCq: cq, maxSendWr: 4, maxRecvWr: 4 } as const;
      const qp = v.must(yield* v.createQp(pd, sizes));
      const srq = v.must(yield* v.createSrq(pd, { maxWr: 4 }));
      const mr = v.must(yield* v.regMr(pd, cpu.allocate(64), { access: IBV_ACCESS_LOCAL_WRITE }));
      v.must(yield* v.destroyQp(qp));
      v.must(yield* v.destroySrq(srq));
      v.must(yield* v.deregMr(mr));
      v.must(yield* v.destroyCq(cq));
      v.must(v.destroyCompChannel(channel));
      // Others have their numbers and their memory.
      const fresh = v.must(yield* v.createCq(device, { entries: 8 }));
      const other = v.must(yield* v.createQp(pd, { ...sizes, sendCq: fresh, recvCq: fresh }));
      const refusals = [
        yield* v.destroyQp(qp),
        yield* v.modifyQp(qp, { state: "init", qKey: 1 }),
        yield* v.queryQp(qp),
        yield* v.resizeQp(qp, { maxSendWr: 8 }),
        yield* v.queueFill(qp, "send"),
        yield* v.attachMcast(qp, 0xe000_0101),
        yield* v.postSend(qp, { opcode: "send", sges: [] }),
        yield* v.destroySrq(srq),
        yield* v.deregMr(mr),
        yield* v.reregMr(mr, { access: 0 }),
        v.destroyCompChannel(channel),
        yield* v.getChannelEvent(channel),
        yield* v.createCq(device, { entries: 8, channel }),
      ];
      assert.deepEqual(refusals.map(errnoOf), Array(refusals.length).fill("EINVAL"));
      assert.equal(v.must(yield* v.queryQp(other)).state, "reset");
      ended = true;
    });
    assert.ok(ended);
  });
});

/** A shared receive queue whose limit is reached at once: one asynchronous event. */
function* alarm(device: ProgramContext["device"]) {
  const v = device.verbs;
  const srq = v.must(yield* v.createSrq(v.allocPd(device), { maxWr: 4 }));
  v.must(yield* v.modifySrq(srq, { limit: 2 }));
  return srq;
}

describe("asynchronous events", () => {
  it("belong to the program that made their object, and to all of its threads", () => {
    const got: [string, number, unknown][] = [];
    const one = (name: string): Program =>
      function* ({ cpu, device }) {
        const srq = yield* alarm(device);
        yield* cpu.sleep(1e9);
        cpu.spawn("reader", function* ({ cpu, device }): Steps<void> {
          for (;;) {
            const event = yield* device.verbs.getAsyncEvent(device, { deadline: cpu.now + 1e9 });
            if (event === "timeout") return;
            got.push([name, srq.srqn, event]);
          }
        });
      };
    alone([one("first"), one("second")]);
    assert.equal(got.length, 2);
    for (const [, srqn, event] of got) assert.deepEqual(event, { type: "SRQ_LIMIT_REACHED", srqn });
    assert.deepEqual(got.map(([name]) => name).sort(), ["first", "second"]);
  });

  it("of another context of one program are that one's", () => {
    let ended = false;
    alone(function* ({ cpu, device }) {
      const v = device.verbs;
      const other = v.openContext(device);
      const srq = yield* alarm(other);
      const deadline = cpu.now + 1e9;
      assert.equal(yield* v.getAsyncEvent(device, { deadline }), "timeout");
      const event = yield* v.getAsyncEvent(other, { deadline });
      assert.deepEqual(event, { type: "SRQ_LIMIT_REACHED", srqn: srq.srqn });
      ended = true;
    });
    assert.ok(ended);
  });

  it("keep their object until they are acknowledged, once; unread ones go with it", () => {
    let ended = false;
    alone(function* ({ cpu, device }) {
      const v = device.verbs;
      const read = yield* alarm(device);
      const event = yield* v.getAsyncEvent(device, { deadline: cpu.now + 1e9 });
      assert.ok(event !== "timeout");
      assert.equal((yield* v.destroySrq(read))?.errno, "EBUSY");
      assert.equal(v.ackAsyncEvent(v.openContext(device), event)?.errno, "EINVAL");
      v.must(v.ackAsyncEvent(device, event));
      assert.equal(v.ackAsyncEvent(device, event)?.errno, "EINVAL");
      v.must(yield* v.destroySrq(read));
      const unread = yield* alarm(device);
      yield* cpu.sleep(1e9);
      v.must(yield* v.destroySrq(unread));
      assert.equal(yield* v.getAsyncEvent(device, { deadline: cpu.now + 1e9 }), "timeout");
      ended = true;
    });
    assert.ok(ended);
  });
});

describe("a batch that is refused", () => {
  it("leaves no trace: the next posts complete as if it had not been", () => {
    connected(
      function* (context, { qp, mr }, table) {
        const v = context.device.verbs;
        const to = { va: yield* table.get(context, "va"), rkey: yield* table.get(context, "rkey") };
        const write = {
          opcode: "write",
          sendFlags: IBV_SEND_SIGNALED,
          sges: [v.sge(mr, 0, 8)],
          remote: to,
        } as const;
        // One outstanding request that completes with a later one, before and after.
        v.must(yield* v.postSend(qp, { ...write, wrId: 1, sendFlags: 0 }));
        const { unsignaled } = qp.sq;
        for (let round = 0; round < 3; round++) {
          const batch = v.wrStart(qp);
          v.wrAdd(batch, { ...write, wrId: 70, sendFlags: 0 });
          v.wrAdd(batch, { ...write, wrId: 71 });
          v.wrAdd(batch, { opcode: "read", sges: [v.sge(mr, 0, 8)] });
          assert.equal((yield* v.wrComplete(batch))?.errno, "EINVAL");
          assert.equal(qp.sq.unsignaled, unsignaled);
        }
        // Neither does one that is too long for the queue: 8 requests have room.
        const long = v.wrStart(qp);
        for (let i = 0; i < 9; i++) v.wrAdd(long, { ...write, wrId: 80 + i });
        assert.equal((yield* v.wrComplete(long))?.errno, "ENOMEM");
        const batch = v.wrStart(qp);
        v.wrAdd(batch, { ...write, wrId: 2 });
        v.wrAdd(batch, { ...write, wrId: 3 });
        v.must(yield* v.wrComplete(batch));
        const got: unknown[] = [];
        while (got.length < 2) {
          for (const { wrId, status } of yield* v.waitCompletion(qp.sendCq)) {
            got.push([wrId, status]);
          }
        }
        assert.deepEqual(got, [[2, "SUCCESS"], [3, "SUCCESS"]]);
        v.must(yield* v.postSend(qp, { ...write, wrId: 4 }));
        assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
        table.put("done");
      },
      function* (context, { mr }, table) {
        table.put("va", mr.address);
        table.put("rkey", mr.rkey);
        yield* table.get(context, "done");
      },
      {},
      { sqSigAll: false },
    );
  });
});
