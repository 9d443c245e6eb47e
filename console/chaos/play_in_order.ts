export interface RoundsOf<Played, Result> {
  /**
   * Rounds at a time, of which one is played. With one, each is replayed before the next one is
   * played.
   */
  readonly jobs: number;
  /** @param place 0, 1, 2, …, one after the other. */
  readonly play: (place: number) => Promise<Played>;
  /** Asked after each round: true if it was the last one. @param played how many were played. */
  readonly isOver: (played: number) => boolean;
  /** @param lane of 0 to `jobs` - 2 (with one job: 0), which replays nothing else at that time. */
  readonly replay: (played: Played, lane: number) => Promise<Result>;
  readonly report: (result: Result, played: Played) => Promise<void>;
}

/**
 * Plays rounds until it is over, the first one in any case. At most `jobs` rounds are played and
 * not reported on, which bounds memory. The first failure is thrown when all rounds played by then
 * have been reported on; where a replay or a report fails, nothing behind it is reported.
 */
export async function playInOrder<Played, Result>(
  { jobs, play, isOver, replay, report }: RoundsOf<Played, Result>,
): Promise<void> {
  const lanes = Math.max(1, jobs - 1), unreported: Promise<void>[] = [];
  let last: Promise<void> = Promise.resolve();
  try {
    for (let place = 0; place === 0 || !isOver(place); place++) {
      const played = await play(place);
      // Also frees its lane: consecutive rounds have different ones.
      if (unreported.length >= lanes) await unreported.shift();
      const replaying = replay(played, place % lanes), before = last;
      last = before.then(async () => await report(await replaying, played));
      replaying.catch(() => {});
      last.catch(() => {});
      unreported.push(last);
      if (jobs === 1) await last;
    }
  } finally {
    await last;
  }
}
