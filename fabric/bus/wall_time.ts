/** Wall time, for code that waits for other processes. The linter forbids clocks elsewhere here. */

export function wallMs(): number {
  return performance.now();
}

/** In a later turn of the event loop, after pending I/O and timers. */
export function nextTurn(run: () => void): void {
  setImmediate(run);
}

export function after(ms: number, run: () => void): () => void {
  const timer = setTimeout(run, ms);
  return () => clearTimeout(timer);
}

export function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => after(ms, resolve));
}

/** Blocks this process. For tests. */
export function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms);
}
