/** A coherent card's reports to its host's driver: lost lines, ended leases (C-10). */
import { type Output, rangesOf } from "../../../fabric/coherence/output.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { SharedRegion } from "../../../fabric/rack/plan/shared_region.ts";
import type { Coherence } from "./state/coherence_state.ts";
import { type Device, raiseEvent } from "../state/device.ts";

/** Number of a region's first line, in home's memory. */
export function firstLine({ address }: SharedRegion): number {
  return address / LINE_BYTES;
}

export function linesOf({ bytes }: SharedRegion): number {
  return bytes / LINE_BYTES;
}

/** The region that contains a line. */
export function regionAt(
  regions: readonly SharedRegion[],
  line: number,
): SharedRegion | undefined {
  return regions.find((region) => {
    const index = line - firstLine(region);
    return index >= 0 && index < linesOf(region);
  });
}

/** Lines whose last value is lost, by region and range. */
export function reportLost(
  device: Device,
  { counters }: Pick<Coherence, "counters">,
  { regions, lost }: { readonly regions: readonly SharedRegion[] } & Pick<Output, "lost">,
): void {
  if (lost.length === 0) return;
  counters.linesLost += lost.length;
  for (const region of regions) {
    const first = firstLine(region);
    const inside = lost.filter((line) => regionAt([region], line) !== undefined);
    for (const { line, lines } of rangesOf(inside)) {
      raiseEvent(device, {
        type: "REGION_LOST",
        region: region.id,
        first: line - first,
        count: lines,
      });
    }
  }
}

/** The far card's lease of these regions is over. */
export function reportFenced(
  device: Device,
  { counters }: Pick<Coherence, "counters">,
  { regions, agent }: { readonly regions: readonly SharedRegion[]; readonly agent: number },
): void {
  counters.leasesEnded++;
  for (const { id } of regions) {
    raiseEvent(device, { type: "REGION_FENCED", region: id, agent });
  }
}
