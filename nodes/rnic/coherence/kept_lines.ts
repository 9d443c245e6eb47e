/**
 * Whole-system persistence of shared regions (domain `wsp`, decision 12): what home's card has of its host's SCM when the
 * host's power fails is kept, as `nodes/host/memory/adr.ts` says of the places `localCache`, `rnic` and `bus`. It goes
 * into the journal of the card's other writes, which are done first of all when the host is back.
 */
import { dirtyInLocalCache } from "../../../fabric/coherence/home_card.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { farLine } from "../../../fabric/coherence/far_card.ts";
import { type HomeCard, homeLine } from "../../../fabric/coherence/home_card_state.ts";
import { LOST, NONE } from "../../../fabric/coherence/messages.ts";
import {
  DIRECTORY_ENTRY,
  directoryAt,
  directoryBytes,
  REGION_LINE_BYTES,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import type { LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import { noteInJournal } from "../dma/journal.ts";
import type { HomeEnd } from "../state/coherence/coherence_state.ts";
import type { Device } from "../state/device.ts";
import type { Journal } from "../state/dma_state.ts";
import { firstLine, regionAt } from "./report.ts";

/** A line goes to the host by this message, which the bus has taken at `freeAt`. */
export function noteLine(device: Device, { address, data }: LineMessage, freeAt: Time): void {
  const { coherence, journal } = device;
  if (journal === undefined || coherence === undefined || !(data instanceof Uint8Array)) return;
  const line = address / REGION_LINE_BYTES, region = regionAt(coherence.regions, line);
  if (region?.memory !== "scm") return;
  keep(device, journal, { address, data, freeAt });
  keepEntry(device, region, { index: line - firstLine(region), freeAt });
}

/**
 * The host has lost its power: dirty lines of the local cache are kept. What no far card has is in memory then, and the
 * directory in SCM says so (decision 7): an entry goes with its line, as a processor has it among the line's check bits.
 */
export function keepLocalCache(device: Device): void {
  const { coherence, journal } = device;
  if (journal === undefined || coherence?.home === undefined) return;
  const { home } = coherence;
  for (const line of dirtyLines(home)) keep(device, journal, { ...line, freeAt: NEVER });
  const entries = [...entriesKept(home)].sort((x, y) =>
    directoryAt(x.region) + x.index - directoryAt(y.region) - y.index
  );
  for (const { region, index } of entries) {
    keepEntry(device, region, { index, freeAt: NEVER });
  }
}

/** Tells the card's observer what {@link keepLocalCache} would keep now. */
export function logLocalCache({ now, heldLog }: Device, home: HomeEnd): void {
  if (heldLog === undefined) return;
  const entries = [...entriesKept(home)].map(({ region, index }) => entryOf(region, index));
  heldLog.cached(now, [...dirtyLines(home), ...entries]);
}

/** Lines in SCM that the local cache has dirty. */
function dirtyLines(
  { card, regions }: HomeEnd,
): { readonly address: number; readonly data: Uint8Array<ArrayBuffer> }[] {
  return dirtyInLocalCache(card).flatMap(({ line, data }) =>
    regionAt(regions, line)?.memory === "scm" && data instanceof Uint8Array
      ? [{ address: line * REGION_LINE_BYTES, data: data as Uint8Array<ArrayBuffer> }]
      : []
  );
}

/** Lines that are lent, and whose entry would say nothing of that once this card's are in memory. */
function* entriesKept(
  { card, regions }: HomeEnd,
): Generator<{ readonly region: SharedRegion; readonly index: number }> {
  for (const line of card.lines.keys()) {
    const region = regionAt(regions, line);
    if (region === undefined || directoryBytes(region) === 0 || !isKeptHere(card, line)) continue;
    yield { region, index: line - firstLine(region) };
  }
}

/** The directory in SCM says that memory has the line's last content, as it goes there. */
function keepEntry(
  device: Device,
  region: SharedRegion,
  { index, freeAt }: { readonly index: number; readonly freeAt: Time },
): void {
  if (directoryBytes(region) === 0) return;
  const message = { kind: "memory-write", ...entryOf(region, index), noSnoop: true } as const;
  noteInJournal(device, message, freeAt);
}

function entryOf(
  region: SharedRegion,
  index: number,
): { readonly address: number; readonly data: Uint8Array<ArrayBuffer> } {
  return { address: directoryAt(region) + index, data: Uint8Array.of(DIRECTORY_ENTRY.none) };
}

/**
 * Whether memory and this card have the last content of a line that the host has lent exclusively. While its grant is on
 * the bus the card does not know whether the line is poison: the host takes it for lost then.
 */
function isKeptHere(card: HomeCard, line: number): boolean {
  const { owner, right, phase, data } = homeLine(card, line);
  if (right !== "X" || phase === "P0" || data === LOST) return false;
  if (owner === NONE) return true;
  const { state, data: cached } = farLine(card.local, line);
  return owner === card.local.agent && state !== "I" && cached !== LOST;
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
