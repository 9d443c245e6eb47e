/**
 * Waiting for what other processes do. A busy machine makes a test slow, never red, so what is waited for has the time of
 * the whole file, but for a rest in which it can be said what did not come.
 */
import assert from "node:assert/strict";
import { sleep, wallMs } from "../../fabric/bus/wall_time.ts";
import { FILE_LIMIT_MS } from "../../scripts/check/bounded.ts";

/** For anything that a test waits for, in wall ms. */
export const TEST_PATIENCE_MS = FILE_LIMIT_MS - 3 * 60_000;

/** Waits until it holds. */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
): Promise<void> {
  const deadline = wallMs() + TEST_PATIENCE_MS;
  while (!await holds()) {
    assert.ok(wallMs() < deadline, `${what}: not within ${TEST_PATIENCE_MS / 60_000} min`);
    await sleep(20);
  }
}

/** The slowest try of {@link atSomePace}. */
const SLOWEST = 64;

/**
 * For a test of a limit in wall time, which what is not to meet it may meet on a busy machine: tries it with times that are
 * longer and longer. Fails as the last try does.
 */
export async function atSomePace(run: (slower: number) => Promise<void>): Promise<void> {
  for (let slower = 1;; slower *= 4) {
    try {
      return await run(slower);
    } catch (error) {
      if (slower >= SLOWEST) throw error;
    }
  }
}
