/** Arming a completion queue: for which completions its event comes (`queues: { arm }`). */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { connected } from "../support/two_programs.ts";

const PATIENCE_PS = 200 * PS_PER_US;

interface Seen {
  readonly polled: readonly number[];
  readonly event: boolean;
}

/**
 * A message comes `sentAt` after the receiver has begun; the receiver polls, sleeps, arms, polls again where it is
 * told to, and waits for the event where it has found nothing.
 */
function receive(
  arm: "unread" | "next",
  { sentAt, armedAt, isCareful }: {
    readonly sentAt: Time;
    readonly armedAt: Time;
    readonly isCareful: boolean;
  },
): Seen {
  const polled: number[] = [];
  let event = false;
  connected(
    function* (context, { qp, mr }, table) {
      const { postSend, sge, must } = context.device.verbs;
      const begunAt = yield* table.get(context, "begun");
      yield* context.cpu.sleep(begunAt + sentAt - context.cpu.now);
      must(yield* postSend(qp, { opcode: "send", sges: [sge(mr, 0, 8)] }));
    },
    function* (context, { qp, mr }, table) {
      const { cpu, device } = context;
      const { postRecv, pollCq, sge, must, reqNotifyCq, getCqEvent, ackCqEvents } = device.verbs;
      must(yield* postRecv(qp, { sges: [sge(mr, 0, 64)] }));
      const cq = qp.recvCq, begunAt = cpu.now;
      table.put("begun", begunAt);
      polled.push((yield* pollCq(cq, 8)).length);
      yield* cpu.sleep(begunAt + armedAt - cpu.now);
      must(yield* reqNotifyCq(cq));
      if (isCareful) polled.push((yield* pollCq(cq, 8)).length);
      if (polled.some((count) => count > 0)) return;
      event = (yield* getCqEvent(cq, { deadline: cpu.now + PATIENCE_PS })) !== "timeout";
      if (!event) return;
      must(ackCqEvents(cq, 1));
      polled.push((yield* pollCq(cq, 8)).length);
    },
    { queues: { arm } },
  );
  return { polled, event };
}

interface Delivered {
  /** From the arming until the event. */
  readonly afterPs: Time;
  /** What the channel has said before, asked each microsecond. */
  readonly early: readonly unknown[];
}

/**
 * Arms a queue that has a completion, takes it at once, and waits for the event: as perftest does, for each message.
 */
function armThenTake(arm: "unread" | "next", by: "queue" | "channel"): Delivered | undefined {
  let delivered: Delivered | undefined;
  connected(
    function* (context, { qp, mr }, table) {
      const { postSend, sge, must } = context.device.verbs;
      yield* table.get(context, "begun");
      must(yield* postSend(qp, { opcode: "send", sges: [sge(mr, 0, 8)] }));
    },
    function* (context, { qp, mr }, table) {
      const { cpu, device } = context, cq = qp.recvCq;
      const { postRecv, pollCq, sge, must, reqNotifyCq, getCqEvent, getChannelEvent } =
        device.verbs;
      must(yield* postRecv(qp, { sges: [sge(mr, 0, 64)] }));
      table.put("begun", 1);
      yield* cpu.sleep(50 * PS_PER_US);
      must(yield* reqNotifyCq(cq));
      assert.equal((yield* pollCq(cq, 8)).length, 1);
      const from = cpu.now, early: unknown[] = [];
      const channel = { device, vector: cq.vector!, cqs: new Set([cq]), uses: { alive: true } };
      const waitUntil = (deadline: Time) =>
        by === "queue" ? getCqEvent(cq, { deadline }) : getChannelEvent(channel, { deadline });
      if (by === "channel") {
        while (cpu.now < from + 3 * PS_PER_US) {
          early.push(yield* waitUntil(cpu.now));
          yield* cpu.sleep(PS_PER_US);
        }
      }
      if ((yield* waitUntil(cpu.now + PATIENCE_PS)) !== "timeout") {
        delivered = { afterPs: cpu.now - from, early };
      }
    },
    { queues: { arm } },
  );
  return delivered;
}

describe("arming a completion queue", () => {
  for (const by of ["queue", "channel"] as const) {
    it(`unread, by ${by}: the event comes with its interrupt, also of a completion that is read before`, () => {
      const { afterPs, early } = armThenTake("unread", by)!;
      assert.ok(early.every((each) => each === "timeout"), `${early}`);
      assert.equal(early.length > 0, by === "channel");
      // The handler takes 3.5 µs, after some 0.5 µs to the card and back.
      assert.ok(afterPs > 3.5 * PS_PER_US && afterPs < 4.5 * PS_PER_US, `${afterPs} ps`);
    });

    it(`next, by ${by}: one that is read has no event`, () => {
      assert.equal(armThenTake("next", by), undefined);
    });
  }

  /** A completion comes between the look that finds nothing and the arming. */
  const between = { sentAt: PS_PER_US, armedAt: 50 * PS_PER_US };

  it("unread: raises its event for a completion that is there already", () => {
    const seen = receive("unread", { ...between, isCareful: false });
    assert.deepEqual(seen, { polled: [0, 1], event: true });
  });

  it("next: who does not poll once more sleeps through it", () => {
    const seen = receive("next", { ...between, isCareful: false });
    assert.deepEqual(seen, { polled: [0], event: false });
  });

  it("next: raises it for one that comes later", () => {
    const seen = receive("next", { sentAt: 60 * PS_PER_US, armedAt: PS_PER_US, isCareful: false });
    assert.deepEqual(seen, { polled: [0, 1], event: true });
  });

  for (const arm of ["unread", "next"] as const) {
    it(`§7 #23, ${arm}: who arms and polls again misses none, whenever it comes`, () => {
      let found = 0, woken = 0;
      for (let step = 0; step < 40; step++) {
        // 100 ns apart, around the time that a message takes.
        const sentAt = 10 * PS_PER_US + step * 100_000;
        const { polled, event } = receive(arm, {
          sentAt,
          armedAt: 14 * PS_PER_US,
          isCareful: true,
        });
        assert.equal(polled.at(-1), 1, `sent ${sentAt} ps after the begin`);
        if (event) woken++;
        else found++;
      }
      assert.ok(found > 0 && woken > 0, `${found} found by a look, ${woken} by the event`);
    });
  }
});
