/**
 * Words on the chip (H-21, H-23): when one ceases to equal memory. A copy is used only while the card knows of no
 * change to the word: its own writes, of whichever queue pair, pass `dmaWrite`; a core's store makes the host tell
 * the card, ahead of all that the core sends the card afterwards.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { release } from "./charges.ts";
import type { AtomicTask } from "../state/operation.ts";
import type { AnnouncedOperands, Hints, Word } from "./state/hint_state.ts";

/** [choice] Words on the chip: as many as the host's snoop filter has lines. */
export const WORDS_MAX = 64;

/** Beyond the keys of contexts, of which there are fewer than 2^40. */
const WORD_KEYS = -(2 ** 40);

/** The charge's map key of a word. */
export function wordKey(address: number): number {
  return WORD_KEYS - address / ATOMIC_BYTES;
}

export function forgetWord(hints: Hints, word: Word): void {
  if (word.state === "gone") return;
  word.state = "gone";
  hints.words.delete(word.address);
  if (hints.charges.get(word.charge.key) === word.charge) release(hints, word.charge);
}

/** [choice] Operands kept of one word: hints may come again and again. */
const OPERANDS_MAX = 64;

/** H-03 [0086]: remembers a hint's operands of an atomic, where this card compares them with the request. */
export function announceOperands(
  { plan }: Pick<Hints, "plan">,
  { announced }: Pick<Word, "announced">,
  { operands, ...request }: Pick<AnnouncedOperands, "qp" | "psn"> & {
    readonly operands: AnnouncedOperands["operands"] | undefined;
  },
): void {
  if (!plan.operands || operands === undefined || announced.length >= OPERANDS_MAX) return;
  announced.push({ ...request, operands });
}

/**
 * An atomic is executed on the chip: counts whether its operands are those that were announced, without further
 * effect (H-24). A chip whose arithmetic takes time could have the result ready; in this model it takes none.
 */
export function compareOperands(
  { operandCounters }: Hints,
  { announced }: Word,
  { qp, psn, task }: Pick<AnnouncedOperands, "qp" | "psn"> & { readonly task: AtomicTask },
): void {
  const place = announced.findIndex((each) => each.qp === qp && each.psn === psn);
  if (place < 0) return;
  const [{ operands: { swapAdd, compare } }] = announced.splice(place, 1) as [AnnouncedOperands];
  const isSame = task.swapAdd === swapAdd && (!task.rule.compares || task.compare === compare);
  operandCounters[isSame ? "hintOperandsSame" : "hintOperandsOther"]++;
}

function invalidate(
  hints: Hints,
  word: Word,
  by: "hintWordsSnooped" | "hintWordsOverwritten",
): void {
  hints.wordCounters[by]++;
  if (!word.used) hints.wordCounters.hintWordsWasted++;
  forgetWord(hints, word);
}

/** A core has stored into this line: copies in it are void, also those that are being read. */
export function snoopLine(hints: Hints, line: number): void {
  for (const word of [...hints.words.values()]) {
    const isIn = word.address >= line && word.address < line + LINE_BYTES;
    if (isIn && word.state !== "behind") invalidate(hints, word, "hintWordsSnooped");
  }
}

/**
 * The card writes these bytes: copies of them are void, except that of the word whose new value they are.
 * @returns words that were to be read behind this write.
 */
export function overwriteWords(
  hints: Hints,
  write: { readonly address: number; readonly length: number; readonly keepsWord: boolean },
): Word[] {
  const { address, length, keepsWord } = write;
  const due: Word[] = [];
  for (const word of [...hints.words.values()]) {
    if (word.address + ATOMIC_BYTES <= address || word.address >= address + length) continue;
    if (word.state === "behind") due.push(word);
    else if (!keepsWord || word.address !== address) {
      invalidate(hints, word, "hintWordsOverwritten");
    }
  }
  return due;
}
