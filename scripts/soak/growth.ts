/** Does a measure stay flat: its median in the last quarter of the samples against the first. */

/** Left out: memory grows until code is compiled and pools are filled. */
const WARM_UP = 0.1;
const SAMPLES_MIN = 40;

export interface Sample {
  readonly transfers: number;
  readonly value: number;
}

export interface Growth {
  readonly first: number;
  readonly last: number;
  readonly growth: number;
  readonly perTransfer: number;
}

/** @returns undefined where there are too few samples. */
export function growthOf(samples: readonly Sample[]): Growth | undefined {
  const warm = samples.slice(Math.ceil(samples.length * WARM_UP));
  if (warm.length < SAMPLES_MIN) return undefined;
  const quarter = Math.floor(warm.length / 4);
  const head = warm.slice(0, quarter), tail = warm.slice(-quarter);
  const first = medianOf(head.map(({ value }) => value));
  const last = medianOf(tail.map(({ value }) => value));
  const done = medianOf(tail.map(({ transfers }) => transfers)) -
    medianOf(head.map(({ transfers }) => transfers));
  const growth = last - first;
  return { first, last, growth, perTransfer: done > 0 ? growth / done : 0 };
}

function medianOf(values: readonly number[]): number {
  return values.toSorted((x, y) => x - y)[values.length >> 1]!;
}
