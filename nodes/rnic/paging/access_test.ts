/** Whose accesses tell hints what they have found: a peer's requests, and none of the card's own. */
import { deepEqual as same } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import { HINT_PLAN } from "../../../fabric/rack/plan/hint_plan.ts";
import { createDevice } from "../device.ts";
import type { Device } from "../state/device.ts";
import type { Region } from "../state/memory.ts";
import { MEMORY_WAITERS, type MemoryWaiter } from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { createTable } from "../state/translation_table.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { checkAccess } from "./access.ts";
import { holdTable } from "./translation_cache.ts";

const PAGE = 4096;
const OF_PEERS: readonly MemoryWaiter[] = ["request", "read", "atomic"];

it("H-30: requests redeem what hints have brought, and are missed by it; no other access does", () => {
  for (const kind of MEMORY_WAITERS) {
    for (const access of ["page there", "page absent", "pinned, off the chip"] as const) {
      const told: string[] = [];
      const card = createDevice("a", rnicPlan("a", { hints: HINT_PLAN }), { seed: 1 });
      const up = {
        ...card.up,
        redeemPage: (...[, { page }, isThere]: Parameters<Device["up"]["redeemPage"]>) =>
          void told.push(`page ${page} ${isThere}`),
        redeemLine: (...[, { line }, found]: Parameters<Device["up"]["redeemLine"]>) =>
          void told.push(`line ${line} ${found}`),
        noteMiss: () => void told.push("miss"),
      };
      const device: Device = { ...card, up };
      const isPinned = access === "pinned, off the chip";
      const table = createTable(0x100, isPinned ? { given: [0, PAGE] } : { pages: 2 });
      holdTable(device, table);
      if (access === "page there") table.demand![1] = { rights: 2, asked: 0 };
      if (isPinned) {
        table.address = 0;
        device.paging.cached.clear();
      }
      const region = { table, pageBase: 0, pageBytes: PAGE, alive: true, isNull: false };
      const segments = [{ region: region as unknown as Region, va: PAGE, length: 8 }];
      const qp = { slot: 0, life: 0, qpn: 9 } as QueuePair;
      checkAccess(device, { segments, offset: 0, length: 8, write: true }, { kind, qp });
      const expected = access === "page there"
        ? ["page 1 true", "line 0 there"]
        : access === "page absent"
        ? ["page 1 false", "miss"]
        : ["line 0 gone", "miss"];
      same(told, OF_PEERS.includes(kind) ? expected : [], `${kind}: ${access}`);
    }
  }
});
