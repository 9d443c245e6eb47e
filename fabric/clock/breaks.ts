/**
 * Breaks: what a running rack is to stop at, in the language of `trace/predicate.ts`.
 *
 * The rack stops as a whole, at the end of the instant of the hit: all that happens then or before has
 * happened on every device, and nothing later on any. For that, while breaks are watched no partition
 * runs past the next event of another (`Timekeeper`), which takes about a third more CPU time.
 */
import type { Time } from "../base/time.ts";
import type { Predicate } from "../trace/predicate.ts";
import type { Grant, Report } from "./clock.ts";

/** A break was hit: the exact event. Several may be hit at one instant. */
export interface BreakHit {
  /** Place in the order's list of breaks. */
  readonly break: number;
  readonly node: string;
  readonly step: string;
  readonly atPs: Time;
  /** How often it had happened by then, this one included. */
  readonly count: number;
}

/** A step that a break names, and the place of its partition among all. */
interface Seen {
  readonly break: number;
  readonly node: string;
  readonly atPs: Time;
  readonly partition: number;
}

/** The breaks of one order, and what became of them. */
export class Breaks {
  readonly all: readonly Predicate[];
  /** They are watched from this instant on; undefined: not yet. */
  from: Time | undefined;
  readonly hits: BreakHit[] = [];
  readonly #counts: number[];
  #seen: Seen[] = [];

  constructor(breaks: readonly Predicate[]) {
    this.all = breaks;
    this.#counts = breaks.map(() => 0);
  }

  /** Those of a grant: each with how often it may happen until the partition is to stop. */
  get rows(): Grant["breaks"] {
    return this.all.map(({ step, node = "", count = 1 }, i) =>
      [step, node, Math.max(1, count - this.#counts[i]!)] as const
    );
  }

  /** Takes what a report has of them. */
  note(partition: number, rows: Report["hits"]): void {
    for (const [index, node, atPs] of rows) {
      if (index < this.all.length) this.#seen.push({ break: index, node, atPs, partition });
    }
  }

  /**
   * Counts what was noted, to be called when no partition is running: the order is that of time, then
   * that of the partitions, whichever reported first. @returns whether a break was hit.
   */
  settle(): boolean {
    const seen = this.#seen.sort((x, y) => x.atPs - y.atPs || x.partition - y.partition);
    this.#seen = [];
    for (const { break: index, node, atPs } of seen) {
      const count = ++this.#counts[index]!;
      const { step, count: wanted = 1 } = this.all[index]!;
      if (count === wanted) this.hits.push({ break: index, node, step, atPs, count });
    }
    return this.hits.length > 0;
  }
}
