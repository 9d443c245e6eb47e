import type { LoopWatchStart } from "./loop_watch.ts";

const LOOK_MS = 1_000;
const FIRST = 5;

let start: LoopWatchStart | undefined;

function watch(): void {
  const parent = Deno.ppid;
  let last = -1, looks = 0, next = FIRST;
  setInterval(() => {
    if (Deno.ppid !== parent) Deno.kill(Deno.pid, "SIGKILL");
    const { running, watched } = start!;
    const [number, count] = running;
    looks = number !== 0 && count === last ? looks + 1 : 0;
    last = count!;
    if (looks === 0) next = FIRST;
    if (looks < next) return;
    next *= 2;
    const { name, expected } = watched[number! - 1]!;
    const seconds = looks * LOOK_MS / 1_000;
    console.error(
      `Found ${name} running for ${seconds} s: expected ${expected}; Ctrl-C ends the command`,
    );
  }, LOOK_MS);
}

self.addEventListener("message", (event) => {
  const isFirst = start === undefined;
  start = (event as MessageEvent<LoopWatchStart>).data;
  if (!isFirst) return;
  watch();
  // The library's types are those of a program's own thread.
  (self as unknown as Pick<Worker, "postMessage">).postMessage("watching");
});
