/** Conditions at which a running rack stops: README, Where a rack stands. */
import type { Time } from "../base/time.ts";
import type { Predicate } from "../trace/predicate.ts";
import type { Grant, Report } from "./clock.ts";

export interface BreakHit {
  readonly break: number;
  readonly node: string;
  readonly step: string;
  readonly atPs: Time;
  /** Occurrences so far, including this one. */
  readonly count: number;
}

interface Seen {
  readonly break: number;
  readonly node: string;
  readonly atPs: Time;
  readonly partition: number;
}

export class Breaks {
  readonly all: readonly Predicate[];
  /** Watched from this instant on; undefined: not yet. */
  from: Time | undefined;
  readonly hits: BreakHit[] = [];
  readonly #counts: number[];
  #seen: Seen[] = [];

  constructor(breaks: readonly Predicate[]) {
    this.all = breaks;
    this.#counts = breaks.map(() => 0);
  }

  get rows(): Grant["breaks"] {
    return this.all.map(({ step, node = "", count = 1 }, i) =>
      [step, node, Math.max(1, count - this.#counts[i]!)] as const
    );
  }

  note(partition: number, rows: Report["hits"]): void {
    for (const [index, node, atPs] of rows) {
      if (index < this.all.length) this.#seen.push({ break: index, node, atPs, partition });
    }
  }

  /**
   * When no partition is running: in order of time, then of the partitions, regardless of the order
   * of reports. @returns whether a break was hit.
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
