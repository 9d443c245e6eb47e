import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import type { Device } from "../state/device.ts";
import {
  createPaging,
  type Delivery,
  MEMORY_WAITERS,
  type MemoryWait,
  type MemoryWaiter,
} from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { PageRights, TranslationTable } from "../state/translation_table.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import {
  beginWait,
  isWaiting,
  resumeMapped,
  resumeWait,
  takeAdmission,
  takeDeliveries,
} from "./memory_waits.ts";

const KIND = "request";

/** A card, and its queue pair in place 2, which begins anew by `reset`. */
function card() {
  const resumed: MemoryWait[] = [];
  const up = { memoryReady: (_: Device, wait: MemoryWait) => void resumed.push(wait) };
  const device = { paging: createPaging(rnicPlan("a")), now: 0, up } as unknown as Device;
  const qp = { slot: 2, life: 0 };
  return { device, qp: qp as QueuePair, resumed, reset: () => void qp.life++ };
}

it("an access whose lines have come is admitted once, of its kind and queue pair", () => {
  const { device, qp, resumed } = card();
  const wait = beginWait(device, { qp, kind: KIND, pages: [] });
  same([isWaiting(device, qp, KIND), isWaiting(device, qp, "read")], [true, false]);
  resumeWait(device, wait);
  same([resumed, isWaiting(device, qp, KIND)], [[wait], false]);
  same(takeAdmission(device, { qp, kind: "read" }), false);
  same(takeAdmission(device, { qp, kind: KIND }), true);
  same(takeAdmission(device, { qp, kind: KIND }), false);
});

it("an admission of an earlier life, or of the queue pair before it in its place, is none", () => {
  for (const isOther of [false, true]) {
    const { device, qp, reset } = card();
    resumeWait(device, beginWait(device, { qp, kind: KIND, pages: [] }));
    if (!isOther) reset();
    const by = isOther ? { slot: qp.slot, life: 0 } as QueuePair : qp;
    same(takeAdmission(device, { qp: by, kind: KIND }), false);
  }
});

it("what waits in an earlier life is gone on with by none, and keeps this one from nothing", () => {
  const { device, qp, resumed, reset } = card();
  const before = beginWait(device, { qp, kind: KIND, pages: [] });
  reset();
  same(isWaiting(device, qp, KIND), false);
  const wait = beginWait(device, { qp, kind: KIND, pages: [] });
  resumeWait(device, before);
  same([resumed, isWaiting(device, qp, KIND)], [[], true]);
  reset();
  resumeWait(device, wait);
  same([resumed, device.paging.admitted.size, device.paging.waits.size], [[], 0, 0]);
});

it("the wait of an access for pages is a stall, except that of what is sent, or asked for, again", () => {
  const again: readonly MemoryWaiter[] = ["gap", "request"];
  for (const kind of MEMORY_WAITERS) {
    for (const pages of [[], [{ table: {} as TranslationTable, page: 0, rights: 1 as const }]]) {
      const { device, qp } = card();
      const wait = beginWait(device, { qp, kind, pages });
      device.now = 5;
      resumeWait(device, wait);
      const isStall = pages.length > 0 && !again.includes(kind);
      same(device.paging.counters.pageStallPs, isStall ? 5 : 0, `${kind}, ${pages.length} pages`);
    }
  }
});

it("deliveries are taken once, by the life that they wait in", () => {
  const { device, qp, reset } = card();
  const { deliveries } = device.paging;
  const deliver = { qp, kind: "deliver", pages: [] } as const;
  const delivery = {} as Delivery;
  deliveries.set(qp.slot, [delivery]);
  beginWait(device, deliver);
  same(takeDeliveries(device, qp), [delivery]);
  same([deliveries.size, device.paging.waits.size], [0, 0]);
  beginWait(device, deliver);
  same(takeDeliveries(device, qp), []);
  deliveries.set(qp.slot, [delivery]);
  beginWait(device, deliver);
  reset();
  same(takeDeliveries(device, qp), []);
});

it("what waits for pages goes on when all are there with the rights that it needs, or their region is gone", () => {
  const { device, qp, resumed } = card();
  const { paging } = device;
  const demand: PageRights[] = [{ rights: 0, asked: 2 }, { rights: 0, asked: 2 }];
  const table = { demand } as TranslationTable;
  paging.tables.add(table);
  const pages = [0, 1].map((page) => ({ table, page, rights: 2 as const }));
  const wait = beginWait(device, { qp, kind: KIND, pages });
  for (const [first, second] of [[0, 0], [2, 0], [1, 2], [2, 1]] as const) {
    demand[0]!.rights = first;
    demand[1]!.rights = second;
    resumeMapped(device);
    same(resumed, [], `${first} and ${second}`);
  }
  demand[1]!.rights = 2;
  resumeMapped(device);
  same(resumed, [wait]);
  const next = beginWait(device, { qp, kind: KIND, pages });
  demand[0]!.rights = 0;
  resumeMapped(device);
  same(resumed.length, 1);
  paging.tables.delete(table);
  resumeMapped(device);
  same(resumed, [wait, next]);
});
