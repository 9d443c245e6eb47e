/** Each book of translation tables that does not add up is told at rest. */
import { deepEqual as same } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { createDevice } from "../device.ts";
import { heldAtRest } from "../firmware/at_rest.ts";
import type { Paging } from "../state/paging_state.ts";
import { createTable, LINE_BYTES, type TranslationTable } from "../state/translation_table.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { holdTable } from "./translation_cache.ts";

const WRONG: Readonly<Record<string, (paging: Paging, table: TranslationTable) => void>> = {
  "1 lines of translations counted wrong": (paging) => paging.lines--,
  "1 tables of on-demand memory counted wrong": (paging) => paging.onDemand--,
  "2 lines on the chip beyond its room": ({ cached, capacityLines }, table) => {
    for (let line = 0; line < capacityLines; line++) cached.set(-1 - line, { table, line });
  },
  "2 lines on the chip of tables that are gone": (paging, table) => {
    paging.tables.delete(table);
    paging.lines -= table.lines;
    paging.onDemand--;
  },
  "1 places of tables that overlap": ({ memory }, table) => {
    table.address = 0;
    memory.free.set(1, [LINE_BYTES]);
  },
  "1 pages whose rights and addresses differ": (_, table) => table.demand![3]!.rights = 1,
};

describe("what translations hold at rest", () => {
  for (const [text, spoil] of Object.entries(WRONG)) {
    it(`tells ${text}`, () => {
      const device = createDevice("a", rnicPlan("a"), { seed: 1 });
      const table = createTable(0x100, { pages: 9 });
      holdTable(device, table);
      same(heldAtRest(device), []);
      spoil(device.paging, table);
      same(heldAtRest(device), [{ kind: "leaked", text }]);
    });
  }
});
