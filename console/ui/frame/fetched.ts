import { type ReadonlySignal, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";

export interface Fetched<T> {
  readonly value: T | undefined;
  readonly trouble: string | undefined;
}

/**
 * Fetches a value again when its dependencies change.
 * @param key names the value; undefined: nothing. An answer to an earlier key is dropped.
 * @param version of the same value: an earlier one is shown until the new one has come.
 */
export function useFetched<T>(
  key: string | undefined,
  get: () => Promise<T>,
  version = "",
): ReadonlySignal<Fetched<T>> {
  const fetched = useSignal<Fetched<T>>({ value: undefined, trouble: undefined });
  const shown = useRef(key);
  useEffect(() => {
    let isOver = false;
    if (shown.current !== key) fetched.value = { value: undefined, trouble: undefined };
    shown.current = key;
    if (key === undefined) return;
    get().then((value) => {
      if (!isOver) fetched.value = { value, trouble: undefined };
    }, (error) => {
      if (!isOver) fetched.value = { value: undefined, trouble: (error as Error).message };
    });
    return () => {
      isOver = true;
    };
  }, [key, version]);
  return fetched;
}
