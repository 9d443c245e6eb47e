/**
 * Messages that are malformed or beyond their sender's rights. A genuine one is never refused,
 * regardless of losses and repetitions of the bus.
 */

/**
 * A well-formed message cannot be true: another process speaks for its sender, whose real messages
 * are unknown. The run cannot go on.
 */
export class ForgeryError extends Error {
  override readonly name = "ForgeryError";
}

export interface RefusedMessages {
  readonly by: string;
  readonly subject: string;
  readonly count: number;
}

/** Counted singly: a forger may invent any number. */
const SUBJECTS_MAX = 256;
const OTHERS = "others";

export class Refusals {
  readonly #counts = new Map<string, number>();
  #total = 0;

  get total(): number {
    return this.#total;
  }

  note(subject: string): void {
    this.#total++;
    const isNew = !this.#counts.has(subject) && this.#counts.size >= SUBJECTS_MAX;
    const counted = isNew ? OTHERS : subject;
    this.#counts.set(counted, (this.#counts.get(counted) ?? 0) + 1);
  }

  rows(): [subject: string, count: number][] {
    return [...this.#counts];
  }
}
