/**
 * Whole-system persistence of shared regions (domain `wsp`, decision 12): when the host's power fails, the card
 * keeps what it has of its host's SCM, in the places `localCache`, `rnic` and `bus` of
 * `fabric/rack/plan/persistence_domain.ts`. It goes into the journal of the card's other writes, which the card
 * sends first of all when the host is back.
 */
import { dirtyInLocalCache } from "../../../fabric/coherence/home_card.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { farLine } from "../../../fabric/coherence/far_card.ts";
import { type HomeCard, homeLine } from "../../../fabric/coherence/home_card_state.ts";
import type { BusKind, LineMessage } from "../../../fabric/wire/host_bus/region_messages.ts";
import { LOST } from "../../../fabric/wire/roce/coherence_messages.ts";
import { NONE } from "../../../fabric/coherence/home_card_table.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import {
  DIRECTORY_CONTENT,
  directoryAt,
  directoryBytes,
  type SharedRegion,
} from "../../../fabric/rack/plan/shared_region.ts";
import { noteInJournal } from "../dma/journal.ts";
import type { FarEnd, HomeEnd } from "./state/coherence_state.ts";
import type { Device } from "../state/device.ts";
import type { Journal } from "../state/dma_state.ts";
import { firstLine, regionAt } from "./report.ts";

const { none: NO_COPY, poison: POISON } = DIRECTORY_CONTENT;

/** Messages by which the card gives an exclusive right up, or says that memory has the card's content. */
const GIVEN_BACK: ReadonlySet<string> = new Set(
  ["RspI", "RspS", "WbMtoI", "WbMtoS", "WbMtoE"] satisfies BusKind[],
);

/**
 * Notes that a line, or the right to it alone, goes to the host by this message, which the bus has taken at
 * `freeAt`.
 */
export function noteLine(device: Device, { op, address, data }: LineMessage, freeAt: Time): void {
  const { coherence, journal } = device;
  if (journal === undefined || coherence === undefined) return;
  const line = address / LINE_BYTES, region = regionAt(coherence.regions, line);
  if (region?.memory !== "scm") return;
  const index = line - firstLine(region);
  // Behind an answer that the line is lost, a core may ask for its right before the host has got that answer.
  if (data === LOST) return keepEntry(device, region, { index, content: POISON, freeAt });
  if (data !== undefined) keep(device, journal, { address, data, freeAt });
  else if (!GIVEN_BACK.has(op)) return;
  keepEntry(device, region, { index, content: data && NO_COPY, freeAt });
}

/**
 * The host has lost its power: keeps dirty lines of the local cache. Lines that no far card has are in memory then,
 * and the directory in SCM says so (decision 7): an entry goes with its line, as a processor has it among the
 * line's check bits.
 */
export function keepLocalCache(device: Device): void {
  const { coherence, journal } = device;
  if (journal === undefined || coherence?.home === undefined) return;
  const { home } = coherence;
  for (const line of dirtyLines(home)) keep(device, journal, { ...line, freeAt: NEVER });
  const entries = [...entriesKept(home)].sort((x, y) =>
    directoryAt(x.region, x.index) - directoryAt(y.region, y.index)
  );
  for (const { region, ...entry } of entries) {
    keepEntry(device, region, { ...entry, freeAt: NEVER });
  }
}

/** Tells the card's observer what {@link keepLocalCache} would keep now. */
export function logLocalCache({ now, heldLog }: Device, home: HomeEnd): void {
  if (heldLog === undefined) return;
  const entries = [...entriesKept(home)].map(({ region, ...entry }) => entryOf(region, entry));
  heldLog.cached(now, [...dirtyLines(home), ...entries]);
}

/** Tells the card's observer which lines of a home's SCM are newer here than there. */
export function logRemoteCache(
  { now, heldLog }: Device,
  { card: { lines }, regions }: FarEnd,
): void {
  if (heldLog === undefined || regions.length === 0) return;
  const dirty = [...lines].flatMap(([line, { state, data }]) =>
    (state === "M" || state === "MI") && regionAt(regions, line)?.memory === "scm" &&
      data instanceof Uint8Array
      ? [{ address: line * LINE_BYTES, data: data as Uint8Array<ArrayBuffer> }]
      : []
  );
  heldLog.cachedOf(regions[0]!.home.host, now, dirty);
}

function dirtyLines(
  { card, regions }: HomeEnd,
): { readonly address: number; readonly data: Uint8Array<ArrayBuffer> }[] {
  return dirtyInLocalCache(card).flatMap(({ line, data }) =>
    regionAt(regions, line)?.memory === "scm" && data instanceof Uint8Array
      ? [{ address: line * LINE_BYTES, data: data as Uint8Array<ArrayBuffer> }]
      : []
  );
}

/** A directory entry as it is once the card's kept lines are in memory. */
interface EntryKept {
  readonly index: number;
  /**
   * Of {@link DIRECTORY_CONTENT}, where the card keeps the line's content, so that memory's is no poison then.
   * Undefined: it keeps none, and memory's may be poison.
   */
  readonly content: number | undefined;
}

/** Lines that the host has lent exclusively, and whose newest content is here. */
function* entriesKept(
  home: HomeEnd,
): Generator<EntryKept & { readonly region: SharedRegion }> {
  const { card, regions } = home;
  let dirty: ReadonlySet<number> | undefined;
  for (const line of card.lines.keys()) {
    const region = regionAt(regions, line);
    if (region === undefined || directoryBytes(region) === 0 || !isKeptHere(card, line)) continue;
    dirty ??= new Set(dirtyLines(home).map(({ address }) => address / LINE_BYTES));
    yield {
      region,
      index: line - firstLine(region),
      content: dirty.has(line) ? NO_COPY : undefined,
    };
  }
}

/** Records in SCM's directory that the line is not lent, as its content goes there. */
function keepEntry(
  device: Device,
  region: SharedRegion,
  { freeAt, ...entry }: EntryKept & { readonly freeAt: Time },
): void {
  if (directoryBytes(region) === 0) return;
  const message = { kind: "memory-write", ...entryOf(region, entry), noSnoop: true } as const;
  noteInJournal(device, message, freeAt);
}

/** All of the entry where the content is known; else only that the line is not lent: it may be poison. */
function entryOf(
  region: SharedRegion,
  { index, content }: EntryKept,
): { readonly address: number; readonly data: Uint8Array<ArrayBuffer> } {
  const address = directoryAt(region, index);
  return content === undefined
    ? { address: address + 1, data: Uint8Array.of(0) }
    : { address, data: Uint8Array.of(content, 0) };
}

/**
 * True if memory and this card have the last content of a line that the host has lent exclusively, or is about to:
 * no cache of a card has written before its card has the grant.
 */
function isKeptHere(card: HomeCard, line: number): boolean {
  const { owner, right, phase, serving, data } = homeLine(card, line);
  if (phase === "P0") return serving?.kind === "GetM";
  if (right !== "X" || data === LOST) return false;
  if (owner === NONE) return true;
  const { state, data: cached } = farLine(card.local, line);
  return owner === card.local.agent && state !== "I" && cached !== LOST;
}

/** The line's content here, with earlier writes of verbs over it that are not done. */
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
