/** Hint messages from work elements (H-03): grouped by queue pair, in the order of each queue. */
import { entryBytes, type HintEntry, type HintGroup } from "../../../fabric/wire/roce/hint.ts";
import {
  HINT_GROUP_BYTES,
  HINT_KINDS,
  type HintOperands,
  type HintOperation,
  type HintPart,
} from "../../../fabric/wire/roce/hint_eth.ts";

/** A work element that waits in a send queue (H-01). */
export interface WorkElement {
  readonly sourceQpn: number;
  readonly destQpn: number;
  readonly operation: HintOperation;
  /** PSN of its first packet. */
  readonly sequence: number;
  /** Of a tagged operation; 0 of a SEND. */
  readonly rkey: number;
  readonly va: bigint;
  readonly length: number;
  readonly objects: readonly bigint[];
  /** Of an atomic, and of each object, where they are told [0086]. */
  readonly operands?: HintOperands | undefined;
  readonly parts?: readonly HintPart[] | undefined;
}

/** H-04: the kinds of preparation that an operation may need. */
const KINDS_OF: Readonly<Record<HintOperation, number>> = {
  "read": HINT_KINDS.prefetch | HINT_KINDS.warmUp,
  "write": HINT_KINDS.prefetch | HINT_KINDS.warmUp,
  "send": HINT_KINDS.receive | HINT_KINDS.warmUp,
  "fetch-add": HINT_KINDS.prefetch | HINT_KINDS.warmUp | HINT_KINDS.atomic,
  "compare-swap": HINT_KINDS.prefetch | HINT_KINDS.warmUp | HINT_KINDS.atomic,
};

/** More than a queue pair's number can be. */
const QPNS_END = 2 ** 24;

/**
 * Groups elements by queue pair, in the order of the groups' first elements (H-31). Consecutive SENDs are one entry
 * with their count, all that is known of an untagged message (H-03).
 *
 * @param kinds bits of `HINT_KINDS` that the responder wants: elements that need none of them are left out.
 */
export function groupElements(elements: readonly WorkElement[], kinds: number): HintGroup[] {
  const groups = new Map<number, { group: HintGroup; entries: HintEntry[] }>();
  for (let place = 0; place < elements.length; place++) {
    const element = elements[place]!;
    const { sourceQpn, destQpn, operation, sequence, rkey, va, length, objects } = element;
    const ofOrder = (kinds & HINT_KINDS.atomic) !== 0 && standsBeforeAtomic(elements, place)
      ? HINT_KINDS.atomic
      : 0;
    const wanted = (KINDS_OF[operation] | ofOrder) & kinds;
    if (wanted === 0) continue;
    const key = sourceQpn * QPNS_END + destQpn;
    let found = groups.get(key);
    if (found === undefined) {
      const entries: HintEntry[] = [];
      found = { group: { sourceQpn, destQpn, entries }, entries };
      groups.set(key, found);
    }
    const { entries } = found;
    const last = entries.at(-1);
    if (operation === "send" && last?.operation === "send" && objects.length === 0) {
      entries[entries.length - 1] = { ...last, messages: last.messages + 1 };
    } else {
      const entry = { kinds: wanted, operation, messages: 1, sequence, rkey, length, va, objects };
      // Operands are of use only for a word that is read ahead.
      const operands = (wanted & HINT_KINDS.atomic) === 0 ? undefined : element.operands;
      const { parts } = element;
      entries.push({ ...entry, ...(operands && { operands }), ...(parts && { parts }) });
    }
  }
  return [...groups.values()].map(({ group }) => group);
}

/** H-23: the responder has to know of a WRITE to a word that it reads ahead for an atomic behind that WRITE. */
function standsBeforeAtomic(elements: readonly WorkElement[], place: number): boolean {
  const { operation, sourceQpn, destQpn, rkey, va, length } = elements[place]!;
  if (operation !== "write") return false;
  for (let at = place + 1; at < elements.length; at++) {
    const each = elements[at]!;
    if ((KINDS_OF[each.operation] & HINT_KINDS.atomic) === 0 || each.rkey !== rkey) continue;
    if (each.sourceQpn !== sourceQpn || each.destQpn !== destQpn) continue;
    if (va < each.va + BigInt(each.length) && each.va < va + BigInt(length)) return true;
  }
  return false;
}

/** Entries and groups of one message, at most: their counts have eight bits. */
const COUNT_MAX = 255;

/**
 * Splits groups into messages of at most `payloadMax` bytes behind their header, each complete in itself: a lost
 * one takes no other with it ([0082]: a hint may need several packets).
 */
export function splitGroups(groups: HintGroup[], payloadMax: number): HintGroup[][] {
  if (fitsMessage(groups, payloadMax)) return [groups];
  const messages: HintGroup[][] = [];
  let message: HintGroup[] = [], left = 0;
  for (const { entries, ...ends } of groups) {
    let part: HintEntry[] | undefined;
    for (const entry of entries) {
      const bytes = entryBytes(entry);
      const needed = bytes + (part === undefined ? HINT_GROUP_BYTES : 0);
      if (messages.length === 0 || needed > left || message.length === COUNT_MAX) {
        message = [];
        messages.push(message);
        left = payloadMax;
        part = undefined;
      }
      if (part === undefined || part.length === COUNT_MAX) {
        part = [];
        message.push({ ...ends, entries: part });
        left -= HINT_GROUP_BYTES;
      }
      part.push(entry);
      left -= bytes;
    }
  }
  return messages;
}

function fitsMessage(groups: readonly HintGroup[], payloadMax: number): boolean {
  let left = payloadMax;
  for (const { entries } of groups) {
    if (entries.length === 0 || entries.length > COUNT_MAX) return false;
    left -= HINT_GROUP_BYTES;
    for (const entry of entries) left -= entryBytes(entry);
  }
  return left >= 0 && groups.length > 0 && groups.length <= COUNT_MAX;
}

export function kindsOf(groups: readonly HintGroup[]): number {
  let kinds = 0;
  for (const { entries } of groups) for (const entry of entries) kinds |= entry.kinds;
  return kinds;
}
