/** Work that several processes share, each a lane that does one thing at a time. */
import { sleep } from "../../../fabric/bus/wall_time.ts";

/** `ready`: by lane; resolves when it can work, rejects where it cannot, and the others do all. */
export interface Lanes<Work, Result> {
  readonly ready: readonly Promise<unknown>[];
  run(work: Work, lane: number): Promise<Result>;
}

const TURN_MS = 50;

/**
 * Results in the order of the work; undefined where time has passed. What is under way at the end is not waited for.
 * @throws what a run throws.
 */
export async function* inOrderOf<Work, Result>(
  works: readonly Work[],
  { ready, run }: Lanes<Work, Result>,
): AsyncGenerator<Result | undefined, void> {
  const results = works.map(() => Promise.withResolvers<Result>());
  for (const { promise } of results) promise.catch(() => {});
  let begun = 0, isOver = false;
  const work = async (lane: number) => {
    if (!await ready[lane]!.then(() => true, () => false)) return;
    // One that gets ready late may have another rack to explore by then.
    while (!isOver && begun < works.length) {
      const place = begun++, { resolve, reject } = results[place]!;
      try {
        resolve(await run(works[place]!, lane));
      } catch (error) {
        // The process is lost. All runs before this one are made, or under way.
        return reject(error);
      }
    }
  };
  for (const lane of ready.keys()) void work(lane);
  try {
    for (const { promise } of results) {
      for (;;) {
        const result = await Promise.race([promise, sleep(TURN_MS)]) ?? undefined;
        yield result;
        if (result !== undefined) break;
      }
    }
  } finally {
    isOver = true;
  }
}
