/**
 * Wall time, for those who wait for other processes: the buses and their tests. Nothing that a model
 * can see depends on it. Kept apart so that the rest of this folder can be held to having no clock.
 */

/** Milliseconds since some moment. */
export function wallMs(): number {
  return performance.now();
}

/** Calls `run` in a later turn of the event loop, after I/O and timers had theirs. */
export function nextTurn(run: () => void): void {
  setImmediate(run);
}

/** Calls `run` after `ms`, unless the function returned is called before. */
export function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => after(ms, resolve));
}

/** Holds up all of this process for so long: nothing else is done meanwhile. For tests. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
