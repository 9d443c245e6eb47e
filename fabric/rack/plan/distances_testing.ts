/** Random racks as cables between partitions, and the least delays by the plainest way there is. */
import fc from "fast-check";
import { NEVER, type Time } from "../../base/time.ts";
import type { Crossing } from "./lookahead.ts";

/** Partitions, and the cables between them. */
export interface Graph {
  readonly count: number;
  readonly crossings: readonly Crossing[];
}

/** Least delays `[from][to]`; 0 on the diagonal, NEVER without a way (Floyd and Warshall). */
export function allDistances({ count, crossings }: Graph): Time[][] {
  const all = Array.from({ length: count }, () => new Array<Time>(count).fill(NEVER));
  for (let i = 0; i < count; i++) all[i]![i] = 0;
  for (const { from, to, delayPs } of crossings) {
    all[from]![to] = Math.min(all[from]![to]!, delayPs);
  }
  for (let via = 0; via < count; via++) {
    for (const row of all) {
      for (let to = 0; to < count; to++) row[to] = Math.min(row[to]!, row[via]! + all[via]![to]!);
    }
  }
  return all;
}

/**
 * Graphs of every kind: trees of any shape, with some more cables or without, whole or in pieces, each
 * cable with a delay of its own for each direction.
 */
export function graphs(countMost: number): fc.Arbitrary<Graph> {
  const delay = fc.integer({ min: 1, max: 20 });
  return fc.integer({ min: 1, max: countMost }).chain((count) => {
    const partition = fc.nat(count - 1);
    const parents = fc.array(fc.tuple(partition, delay, delay, fc.nat(9)), {
      minLength: count - 1,
      maxLength: count - 1,
    });
    const more = fc.array(fc.tuple(partition, partition, delay, delay), { maxLength: 3 });
    // How far up its number the parent of a partition may be: 1 makes a row, all of them a bush.
    return fc.tuple(parents, more, fc.integer({ min: 1, max: count })).map(
      ([parents, more, reach]) => {
        const crossings: Crossing[] = [];
        const connect = (a: number, b: number, [there, back]: readonly [Time, Time]) => {
          if (a === b) return;
          crossings.push({ from: a, to: b, delayPs: there }, { from: b, to: a, delayPs: back });
        };
        for (const [before, [drawn, there, back, piece]] of parents.entries()) {
          const i = before + 1;
          if (piece > 0) connect(i, Math.max(drawn % i, i - reach), [there, back]);
        }
        for (const [a, b, there, back] of more) connect(a, b, [there, back]);
        return { count, crossings };
      },
    );
  });
}
