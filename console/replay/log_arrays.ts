/** Numbers and rows in the order of their times, with what lies before an instant. */
import type { Time } from "../../fabric/base/time.ts";

/** A list of numbers that grows, eight bytes each. */
export class Numbers {
  #values = new Float64Array(1_024);
  length = 0;

  push(value: number): void {
    if (this.length === this.#values.length) {
      const grown = new Float64Array(2 * this.length);
      grown.set(this.#values);
      this.#values = grown;
    }
    this.#values[this.length++] = value;
  }

  at(index: number): number {
    return this.#values[index]!;
  }

  /** Number of values below `limit`; the values ascend. */
  countBelow(limit: number): number {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#values[middle]! < limit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

/** Number of rows before `at`; their times ascend. */
export function countBefore(rows: readonly { readonly time: Time }[], at: Time): number {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows[middle]!.time < at) low = middle + 1;
    else high = middle;
  }
  return low;
}
