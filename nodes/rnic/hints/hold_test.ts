/** Ends of holds that come at one instant, and answers, where several lives, queue pairs or peers have work that waits. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { HINT_BATCH, HINT_PLAN, type HintPlan } from "../../../fabric/rack/plan/hint_plan.ts";
import { HINT_REASONS } from "../../../fabric/wire/roce/hint_eth.ts";
import type { HintMessage } from "../../../fabric/wire/roce/hint.ts";
import { createDevice } from "../device.ts";
import type { Device } from "../state/device.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { scopeOfQueuePair } from "./needless.ts";
import { type Batch, createEnd, createHints, type HintEnd, type Hold } from "./state/hint_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { endHolds, takeAnswer } from "./hold.ts";

const AFTER_ACK = { ...HINT_PLAN, follow: "after-ack" } as const;
const HELD = {
  ...{ first: 0, end: 1, leads: true, probes: false, scopes: [] },
  ...{ unsent: 0, waitPs: 5, held: true },
};

function batchOf(carrier: QueuePair, given: Partial<Batch> = {}): Batch {
  return { ...HELD, carrier, unanswered: new Set([7]), ...given };
}

/** Queue pairs to these addresses, each with work that waits for the answer to hint 7; the last of each carries. */
function waiting(
  addresses: readonly number[],
  given: Partial<Batch> = {},
  changes: Partial<HintPlan> = {},
) {
  const plan: HintPlan = { ...AFTER_ACK, transport: "carrier", ...changes };
  const device = createDevice("a", rnicPlan("a", { hints: plan }), { seed: 1 });
  const hints = device.hints!;
  const ends: HintEnd[] = [];
  const queuePairs = addresses.map((address, i) => {
    const attributes = { destQpn: 40 + i };
    const of = { life: 1, qpn: 20 + i, path: { address }, attributes, state: "err" };
    return { ...of, requester: { cursor: 0, work: [] } } as unknown as QueuePair;
  });
  for (const qp of queuePairs) hints.carriers.set(qp.path.address, qp);
  for (const qp of queuePairs) {
    const end = createEnd(plan, qp);
    const scopes = [scopeOfQueuePair(qp.qpn)];
    end.batches.push(batchOf(hints.carriers.get(qp.path.address)!, { ...given, scopes }));
    hints.ends.set(qp, end);
    ends.push(end);
  }
  for (const qp of queuePairs) device.queuePairs.set(qp.qpn, qp);
  const isHeld = () => ends.map(({ batches: [batch] }) => batch!.held);
  /** The carrier's peer has prepared itself, and names these queue pairs as needless. */
  const answer = (
    by: number,
    needless: readonly number[] = [],
    how: Partial<Pick<HintMessage, "type" | "reason">> = {},
  ) => {
    const groups = needless.map((i) => ({ sourceQpn: 20 + i, destQpn: 40 + i, entries: [] }));
    const message: HintMessage = {
      ...{ type: "prepared", kinds: 0, reason: "none", sequence: 7, answer: false, groups },
      ...how,
    };
    takeAnswer(device, { hints, qp: queuePairs[by]!, end: ends[by]! }, message);
  };
  return { hints, queuePairs, ends, device, isHeld, answer };
}

describe("work of several queue pairs that waits for one answer", () => {
  it("H-22, H-24: goes when its own peer has answered, whatever number another's answer has", () => {
    const { isHeld, answer, hints } = waiting([1, 1, 2, 2]);
    answer(3);
    same(isHeld(), [true, true, false, false]);
    answer(1);
    same(isHeld(), [false, false, false, false]);
    same([hints.counters.hintsPrepared, hints.counters.hintAnswersUnknown], [2, 0]);
    answer(1);
    same(hints.counters.hintAnswersUnknown, 1, "a second answer");
  });

  it("H-02: adaptive batches double and halve within their bounds", () => {
    const { ends: [end], answer, queuePairs } = waiting([1], {}, { batch: "adaptive" });
    const sizes = (how: Parameters<typeof answer>[2]) =>
      Array.from({ length: 8 }, () => {
        end!.batches.splice(0, 1, batchOf(queuePairs[0]!, { first: 1, end: 2 }));
        answer(0, [], how);
        return end!.batch;
      });
    const { least, most } = HINT_BATCH;
    same(sizes({}).at(-1), most);
    const quota = { type: "refused", reason: "quota" } as const;
    same(sizes(quota).slice(0, 2), [most / 2, most / 4]);
    same(sizes(quota).at(-1), least);
    same(sizes({}).slice(0, 2), [2 * least, 4 * least]);
  });

  it("H-22: is one hint, and one silence of the peer", () => {
    const { hints, queuePairs, ends, device } = waiting([1, 1]);
    const holds = new Fifo<Hold>();
    for (const [i, qp] of queuePairs.entries()) {
      const batch = { ...ends[i]!.batches[0]!, leads: i === 0 };
      holds.push({ at: device.now, qp, life: 1, batch });
    }
    hints.holds.set(5, holds);
    endHolds(device, hints);
    same([ends[1]!.silences, hints.counters.hintsUnanswered], [1, 1]);
  });

  it("H-02, H-22: a probe that is refused for want of room or pages says that hints are needed again", () => {
    for (const reason of HINT_REASONS) {
      const { hints, answer } = waiting([1], { probes: true });
      const scopes = new Map([[scopeOfQueuePair(20), true as const], [5, true as const]]);
      hints.quiet.peers.set(1, { scopes, rarity: 4, passedOver: 3 });
      hints.quiet.size = 2;
      answer(0, [], { type: "refused", reason });
      const isNeeded = reason === "quota" || reason === "error";
      const { rarity, passedOver } = hints.quiet.peers.get(1)!;
      same([scopes.size, hints.quiet.size], isNeeded ? [1, 1] : [2, 2], reason);
      same([rarity, passedOver], isNeeded ? [1, 0] : [4, 3], reason);
    }
  });

  it("H-02, H-22: a probe's answer says of each queue pair for itself whether hints are needed again", () => {
    const { hints, answer } = waiting([1, 1], { probes: true });
    const scopes = [20, 21].map(scopeOfQueuePair);
    const quiet = { scopes: new Map(scopes.map((scope) => [scope, true as const])) };
    hints.quiet.peers.set(1, { ...quiet, rarity: 1, passedOver: 0 });
    hints.quiet.size = 2;
    answer(1, [1]);
    same([...quiet.scopes.keys()], [scopes[1]], "the other one is announced again");
  });
});

it("H-22: a hold of an earlier life, whose end comes with another's, is no silence of the peer's in this one", () => {
  const hints = createHints(AFTER_ACK)!;
  const qp = { life: 1, requester: { cursor: 0 } } as QueuePair;
  const end = createEnd(AFTER_ACK, qp);
  hints.ends.set(qp, end);
  const batch = batchOf(qp);
  const at = 100, holds = new Fifo<Hold>();
  // What was answered meanwhile stands before it, so that it is not at the head before its time.
  holds.push({ at, qp, life: 1, batch: { ...batch, held: false } });
  holds.push({ at, qp, life: 0, batch });
  hints.holds.set(batch.waitPs, holds);
  endHolds({ now: at } as Device, hints);
  same([holds.length, end.silences, hints.counters.hintsUnanswered], [0, 0, 0]);
});
