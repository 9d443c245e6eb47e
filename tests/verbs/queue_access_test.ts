/** the access rules of queue information, held at the memory: programs break them. */
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { NEVER } from "../../fabric/base/time.ts";
import { decodeLockAnswer, LOCK_ANSWER_BYTES } from "../../fabric/wire/host_bus/lock_answer.ts";
import {
  decodeField,
  encodeField,
  fieldAddress,
  type QueueField,
  type QueueFields,
} from "../../fabric/wire/host_bus/queue_placement.ts";
import { PLACEMENTS } from "../../fabric/wire/host_bus/queue_placement.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import { bringUp, connected, rcOptions, statuses } from "../support/two_programs.ts";
import type { Ends } from "../support/two_programs.ts";

const ROUNDS = 30;

/** By which scheme the card tells its pointers, and where. */
const SCHEMES: readonly object[] = [
  {},
  { store: "node" },
  { store: "device" },
  { layout: "record" },
  { placement: "both-in-3" },
  { scheme: "classic" },
  { cache: "none" },
  { cache: { entries: 4, evict: "oldest" } },
].flatMap((scheme) => [scheme, { ...scheme, readPointer: "batched" }]);

const RULES = Object.keys(PLACEMENTS) as (keyof typeof PLACEMENTS)[];

function at({ device }: ProgramContext, { qp }: Ends, field: QueueField): number {
  return fieldAddress(device.state.store, device.state, { queue: qp.sq.queue, field });
}

/** What a store of a field comes to: the message, or "stored". The memory must say the same. */
function tryStore<F extends QueueField>(
  context: ProgramContext,
  ends: Ends,
  { field, value }: { readonly field: F; readonly value: QueueFields[F] },
): string {
  const { cpu } = context;
  const address = at(context, ends, field), bytes = encodeField(field, value);
  const ways = [
    () => cpu.store(address, bytes),
    () => cpu.ntstore(address, bytes),
    () => void cpu.ntStore(address, bytes).next(),
  ];
  const before = cpu.load(address, bytes.length);
  const outcomes = new Set(ways.map((way) => {
    try {
      way();
      return "stored";
    } catch (error) {
      assert.deepEqual(cpu.load(address, bytes.length), before, "nothing is changed by a breach");
      return (error as Error).message.replace(/0x[0-9a-f]+/, "X").replace(/queue \d+/, "queue Q");
    }
  }));
  assert.equal(outcomes.size, 1, "every kind of store is held");
  return [...outcomes][0]!;
}

/** Takes a lock without the driver's verb. @returns until when it is granted. */
function* lockOf({ cpu, device: { state } }: ProgramContext, queue: number): Steps<number> {
  const { lockAnswers } = state;
  const offset = LOCK_ANSWER_BYTES * queue;
  const answerAt = lockAnswers && { answerAt: lockAnswers.physical + offset };
  const reply = yield* cpu.command({ op: "lock-space2", queue, ...answerAt });
  if (lockAnswers === undefined) {
    assert.ok(reply.status === "ok" && reply.op === "lock-space2");
    return reply.until;
  }
  assert.deepEqual(reply, { status: "ok", op: "done" }, "the answer itself is in memory");
  const at = lockAnswers.address + offset;
  for (;;) {
    const answer = decodeLockAnswer(cpu.load(at, LOCK_ANSWER_BYTES));
    if (typeof answer === "object") return answer.until;
    yield* cpu.waitMemory(at, LOCK_ANSWER_BYTES, NEVER);
  }
}

describe("queue information in memory", () => {
  for (const rule of RULES) {
    it(`Q-04, Q-05: by ${rule} a store into space 1, or into space 2 without its lock, is an error that changes nothing`, () => {
      connected(function* (context, ends) {
        const { device, cpu } = context;
        const { writeSpace2, postSend, sge, must } = device.verbs;
        const { queue } = ends.qp.sq;
        const onlyRnic = "space 1 of queue Q, which only the RNIC writes";
        const told = tryStore(context, ends, { field: "state", value: "err" });
        assert.equal(told, `Cannot store 1 B at X: they touch ${onlyRnic}`);
        const pointer = tryStore(context, ends, { field: "rnicPointer", value: 5 });
        if (rule === "both-in-3") assert.equal(pointer, "stored");
        else assert.equal(pointer, `Cannot store 4 B at X: they touch ${onlyRnic}`);
        if (rule === "both-in-3") {
          cpu.store(at(context, ends, "rnicPointer"), encodeField("rnicPointer", 0));
        }
        const depth = { field: "depth", value: 16 } as const;
        assert.equal(
          tryStore(context, ends, depth),
          `Cannot store 4 B at X: they touch space 2 of queue Q, which is not locked: expected lock-space2 granted to ${cpu.program}`,
        );
        assert.equal((yield* cpu.command({ op: "lock-space2", queue })).status, "ok");
        const now = ends.qp.sq.depth;
        assert.equal(tryStore(context, ends, { ...depth, value: now }), "stored");
        yield* cpu.settle();
        assert.equal((yield* cpu.command({ op: "unlock-space2", queue })).status, "ok");
        assert.match(tryStore(context, ends, depth), /is not locked/);
        const data = encodeField("depth", now);
        must(yield* writeSpace2(device, { queue, offset: 0, data }));
        must(yield* postSend(ends.qp, { opcode: "send", sges: [sge(ends.mr, 0, 8)] }));
        assert.deepEqual(yield* statuses(context, ends.qp), ["SUCCESS"]);
      }, function* (context, ends, table) {
        const { postRecv, sge, must } = context.device.verbs;
        must(yield* postRecv(ends.qp, { sges: [sge(ends.mr, 0, 64)] }));
        table.put("posted");
      }, { queues: { placement: rule } });
    });
  }

  for (const store of ["host", "device"]) {
    it(`Q-03: a program sees what the RNIC has taken, and never more room than there is, round the ring, at ${store}`, () => {
      connected(function* (context, { qp, mr }, table) {
        const { postSend, queueFill, sge, must } = context.device.verbs;
        const va = yield* table.get(context, "va"), rkey = yield* table.get(context, "rkey");
        const request = { opcode: "write", sges: [sge(mr, 0, 8)], remote: { va, rkey } } as const;
        let outstanding = 0, taken = 0;
        for (let round = 0; round < 40; round++) {
          const count = 1 + round % 5;
          must(yield* postSend(qp, Array.from({ length: count }, () => request)));
          outstanding += count;
          yield* context.cpu.sleep(1_000_000);
          const { filled, free } = must(yield* queueFill(qp, "send"));
          assert.equal(filled + free, qp.sq.depth - 1);
          assert.ok(filled <= qp.sq.used, "no more than what has not completed");
          if (filled < qp.sq.used) taken++;
          while (outstanding > 0) outstanding -= (yield* statuses(context, qp)).length;
          const { read, write } = must(yield* queueFill(qp, "send"));
          assert.equal(read, (write + 1) % qp.sq.depth, "empty: all that is written is taken");
        }
        assert.equal(qp.sq.depth, 64, "120 requests use the ring again");
        assert.ok(taken > 20, `${taken} times it told what had not completed`);
        table.put("done");
      }, function* (context, { mr }, table) {
        table.put("va", mr.address);
        table.put("rkey", mr.rkey);
        yield* table.get(context, "done");
      }, { queues: { readPointer: "batched", store } });
    });
  }

  for (const queues of SCHEMES) {
    const how = JSON.stringify(queues);
    it(`Q-03: of the card's pointer a host sees at least what has completed, and never more than is taken: ${how}`, () => {
      connected(function* (context, { qp, mr }, table) {
        const { postSend, queueInformation, sge, must } = context.device.verbs;
        const { device } = context;
        const va = yield* table.get(context, "va"), rkey = yield* table.get(context, "rkey");
        const request = { opcode: "write", sges: [sge(mr, 0, 8)], remote: { va, rkey } } as const;
        const { sq, sendCq: { place, entries } } = qp;
        for (let round = 0; round < 40; round++) {
          let outstanding = 1 + (round % 5 === 4 ? 7 : round % 5);
          const ring = sq.depth;
          for (let left = outstanding; left > 0; left--) must(yield* postSend(qp, request));
          // Nothing has been polled: of a full ring, too, a copy of an earlier pass is not believed.
          const tail = sq.tail, used = sq.used;
          const { rnicPointer: early } = must(yield* queueInformation(device, sq.queue));
          assert.ok((early - tail + ring) % ring <= used, `${early} of [${tail}, +${used}]`);
          while (outstanding > 0) outstanding -= (yield* statuses(context, qp)).length;
          const { rnicPointer } = must(yield* queueInformation(device, sq.queue));
          assert.equal(rnicPointer, (sq.write + 1) % ring, "all has completed");
          const cq = must(yield* queueInformation(device, place.queue));
          assert.equal(cq.rnicPointer, place.taken % entries, "and its completions were written");
        }
        table.put("done");
      }, function* (context, { mr }, table) {
        table.put("va", mr.address);
        table.put("rkey", mr.rkey);
        yield* table.get(context, "done");
      }, { queues });
    });

    it(`Q-03: and so of a receive queue and of a shared one, whose receives complete in any order: ${how}`, () => {
      connected(function* (context, { qp, mr, connect }, table) {
        const { postSend, sge, must } = context.device.verbs;
        const to = [qp, yield* connect("first"), yield* connect("second")];
        const request = { opcode: "send", sges: [sge(mr, 0, 8)] } as const;
        for (let round = 0; round < ROUNDS; round++) {
          yield* table.get(context, `posted ${round}`);
          for (const each of to) must(yield* postSend(each, request));
          for (const each of to) yield* statuses(context, each);
        }
        yield* table.get(context, "done");
      }, function* (context, { qp, pd, mr }, table) {
        const { device } = context;
        const v = device.verbs;
        const srq = v.must(yield* v.createSrq(pd, { maxWr: 12 }));
        const cq = v.must(yield* v.createCq(device, { entries: 16 }));
        for (const name of ["first", "second"]) {
          const shared = v.must(yield* v.createQp(pd, rcOptions(cq, { srq })));
          yield* bringUp(context, table, { qp: shared, side: "right", name });
        }
        const receive = { sges: [v.sge(mr, 64, 8)] };
        // Two more than are used are always there.
        v.must(yield* v.postSrqRecv(srq, [receive, receive]));
        for (let round = 0; round < ROUNDS; round++) {
          v.must(yield* v.postRecv(qp, receive));
          v.must(yield* v.postSrqRecv(srq, [receive, receive]));
          table.put(`posted ${round}`);
          for (let left = 2; left > 0; left--) {
            yield* v.waitCompletion(cq, { most: 1 });
            const { rnicPointer } = v.must(yield* v.queueInformation(device, srq.ring.queue));
            const waiting = (srq.ring.write + 1 - rnicPointer + srq.ring.depth) % srq.ring.depth;
            assert.ok(waiting <= 1 + left, `${waiting} wait, of ${1 + left} not completed`);
            // The card reads several at once: those are taken before they are needed, where it tells that.
            if (!("readPointer" in queues)) assert.equal(waiting, 1 + left);
          }
          yield* v.waitCompletion(qp.recvCq);
          const { rnicPointer } = v.must(yield* v.queueInformation(device, qp.rq.queue));
          assert.equal(rnicPointer, (qp.rq.write + 1) % qp.rq.depth);
        }
        table.put("done");
      }, { queues });
    });
  }

  it("Q-04: a lock ends with its queue: reset or destroyed, it is not the program's any more", () => {
    connected(function* (context, ends) {
      const { cpu, device } = context;
      const { createCq, destroyCq, modifyQp, must } = device.verbs;
      function* lock(queue: number): Steps<void> {
        assert.equal((yield* cpu.command({ op: "lock-space2", queue })).status, "ok");
      }
      const { store } = device.state;
      const stores = (queue: number) => () =>
        cpu.store(fieldAddress(store, device.state, { queue, field: "depth" }), new Uint8Array(4));
      const { queue, depth } = ends.qp.sq;
      yield* lock(queue);
      cpu.store(at(context, ends, "depth"), encodeField("depth", 2 * depth));
      yield* cpu.settle();
      must(yield* modifyQp(ends.qp, { state: "reset" }));
      assert.throws(stores(queue), /is not locked/);
      yield* cpu.sleep(1_000_000);
      const left = decodeField("depth", cpu.load(at(context, ends, "depth"), 4));
      assert.equal(left, depth, "what was half written is dropped");
      const cq = must(yield* createCq(device, { entries: 4 }));
      yield* lock(cq.cqn);
      stores(cq.cqn)();
      must(yield* destroyCq(cq));
      assert.throws(stores(cq.cqn), /is not locked/);
    }, function* () {});
  });

  const answers = ["message", "memory"].flatMap((lockAnswer) =>
    ["host", "device"].map((store) => ({ lockAnswer, store }))
  );
  for (const { lockAnswer, store } of answers) {
    it(`Q-04: of a program that dies with it the RNIC takes the lock back after its time, answered by ${lockAnswer} at ${store}: old values stay, the queue goes on`, () => {
      const rack = connected(
        function* (context, { qp, mr }, table) {
          const { cpu, device } = context;
          const { postSend, storeSpace2, sge, must } = device.verbs;
          const va = yield* table.get(context, "va"), rkey = yield* table.get(context, "rkey");
          const request = { opcode: "write", sges: [sge(mr, 0, 8)], remote: { va, rkey } } as const;
          const { queue, depth } = qp.sq;
          const change = {
            queue,
            offset: device.state.store.offsets.depth,
            data: encodeField("depth", depth / 2),
          };
          table.put("queue", queue);
          const until = yield* table.get(context, "locked");
          must(yield* postSend(qp, request));
          const denied = yield* storeSpace2(device, change);
          assert.equal(denied?.errno, "EBUSY", "it is another program's");
          assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"]);
          assert.ok(cpu.now >= until && cpu.now < until + 10_000_000, "as soon as it is free");
          const found = fieldAddress(device.state.store, device.state, { queue, field: "depth" });
          assert.equal(
            decodeField("depth", yield* cpu.read(found, 4)),
            depth,
            "half of it was written",
          );
          for (let i = 0; i < 2 * depth; i++) {
            must(yield* postSend(qp, request));
            assert.deepEqual(yield* statuses(context, qp), ["SUCCESS"], "round the old ring");
          }
          must(yield* storeSpace2(device, change));
          assert.equal(qp.sq.depth, depth / 2, "the next one has the lock");
          table.put("done");
        },
        function* (context, { mr }, table) {
          table.put("va", mr.address);
          table.put("rkey", mr.rkey);
          yield* table.get(context, "done");
        },
        { queues: { lockAnswer, store } },
        {
          *failing(context, table) {
            const { cpu, device: { state } } = context;
            const queue = yield* table.get(context, "queue");
            const until = yield* lockOf(context, queue);
            const depth = fieldAddress(state.store, state, { queue, field: "depth" });
            cpu.store(depth, new Uint8Array([0x12, 0x34]));
            yield* cpu.settle();
            table.put("locked", until);
            throw new Error("as a process that is killed");
          },
        },
      );
      const { locksGranted, locksDenied, locksTakenBack } = rack.simulator.statistics()["a-rnic"]!;
      assert.deepEqual([locksGranted, locksDenied, locksTakenBack], [2, 1, 1]);
    });
  }

  it("Q-04: neither a region nor a completion queue can be laid over queue information", () => {
    connected(function* (context, { pd }) {
      const { cpu, device } = context;
      const { state, verbs: { regMr } } = device;
      const page = state.space3 - state.space3 % 4096;
      const over = { address: page, length: 4096, pageBytes: 4096 };
      const pages = [page - 0x7e00_0000_0000];
      const region = yield* regMr(pd, { ...over, pages }, { access: IBV_ACCESS_LOCAL_WRITE });
      assert.ok("errno" in region && region.errno === "EINVAL");
      assert.match(region.reason, /holds queue information, which no region may cover/);
      const ring = { address: pages[0]!, units: 8 };
      const cq = yield* cpu.command({ op: "create-cq", ring, vector: null });
      assert.ok(cq.status === "error" && /lies in queue information/.test(cq.reason));
    }, function* () {});
  });
});
