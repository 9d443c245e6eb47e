/** Counts of coherence traffic (C-11): messages by kind, between cards and on home's bus, with lines of content. */
import { BUS_MESSAGES, type BusKind } from "../wire/host_bus/region_messages.ts";
import { FORMS } from "../wire/roce/coherence_eth.ts";
import type { WireKind } from "../wire/roce/coherence_messages.ts";
import type { Output } from "./output.ts";

export interface Traffic {
  /** Messages between cards that were sent. */
  readonly wire: Partial<Record<WireKind, number>>;
  /** Messages on home's bus that were sent. */
  readonly bus: Partial<Record<BusKind, number>>;
  /** Of both, those that carried a line's content. */
  wireLines: number;
  busLines: number;
  /** Lines of which the last value was lost. */
  lost: number;
}

export function newTraffic(): Traffic {
  return { wire: {}, bus: {}, wireLines: 0, busLines: 0, lost: 0 };
}

/** Adds what an agent has sent; the caller calls it once for each {@link Output}, before it empties it. */
export function countTraffic(traffic: Traffic, { wire, bus, lost }: Output): void {
  for (const { kind, data } of wire) {
    traffic.wire[kind] = (traffic.wire[kind] ?? 0) + 1;
    if (FORMS[kind].data !== "none" && data !== undefined) traffic.wireLines++;
  }
  for (const { kind, data } of bus) {
    traffic.bus[kind] = (traffic.bus[kind] ?? 0) + 1;
    if (BUS_MESSAGES[kind].carries && data !== undefined) traffic.busLines++;
  }
  traffic.lost += lost.length;
}
