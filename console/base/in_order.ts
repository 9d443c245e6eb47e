/** Several pieces of work at a time, with their results in the order of the pieces. */

/**
 * Does pieces of work, `lanes` of them at a time, and hands out each result as soon as those before it are there. What
 * fails is thrown in its place in that order. Where the caller takes no more, no further piece is begun.
 * @param options.work is called with a piece, its index, and the number of the lane that does it, from 0: a lane
 *   does one piece at a time.
 */
export async function* inOrder<Piece, Result>(
  pieces: readonly Piece[],
  { lanes, work }: {
    readonly lanes: number;
    readonly work: (piece: Piece, index: number, lane: number) => Promise<Result>;
  },
): AsyncGenerator<Result> {
  const results = pieces.map(() => Promise.withResolvers<Result>());
  // One that is not asked for is no unhandled rejection.
  for (const { promise } of results) promise.catch(() => {});
  let next = 0, isOver = false;
  const goOn = async (lane: number) => {
    while (!isOver && next < pieces.length) {
      const index = next++, { resolve, reject } = results[index]!;
      await work(pieces[index]!, index, lane).then(resolve, reject);
    }
  };
  for (let lane = 0; lane < Math.min(lanes, pieces.length); lane++) void goOn(lane);
  try {
    for (const { promise } of results) yield await promise;
  } finally {
    isOver = true;
  }
}
