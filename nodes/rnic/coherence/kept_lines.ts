/**
 * Whole-system persistence of shared regions (domain `wsp`, decision 12): what home's card has of its host's SCM when the
 * host's power fails is kept, as `nodes/host/memory/adr.ts` says of the places `localCache`, `rnic` and `bus`. It goes
 * into the journal of the card's other writes, which are done first of all when the host is back.
 */
import { dirtyInLocalCache } from "../../../fabric/coherence/home_card.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { REGION_LINE_BYTES } from "../../../fabric/rack/plan/shared_region.ts";
import type { LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import { noteInJournal } from "../dma/journal.ts";
import type { Device } from "../state/device.ts";
import type { Journal } from "../state/dma_state.ts";
import { regionAt } from "./report.ts";

/** A line goes to the host by this message, which the bus has taken at `freeAt`. */
export function noteLine(device: Device, { address, data }: LineMessage, freeAt: Time): void {
  const { coherence, journal } = device;
  if (journal === undefined || coherence === undefined || !(data instanceof Uint8Array)) return;
  if (regionAt(coherence.regions, address / REGION_LINE_BYTES)?.memory !== "scm") return;
  keep(device, journal, { address, data, freeAt });
}

/** The host has lost its power: dirty lines of the local cache are kept. */
export function keepLocalCache(device: Device): void {
  const { coherence, journal } = device;
  if (journal === undefined || coherence?.home === undefined) return;
  const { home: { card, regions } } = coherence;
  for (const { line, data } of dirtyInLocalCache(card)) {
    if (regionAt(regions, line)?.memory !== "scm" || !(data instanceof Uint8Array)) continue;
    keep(device, journal, {
      address: line * REGION_LINE_BYTES,
      data: data as Uint8Array<ArrayBuffer>,
      freeAt: NEVER,
    });
  }
}

/** The line as it is here, with writes of verbs over it that were asked for earlier and are not done. */
function keep(device: Device, { writes }: Journal, { address, data, freeAt }: {
  readonly address: number;
  readonly data: Uint8Array<ArrayBuffer>;
  readonly freeAt: Time;
}): void {
  const content = data.slice();
  for (let number = writes.first; number < writes.end; number++) {
    const { message, arrivesAt } = writes.at(number)!;
    if (arrivesAt !== NEVER) continue;
    const from = Math.max(address, message.address);
    const to = Math.min(address + content.length, message.address + message.data.length);
    if (from >= to) continue;
    content.set(
      message.data.subarray(from - message.address, to - message.address),
      from - address,
    );
  }
  const message = { kind: "memory-write", address, data: content, noSnoop: true } as const;
  noteInJournal(device, message, freeAt);
}
