/** Tables that come and go, each in memory of its own, which the driver has given before it is needed. */
import { deepEqual as same, ok } from "node:assert/strict";
import { it } from "@std/testing/bdd";
import fc from "fast-check";
import { seeded } from "../../../fabric/base/property_testing.ts";
import { createDevice } from "../device.ts";
import { heldAtRest } from "../firmware/at_rest.ts";
import {
  createTable,
  ENTRIES_PER_LINE,
  LINE_BYTES,
  type TranslationTable,
} from "../state/translation_table.ts";
import { rnicPlan } from "../testing/rig_parts_testing.ts";
import { dropTable, holdTable, memoryNeeded } from "./translation_cache.ts";

it("no table is without memory, and what is given back is used again", () => {
  /** Registers a region of so many pages, or deregisters one. */
  const step = fc.record({
    pages: fc.constantFrom(1, 8, 9, 16, 24),
    drops: fc.nat(1),
    which: fc.nat(),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 10, maxLength: 40, size: "max" }), (steps) => {
      const card = createDevice(
        "a",
        rnicPlan("a", { translations: { entries: 32, evict: "lru" } }),
        {
          seed: 1,
        },
      );
      const out = { tracing: false, send: () => 0 };
      const device = { ...card, out } as unknown as typeof card;
      const { paging } = device, { memory } = paging;
      const tables: TranslationTable[] = [];
      let given = 0;
      for (const { pages, drops, which } of steps) {
        if (drops === 0 && tables.length > 0) {
          const [table] = tables.splice(which % tables.length, 1);
          dropTable(device, table!);
          continue;
        }
        const lines = Math.ceil(pages / ENTRIES_PER_LINE);
        const needed = memoryNeeded(paging, lines);
        if (needed > 0) {
          memory.next = given;
          memory.end = given += needed;
        }
        const table = createTable(0x100 + tables.length, { pages });
        holdTable(device, table);
        tables.push(table);
        ok(memory.next <= memory.end, `to ${memory.next} of ${memory.end}`);
        const isSpilt = paging.lines > paging.capacityLines;
        ok(!isSpilt || tables.every(({ address }) => address !== undefined));
      }
      same(heldAtRest(device).filter(({ text }) => !text.startsWith("bytes")), []);
      const used = tables.reduce(
        (sum, { address, lines }) => sum + (address === undefined ? 0 : lines * LINE_BYTES),
        0,
      );
      const free = [...memory.free].reduce(
        (sum, [lines, places]) => sum + lines * LINE_BYTES * places.length,
        0,
      );
      ok(used + free <= given);
    }),
    seeded({ numRuns: 200 }),
  );
});
