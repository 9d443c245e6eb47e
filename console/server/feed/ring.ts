/**
 * The last messages of a rack, for any number of readers. A reader has a place in the ring and
 * nothing else, so a slow one costs no memory: it loses overwritten messages, and receives their
 * number.
 */
import type { Change } from "../../api/feed.ts";
import { withChanged } from "./counter_changes.ts";

/** Choices: a minute or more of a busy rack, at some four bytes of memory for each letter. */
const MESSAGES_MAX = 4_096, LETTERS_MAX = 1 << 20;

export interface RingLimits {
  readonly messages?: number;
  readonly letters?: number;
}

interface Slot {
  readonly message: Change;
  readonly letters: number;
}

/** Changes in order, or how many the reader has missed. */
export type Read =
  | { readonly seq: number; readonly changes: readonly Change[] }
  | { readonly seq: number; readonly missed: number };

export class Ring {
  readonly #slots: Slot[] = [];
  readonly #limits: Required<RingLimits>;
  #first: number;
  #letters = 0;

  /** @param first greater than all numbers of an earlier server. */
  constructor(first: number, { messages = MESSAGES_MAX, letters = LETTERS_MAX }: RingLimits = {}) {
    this.#first = first;
    this.#limits = { messages, letters };
  }

  get seq(): number {
    return this.#first + this.#slots.length;
  }

  push(message: Change): void {
    const letters = JSON.stringify(message).length;
    this.#slots.push({ message, letters });
    this.#letters += letters;
    const { messages, letters: most } = this.#limits;
    while (this.#slots.length > messages || (this.#letters > most && this.#slots.length > 1)) {
      this.#letters -= this.#slots.shift()!.letters;
      this.#first++;
    }
  }

  /** Changes may have been missed: readers begin anew with the rack's state. */
  forget(): void {
    this.#first = this.seq + 1;
    this.#slots.length = 0;
    this.#letters = 0;
  }

  /** A number that this ring has never given out counts as too old. */
  after(seq: number): Read {
    if (seq < this.#first || seq > this.seq) {
      return { seq: this.seq, missed: Math.max(1, this.#first - seq) };
    }
    const changes = this.#slots.slice(seq - this.#first).map(({ message }) => message);
    return { seq: this.seq, changes: coalesced(changes) };
  }
}

/** Of several clocks the last says all; counters add up. */
function coalesced(changes: readonly Change[]): Change[] {
  const lastClock = changes.findLastIndex(({ type }) => type === "clock");
  const lastCounters = changes.findLastIndex(({ type }) => type === "counters");
  return changes.flatMap((change, i): Change[] => {
    if (change.type === "clock") return i === lastClock ? [change] : [];
    if (change.type !== "counters") return [change];
    if (i !== lastCounters) return [];
    const all = changes.filter((each) => each.type === "counters");
    return [{
      ...change,
      overMs: all.reduce((sum, { overMs }) => sum + overMs, 0),
      nodes: all.map(({ nodes }) => nodes).reduce(withChanged),
    }];
  });
}
