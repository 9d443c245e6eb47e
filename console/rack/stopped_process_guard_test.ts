import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { statOf } from "../base/process_stat.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { fromFileUrl } from "../base/paths.ts";
import { StoppedProcessGuard } from "./stopped_process_guard.ts";

/** A process that has `mark` on its command line, and ends by itself. */
function startMarked(mark: string): Deno.ChildProcess {
  const script = "trap 'exit 0' TERM; for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1; done";
  return new Deno.Command("sh", { args: ["-c", script, mark], stdin: "null" }).spawn();
}

function stateOf(pid: number): string {
  return statOf(pid)![0]!;
}

async function reaches(pid: number, isSo: (state: string) => boolean): Promise<void> {
  for (let left = 500; left > 0 && !isSo(stateOf(pid)); left--) await sleep(10);
  assert.ok(isSo(stateOf(pid)), `it is ${stateOf(pid)}`);
}

async function end(child: Deno.ChildProcess): Promise<void> {
  child.kill("SIGKILL");
  await child.status;
}

describe("StoppedProcessGuard", () => {
  it("continues at its end the processes that it watches", async () => {
    const child = startMarked("waker-test-mark");
    const waker = new StoppedProcessGuard("waker-test-mark");
    await waker.watch(child.pid);
    child.kill("SIGSTOP");
    await reaches(child.pid, (state) => state === "T");
    await waker.close();
    await reaches(child.pid, (state) => state !== "T");
    await end(child);
  });

  it("leaves alone what is no process of its run", async () => {
    const child = startMarked("somebody-else");
    const waker = new StoppedProcessGuard("waker-test-mark");
    await waker.watch(child.pid);
    child.kill("SIGSTOP");
    await reaches(child.pid, (state) => state === "T");
    await waker.close();
    assert.equal(stateOf(child.pid), "T");
    await end(child);
  });

  it("continues it, too, when this process is killed", async () => {
    const child = startMarked("waker-test-mark");
    const here = fromFileUrl(new URL("stopped_process_guard.ts", import.meta.url));
    const code = `import { StoppedProcessGuard } from ${JSON.stringify(here)};
      await new StoppedProcessGuard("waker-test-mark").watch(${child.pid});
      Deno.kill(${child.pid}, "SIGSTOP");
      setInterval(() => {}, 1000);`;
    const args = ["eval", "--quiet", code];
    const holder = new Deno.Command(Deno.execPath(), { args, stdin: "null" }).spawn();
    await reaches(child.pid, (state) => state === "T");
    await end(holder);
    await reaches(child.pid, (state) => state !== "T");
    await end(child);
  });
});
