/**
 * Calls `act` for each of `items`, at most `atOnce` at a time, in their order. The first failure is
 * thrown once all calls under way have ended; no further call begins.
 * @param act called with an item, its place, and its lane, from 0 on: a lane does one at a time.
 * @param options.atOnce default: the number of cores.
 * @param options.onFailure called at once: it may end the calls under way.
 */
export async function forEachAtOnce<T>(
  items: readonly T[],
  act: (item: T, place: number, lane: number) => Promise<void>,
  { atOnce = navigator.hardwareConcurrency, onFailure }: {
    readonly atOnce?: number;
    readonly onFailure?: (error: unknown) => void;
  } = {},
): Promise<void> {
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const work = async (lane: number) => {
    while (next < items.length && failure === undefined) {
      const place = next++;
      try {
        await act(items[place]!, place, lane);
      } catch (error) {
        if (failure !== undefined) return;
        failure = { error };
        onFailure?.(error);
      }
    }
  };
  await Promise.all(
    Array.from({ length: Math.min(atOnce, items.length) }, (_, lane) => work(lane)),
  );
  if (failure !== undefined) throw failure.error;
}

/**
 * Hands values on in the order of their places.
 * @returns a function that takes them: a value waits until all before it have come.
 */
export function inOrder<T>(take: (value: T) => void): (place: number, value: T) => void {
  const waiting = new Map<number, T>();
  let next = 0;
  return (place, value) => {
    waiting.set(place, value);
    for (; waiting.has(next); next++) {
      const first = waiting.get(next)!;
      waiting.delete(next);
      take(first);
    }
  };
}

/**
 * Results in the order of the items, each as soon as those before it are there; a failure is thrown
 * in its place. If the caller stops, no further call begins, and calls under way are waited for.
 * @param options.work as `act` of {@link forEachAtOnce}.
 */
export async function* resultsInOrder<Item, Result>(
  items: readonly Item[],
  { atOnce, work }: {
    readonly atOnce: number;
    readonly work: (item: Item, place: number, lane: number) => Promise<Result>;
  },
): AsyncGenerator<Result, void> {
  const results = items.map(() => Promise.withResolvers<Result>());
  for (const { promise } of results) promise.catch(() => {});
  let isOver = false;
  const all = forEachAtOnce(items, async (item, place, lane) => {
    if (isOver) return;
    const { resolve, reject } = results[place]!;
    await work(item, place, lane).then(resolve, reject);
  }, { atOnce });
  try {
    for (const { promise } of results) yield await promise;
  } finally {
    isOver = true;
    await all;
  }
}
