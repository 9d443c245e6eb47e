/** Ends of holds that come at one instant, some of them of an earlier life. */
import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { Fifo } from "../../../fabric/base/fifo.ts";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import type { Device } from "../state/device.ts";
import { type Batch, createEnd, createHints, type Hold } from "./state/hint_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { endHolds } from "./hold.ts";

it("H-22: a hold of an earlier life, whose end comes with another's, is no silence of the peer's in this one", () => {
  const plan = { ...HINT_PLAN, follow: "after-ack" } as const;
  const hints = createHints(plan)!;
  const qp = { life: 1, requester: { cursor: 0 } } as QueuePair;
  const end = createEnd(plan, qp);
  hints.ends.set(qp, end);
  const batch: Batch = {
    first: 0,
    end: 1,
    carrier: qp,
    leads: true,
    probes: false,
    scopes: [],
    unanswered: new Set([7]),
    unsent: 0,
    waitPs: 5,
    held: true,
  };
  const at = 100, holds = new Fifo<Hold>();
  // What was answered meanwhile stands before it, so that it is not at the head before its time.
  holds.push({ at, qp, life: 1, batch: { ...batch, held: false } });
  holds.push({ at, qp, life: 0, batch });
  hints.holds.set(batch.waitPs, holds);
  endHolds({ now: at } as Device, hints);
  same([holds.length, end.silences, hints.counters.hintsUnanswered], [0, 0, 0]);
});
