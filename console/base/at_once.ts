/** Doing several things at once, with results in the order of the things. */

/**
 * Does something with each of `items`, at most `atOnce` at a time, in their order. The first failure is thrown once
 * everything that was under way has ended; nothing more is begun behind it.
 * @param options.onFailure called with it at once: it may end what is under way.
 */
export async function forEachAtOnce<T>(
  items: readonly T[],
  act: (item: T) => Promise<void>,
  { atOnce, onFailure }: {
    readonly atOnce: number;
    readonly onFailure?: (error: unknown) => void;
  },
): Promise<void> {
  let next = 0;
  let failure: { readonly error: unknown } | undefined;
  const work = async () => {
    while (next < items.length && failure === undefined) {
      try {
        await act(items[next++]!);
      } catch (error) {
        if (failure !== undefined) return;
        failure = { error };
        onFailure?.(error);
      }
    }
  };
  await Promise.all(Array.from({ length: Math.min(atOnce, items.length) }, work));
  if (failure !== undefined) throw failure.error;
}

/**
 * Hands values on in the order of their places, whichever comes first. @returns what takes them: a value waits until
 * all before it have come.
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
