/**
 * Figure 1 of the document about queue information: data 1 to 5 through a send queue with WQEs
 * 11 to 14 and a receive queue with WQEs 21 to 24, once by recycling and once by expansion. WQE 1x is
 * unit x − 1 here. Two differences: a pointer is the index of a unit, so a full ring would look like an
 * empty one, and of these four units three are filled at a time, where the figure draws four. And the ring
 * grows to eight units, of which WQE 15 is the first new one, not to five: the document says that units are
 * added, and not how many; depths are powers of two as those of mlx5 and rxe are, whose positions are
 * masked, and a ring of five would need a division for each position on the card and in each driver.
 */
import { IBV_ACCESS_LOCAL_WRITE } from "../../nodes/host/verbs/flags.ts";
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { decodeField, fieldAddress } from "../../fabric/wire/host_bus/queue_placement.ts";
import type { Steps } from "../../nodes/host/cpu/program.ts";
import type { ProgramContext } from "../../nodes/host/program_context.ts";
import type { Mr, Qp } from "../../nodes/host/verbs/objects.ts";
import { bringUp, run, type Side, type Table } from "../support/two_programs.ts";

/** Bytes from one place of data to the next. */
const PLACE = 64;

interface End {
  readonly context: ProgramContext;
  readonly table: Table;
  readonly qp: Qp;
  readonly mr: Mr;
}

/** A side with a queue pair whose two rings have four units each. */
function end(side: "left" | "right", body: (end: End) => Steps<void>): Side {
  return function* (context, table) {
    const { allocPd, createCq, createQp, regMr, must } = context.device.verbs;
    const pd = allocPd(context.device);
    const mr = must(
      yield* regMr(pd, context.cpu.allocate(4096), { access: IBV_ACCESS_LOCAL_WRITE }),
    );
    const cq = must(yield* createCq(context.device, { entries: 16 }));
    const inline = { by: "size", bytes: 0 } as const;
    const plan = {
      type: "rc",
      sendCq: cq,
      recvCq: cq,
      maxSendWr: 3,
      maxRecvWr: 3,
      sqSigAll: true,
    } as const;
    const qp = must(yield* createQp(pd, { ...plan, inline }));
    assert.deepEqual([qp.sq.depth, qp.rq.depth], [4, 4]);
    yield* bringUp(context, table, { qp, side, name: "qp" });
    yield* body({ context, table, qp, mr });
  };
}

/** The write pointer that the host has stored in space 3. */
function pointer({ context: { cpu, device: { state } } }: End, queue: number): number {
  const at = fieldAddress(state.store, state, { queue, field: "hostPointer" });
  return decodeField("hostPointer", cpu.load(at, 4));
}

/** Posts data `number` from its place. @returns the write pointer; ENOMEM where no WQE is free. */
function* send(end: End, number: number): Steps<number | "ENOMEM"> {
  const { context: { cpu, device }, qp, mr } = end;
  const { postSend, sge, must } = device.verbs;
  cpu.store(mr.address + PLACE * number, new Uint8Array(8).fill(number));
  const sges = [sge(mr, PLACE * number, 8)];
  const wrong = yield* postSend(qp, { opcode: "send", wrId: number, sges });
  if (wrong?.errno === "ENOMEM") return "ENOMEM";
  must(wrong);
  return pointer(end, qp.sq.queue);
}

/** Posts a receive for a place of its own. @returns as of {@link send}. */
function* receive(end: End, place: number): Steps<number | "ENOMEM"> {
  const { context: { device }, qp, mr } = end;
  const { postRecv, sge, must } = device.verbs;
  const wrong = yield* postRecv(qp, { wrId: place, sges: [sge(mr, PLACE * place, PLACE)] });
  if (wrong?.errno === "ENOMEM") return "ENOMEM";
  must(wrong);
  return pointer(end, qp.rq.queue);
}

/** The next completions, in their order. */
function* done({ context, qp }: End, count: number): Steps<number[]> {
  const all: number[] = [];
  while (all.length < count) {
    const some = yield* context.device.verbs.waitCompletion(qp.sendCq, {
      most: count - all.length,
    });
    for (const { wrId, status } of some) {
      assert.equal(status, "SUCCESS");
      all.push(wrId);
    }
  }
  return all;
}

function* pause({ context: { cpu } }: End, op: "lock-space2" | "unlock-space2", queue: number) {
  yield* cpu.settle();
  assert.equal((yield* cpu.command({ op, queue })).status, "ok");
}

/** Data 1 to 5 are in places 1 to 5. */
function assertPlaced({ context: { cpu }, mr }: End): void {
  for (let number = 1; number <= 5; number++) {
    const bytes = cpu.load(mr.address + PLACE * number, 8);
    assert.deepEqual([...bytes], Array(8).fill(number), `data ${number}`);
  }
}

describe("figure 1 of the document", () => {
  it("Q-09: recycling: WQE 11 takes data 5 only after data 1 was sent; WQE 21 names a new place", () => {
    run(
      end("left", function* (left) {
        const { table, qp } = left;
        yield* table.get(left.context, "receives");
        // Nothing is sent while the card holds the queue.
        yield* pause(left, "lock-space2", qp.sq.queue);
        for (const number of [1, 2, 3]) assert.equal(yield* send(left, number), number - 1);
        assert.equal(yield* send(left, 4), "ENOMEM", "the unit behind it is data 1's");
        assert.equal(pointer(left, qp.sq.queue), 2);
        yield* pause(left, "unlock-space2", qp.sq.queue);
        assert.deepEqual(yield* done(left, 1), [1]);
        assert.equal(yield* send(left, 4), 3, "WQE 14");
        assert.deepEqual(yield* done(left, 1), [2]);
        assert.equal(yield* send(left, 5), 0, "from unit 4 to unit 1");
        assert.deepEqual(yield* done(left, 3), [3, 4, 5]);
      }),
      end("right", function* (right) {
        for (const place of [1, 2, 3]) assert.equal(yield* receive(right, place), place - 1);
        assert.equal(yield* receive(right, 4), "ENOMEM");
        right.table.put("receives");
        assert.deepEqual(yield* done(right, 1), [1]);
        assert.equal(yield* receive(right, 4), 3, "WQE 24");
        assert.deepEqual(yield* done(right, 1), [2]);
        assert.equal(yield* receive(right, 5), 0, "WQE 21 again");
        assert.deepEqual(yield* done(right, 3), [3, 4, 5]);
        assertPlaced(right);
      }),
    );
  });

  it("Q-09: expansion: data 5 goes into a new WQE 15, and from there to the place of WQE 25", () => {
    run(
      end("left", function* (left) {
        const { context, table, qp } = left;
        const { resizeQp, must } = context.device.verbs;
        yield* table.get(context, "paused");
        for (const number of [1, 2, 3]) assert.equal(yield* send(left, number), number - 1);
        assert.equal(yield* send(left, 4), "ENOMEM");
        // Data 1 is refused here, so that none of the three has been sent.
        must(yield* resizeQp(qp, { maxSendWr: 5 }));
        assert.equal(qp.sq.depth, 8);
        assert.equal(yield* send(left, 4), 3, "WQE 14");
        assert.equal(yield* send(left, 5), 4, "WQE 15: from unit 4 on");
        table.put("expanded");
        assert.deepEqual(yield* done(left, 5), [1, 2, 3, 4, 5]);
      }),
      end("right", function* (right) {
        const { context, table, qp } = right;
        const { resizeQp, must } = context.device.verbs;
        for (const place of [1, 2, 3]) assert.equal(yield* receive(right, place), place - 1);
        assert.equal(yield* receive(right, 4), "ENOMEM");
        must(yield* resizeQp(qp, { maxRecvWr: 5 }));
        assert.equal(yield* receive(right, 4), 3);
        assert.equal(yield* receive(right, 5), 4, "WQE 25");
        yield* pause(right, "lock-space2", qp.rq.queue);
        table.put("paused");
        yield* table.get(context, "expanded");
        yield* pause(right, "unlock-space2", qp.rq.queue);
        assert.deepEqual(yield* done(right, 5), [1, 2, 3, 4, 5]);
        assertPlaced(right);
      }),
    );
  });
});
