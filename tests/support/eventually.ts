/** Waiting for what other processes do, for a bounded time. */
import assert from "node:assert/strict";
import { sleep, wallMs } from "../../fabric/bus/wall_time.ts";

/** Waits until it holds. */
export async function eventually(
  what: string,
  holds: () => boolean | Promise<boolean>,
  options: { readonly withinMs: number } = { withinMs: 30_000 },
): Promise<void> {
  const deadline = wallMs() + options.withinMs;
  while (!await holds()) {
    assert.ok(wallMs() < deadline, `${what}: not within ${options.withinMs} ms`);
    await sleep(20);
  }
}
