import { ok, strictEqual as equal } from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { processorMs } from "./process_stat.ts";

describe("processorMs", () => {
  it("grows with the work of a process, not with the time in which it is stopped", async () => {
    // The name has what stands around the fields.
    const child = new Deno.Command("bash", {
      args: ["-c", "exec -a 'a) (b' bash -c 'while :; do :; done'"],
    }).spawn();
    const wait = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    try {
      while ((processorMs(child.pid) ?? 0) < 50) await wait(10);
      Deno.kill(child.pid, "SIGSTOP");
      await wait(50);
      const stopped = processorMs(child.pid)!;
      await wait(200);
      equal(processorMs(child.pid), stopped);
      ok(stopped >= 50);
    } finally {
      child.kill("SIGKILL");
      await child.status;
    }
    equal(processorMs(child.pid), undefined);
  });
});
