/** The thread of `loop_watch.ts`. The thread that it watches cannot speak for itself. */
import type { LoopWatchStart } from "./loop_watch.ts";

const LOOK_MS = 1_000;
/** When it is said first, in looks; then each time that it has taken twice as long. */
const FIRST = 5;

function watch({ steps, names }: LoopWatchStart): void {
  let last = -1, looks = 0, next = FIRST;
  setInterval(() => {
    const [host, count] = steps;
    looks = host !== 0 && count === last ? looks + 1 : 0;
    last = count!;
    if (looks === 0) next = FIRST;
    if (looks < next) return;
    next *= 2;
    const seconds = looks * LOOK_MS / 1_000;
    console.error(
      `Found ${
        names[host! - 1]
      } running for ${seconds} s: expected a wait (yield*), without which ` +
        "no time passes; Ctrl-C ends the command",
    );
  }, LOOK_MS);
  for (const signal of ["SIGINT", "SIGTERM"] as const) {
    Deno.addSignalListener(signal, () => {
      // The watched thread would never hear of it.
      if (looks >= FIRST) Deno.kill(Deno.pid, "SIGKILL");
    });
  }
}

self.addEventListener(
  "message",
  (event) => watch((event as MessageEvent<LoopWatchStart>).data),
  { once: true },
);
