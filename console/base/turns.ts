/**
 * Calls that come while one is under way share the next one, which begins after they came, with its
 * failure.
 */
export function inTurns(work: () => Promise<void>): () => Promise<void> {
  let running = Promise.resolve(), next: Promise<void> | undefined;
  return () => {
    next ??= running.catch(() => {}).then(() => {
      next = undefined;
      return running = work();
    });
    return next;
  };
}
