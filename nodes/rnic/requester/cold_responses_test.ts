import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { beginWait } from "../paging/memory_waits.ts";
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import { createPaging } from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { isHeldBack, type Response, takeKept } from "./cold_responses.ts";

it("responses behind one that waits for its memory are kept as far as there is room, else dropped and counted", () => {
  const paging = createPaging(rnicPlan("a"));
  const device = { paging, now: 0 } as Device, slot = 3;
  const qp = { slot, life: 0 } as QueuePair;
  const responses = Array.from(
    { length: LIMITS.stalledPackets + 3 },
    (_, psn) => ({ packet: { bth: { psn } } }) as Response,
  );
  const [first, ...others] = responses;
  same(isHeldBack(device, qp, first!), false, "none waits");
  beginWait(device, { qp, kind: "response", pages: [] });
  paging.parked.set(qp.slot, [first!]);
  for (const each of others) same(isHeldBack(device, qp, each), true);
  same(paging.counters.pageFaultResponses, 3);
  const kept = takeKept(device, qp).map(({ packet }) => packet.bth.psn);
  same(kept, responses.slice(0, LIMITS.stalledPackets).map(({ packet }) => packet.bth.psn));
  const another = { slot, life: 1 } as QueuePair;
  same(isHeldBack(device, another, first!), false, "another queue pair in its place");
});
