/** A value that a view fetches: asked for again where what it depends on changes. */
import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";

export interface Fetched<T> {
  readonly value: T | undefined;
  /** Why there is none. */
  readonly trouble: string | undefined;
}

/** `key` names what is fetched; undefined: nothing. An answer to an earlier key is dropped. */
export function useFetched<T>(
  key: string | undefined,
  get: () => Promise<T>,
): ReadonlySignal<Fetched<T>> {
  const fetched = useSignal<Fetched<T>>({ value: undefined, trouble: undefined });
  useEffect(() => {
    let isOver = false;
    fetched.value = { value: undefined, trouble: undefined };
    if (key === undefined) return;
    get().then((value) => {
      if (!isOver) fetched.value = { value, trouble: undefined };
    }, (error) => {
      if (!isOver) fetched.value = { value: undefined, trouble: (error as Error).message };
    });
    return () => {
      isOver = true;
    };
  }, [key]);
  return fetched;
}
