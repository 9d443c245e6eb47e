/** Report of memory on demand and the translation cache. */
import type { CardExtension, Count } from "../state/card_extension.ts";
import type { Device } from "../state/device.ts";
import type { Paging } from "../state/paging_state.ts";
import { ABSENT, LINE_BYTES, type TranslationTable } from "../state/translation_table.ts";

export const PAGING = {
  isOf: () => true,
  statistics,
  held: ({ pageEvents, paging }) => ({
    leaked: [
      ["page faults not raised", pageEvents.length],
      ["fills of translations", paging.fills.size],
      ["accesses that wait for memory", paging.waits.size],
      ["queue pairs with responses behind such an access", paging.parked.size],
      ["receives whose memory is waited for", paging.deliveries.size],
      ["commands that wait for the end of accesses", paging.invalidations.length],
      ...booksOf(paging),
    ],
  }),
} as const satisfies CardExtension;

/** Where the books of tables, their lines and their memory do not add up. */
function booksOf({ tables, lines, onDemand, cached, capacityLines, memory }: Paging): Count[] {
  const all = [...tables];
  const free = [...memory.free].flatMap(([lines, places]) =>
    places.map((address) => ({ address, lines }))
  );
  const places = [...free, ...all].flatMap(({ address, lines }) =>
    address === undefined ? [] : [{ address, end: address + lines * LINE_BYTES }]
  ).sort((one, other) => one.address - other.address);
  const overlaps = places.filter(({ address }, i) => i > 0 && address < places[i - 1]!.end);
  const sum = (of: readonly { readonly lines: number }[]) =>
    of.reduce((total, table) => total + table.lines, 0);
  return [
    ["lines of translations counted wrong", Math.abs(lines - sum(all))],
    [
      "tables of on-demand memory counted wrong",
      Math.abs(onDemand - all.filter(({ demand }) => demand !== undefined).length),
    ],
    ["lines on the chip beyond its room", Math.max(0, cached.size - capacityLines)],
    [
      "lines on the chip of tables that are gone",
      cached.values().filter(({ table }) => !tables.has(table)).toArray().length,
    ],
    ["places of tables that overlap", overlaps.length],
    ["pages whose rights and addresses differ", all.reduce((n, table) => n + misfiled(table), 0)],
  ];
}

function misfiled({ pages, demand }: TranslationTable): number {
  if (demand === undefined) return 0;
  return demand.filter(({ rights }, page) => (rights > 0) !== (pages[page] !== ABSENT)).length;
}

function statistics({ paging }: Device): Record<string, number> {
  const { counters, cached, lines, onDemand } = paging;
  const wasUsed = onDemand > 0 || Object.values(counters).some((count) => count > 0);
  return wasUsed ? { ...counters, translationLines: lines, cachedLines: cached.size } : {};
}
