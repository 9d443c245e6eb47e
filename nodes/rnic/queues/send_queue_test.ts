import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { addWork } from "../state/requester_changes.ts";
import { LIMITS } from "../state/limits.ts";
import { createWork } from "../state/outstanding_wqe.ts";
import { HintCard } from "../testing/hint_card_testing.ts";
import { fetchWork } from "./send_queue.ts";

describe("fetchWork", () => {
  it("looks for more WQEs until the chip holds as many of the queue pair as it has room for", () => {
    for (const [room, looks] of [[1, 1], [0, 0]] as const) {
      const card = new HintCard({}), { device } = card;
      const qp = card.connect({ qpn: 20, address: 9, destQpn: 20 });
      card.cache(qp.sqQueue);
      for (let i = 0; i < LIMITS.workPerQueuePair - room; i++) {
        addWork(qp, createWork(undefined, i));
      }
      qp.sq.mayHaveMore = true;
      fetchWork(device, qp);
      assert.equal(device.counters.cacheHits, looks, `${room} free`);
    }
  });
});
