/**
 * Counts the messages that a process refused: malformed, or not what the sender of their subject may
 * say. A message of ours is never refused, whatever the bus loses or repeats.
 */

/**
 * A well-formed message cannot be true, and what its sender has really sent is unknown: another process
 * speaks for it. The run cannot go on.
 */
export class ForgeryError extends Error {
  override readonly name = "ForgeryError";
}

/** Messages of one subject that `by` refused. */
export interface RefusedMessages {
  readonly by: string;
  readonly subject: string;
  readonly count: number;
}

/** Subjects that are counted one by one: a forger may make up any number. */
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
