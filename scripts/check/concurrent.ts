/** Doing several things at once, and waiting no longer than is sensible. */

/** Does something with each. @param atOnce how many at a time; default: the number of cores. */
export async function forEachAtOnce<T>(
  items: readonly T[],
  act: (item: T, place: number) => Promise<void>,
  atOnce: number = navigator.hardwareConcurrency,
): Promise<void> {
  const left = items.entries();
  async function work(): Promise<void> {
    for (const [place, item] of left) await act(item, place);
  }
  await Promise.all(Array.from({ length: atOnce }, work));
}

/** Whether this is over within so long. Rejects where it does in that time. */
export async function isOverWithin(work: Promise<unknown>, ms: number): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const timer = setTimeout(() => late.resolve(false), ms);
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
