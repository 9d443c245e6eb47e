/**
 * Pages by ATS and PRI (001_ [0114]): the IOMMU says that pages are there, the card asks it for
 * addresses. The driver only takes pages back.
 */
import { sendBehindWrites } from "../state/coherent_port_state.ts";
import type { AtsMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import { findRegion } from "../dma/memory_region.ts";
import { askForPages } from "../paging/page_requests.ts";
import type { Device } from "../state/device.ts";
import type { WantedPage } from "../state/paging_state.ts";
import { ABSENT } from "../state/translation_table.ts";
import { mapPagesOf } from "./memory_command.ts";

export function takeAts(device: Device, message: AtsMessage): void {
  const { step, key, first, count, frames, write: writable } = message;
  switch (step) {
    case "page-response":
      sendBehindWrites(device, { ...message, step: "translate" }, device.stageAt);
      return;
    case "translated":
      if (frames.length === 0) return askAgain(device, { key, first, count });
      mapPagesOf(device, { op: "map-pages", key, first, pages: [...frames], writable });
      return;
    case "page-request":
    case "translate":
      return;
  }
}

/** Pages that were taken back before they were translated, and for which an access still waits. */
function askAgain(
  device: Device,
  { key, first, count }: { readonly key: number; readonly first: number; readonly count: number },
): void {
  const table = findRegion(device.regions, key)?.table;
  if (table?.demand === undefined) return;
  const byHints = new Map<number | undefined, WantedPage[]>();
  const end = Math.min(first + count, table.pages.length);
  for (let page = first; page < end; page++) {
    const { asked: rights, hint } = table.demand[page]!;
    if (table.pages[page] !== ABSENT || rights === 0) continue;
    table.demand[page] = { rights: 0, asked: 0 };
    const hintsOf = hint?.hintsOf, pages = byHints.get(hintsOf) ?? [];
    pages.push({ table, page, rights });
    byHints.set(hintsOf, pages);
  }
  for (const [hintsOf, pages] of byHints) {
    askForPages(device, pages, hintsOf === undefined ? {} : { hintsOf });
  }
}
