/**
 * H-21: an atomic's original data, read into the RNIC ahead of it. The copy is a guess, as all effects of hints:
 * `words.ts` has the rules by which a wrong one is never used.
 */
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { dmaRead } from "../dma/dma.ts";
import { physicalAddress } from "../dma/translation.ts";
import { holdsLine } from "../paging/translation_cache.ts";
import type { Device } from "../state/device.ts";
import type { Charge, Hints, Word } from "./state/hint_state.ts";
import { beginAction } from "./work.ts";
import { overwriteWords } from "./words.ts";
import type { Region } from "../state/memory.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { ENTRIES_PER_LINE } from "../state/translation_table.ts";

/** The word's address; undefined where that is not known yet, or no atomic may be there. */
export function addressOfWord(device: Device, region: Region, va: number): number | undefined {
  if (va % ATOMIC_BYTES !== 0) return undefined;
  const { paging } = device, { table } = region;
  const page = Math.floor((va - region.pageBase) / region.pageBytes);
  // Absent pages, and translations that are not on the chip, are fetched by the other kinds of hints.
  if (table.demand !== undefined && table.demand[page]!.rights < 2) return undefined;
  const isCached = paging.cached.size >= paging.lines ||
    holdsLine(paging, table, Math.floor(page / ENTRIES_PER_LINE));
  return isCached ? physicalAddress(region, va) : undefined;
}

/** @param isBehind a write stands before it: the word is read behind that. */
export function beginPreload(
  device: Device,
  hints: Hints,
  announced: {
    readonly address: number;
    readonly charge: Charge;
    readonly qp: QueuePair;
    readonly psn: number;
    readonly isBehind: boolean;
  },
): Word {
  const { isBehind, ...place } = announced;
  const word: Word = {
    ...place,
    state: "behind",
    value: 0n,
    uses: 0,
    used: false,
    turn: undefined,
    announced: [],
  };
  hints.words.set(word.address, word);
  // An atomic under way may write it: the word is read behind that, or by the next in line.
  if (!isBehind && !device.atomicWords.has(word.address)) readWord(device, hints, word);
  return word;
}

/** Reads a word ahead of its atomic: behind all writes that were sent before (P-03). */
export function readWord(device: Device, hints: Hints, word: Word): void {
  hints.wordCounters.hintWordsRead++;
  word.state = "coming";
  const item = { kind: "word", word } as const;
  if (beginAction(device, hints, { piece: "atomic", item }) === undefined) fetchWord(device, word);
}

/** Starts the read, unless something has made it needless. */
export function fetchWord(device: Device, word: Word): void {
  const { address } = word;
  const continuation = { kind: "preload", word } as const;
  dmaRead(device, { address, length: ATOMIC_BYTES, tracked: true, continuation });
}

/** The card has written these bytes: starts the reads that waited for this write. */
export function wordsOverwritten(
  device: Device,
  hints: Hints,
  write: Parameters<typeof overwriteWords>[1],
): void {
  for (const word of overwriteWords(hints, write)) readWord(device, hints, word);
}
