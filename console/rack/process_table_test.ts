/** Which processes are ours, and ending them: with processes that do nothing. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import {
  endProcesses,
  isProcessOf,
  readProcesses,
  residentBytes,
  signalProcess,
  writeProcesses,
} from "./process_table.ts";

describe("the process table", () => {
  let directory: string;
  let sleepers: Deno.ChildProcess[];

  beforeEach(async () => {
    directory = await Deno.makeTempDir({ prefix: "rackmesh-table-" });
    sleepers = [];
  });

  afterEach(async () => {
    for (const sleeper of sleepers) {
      try {
        sleeper.kill("SIGKILL");
      } catch {
        // A test has ended it.
      }
      await sleeper.status;
    }
    await Deno.remove(directory, { recursive: true });
  });

  /** A process with this word on its command line. It ends on SIGTERM unless it is stubborn. */
  async function sleeper(
    word: string,
    options: { stubborn?: true } = {},
  ): Promise<Deno.ChildProcess> {
    const trap = options.stubborn ? "trap '' TERM; " : "";
    const process = new Deno.Command("sh", {
      args: ["-c", `${trap}while :; do sleep 0.05; done`, word],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
    sleepers.push(process);
    // Until it is a shell, its command line is the one of this process.
    while (!Deno.readTextFileSync(`/proc/${process.pid}/cmdline`).includes(word)) {
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
    return process;
  }

  /** Waits until the shell has come to its trap. */
  async function ignoresSigterm(pid: number): Promise<void> {
    for (;;) {
      const [, mask] = /^SigIgn:\s+([0-9a-f]+)$/m.exec(
        Deno.readTextFileSync(`/proc/${pid}/status`),
      )!;
      if ((parseInt(mask!, 16) & 0x4000) !== 0) return;
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
  }

  const entry = (pid: number | null) =>
    ({ name: "b", kind: "partition", pid, nodes: ["b"] }) as const;

  it("comes back as it was written, and is empty where there is none", () => {
    assert.deepEqual(readProcesses(directory), []);
    writeProcesses(directory, [entry(7), entry(null)]);
    assert.deepEqual(readProcesses(directory), [entry(7), entry(null)]);
    writeProcesses(directory, []);
    assert.deepEqual(readProcesses(directory), []);
  });

  it("takes a process for ours only if it was started for this very directory", async () => {
    const ours = await sleeper(`${directory}/run.json`);
    const theirs = await sleeper(`${directory}-2/run.json`);
    const reader = await sleeper(`${directory}/logs/b.log`);
    assert.equal(isProcessOf(directory, ours.pid), true);
    assert.ok(residentBytes(ours.pid) > 0);
    for (const { pid } of [theirs, reader]) {
      assert.equal(isProcessOf(directory, pid), false);
      assert.equal(signalProcess(directory, pid), false);
    }
    assert.equal(isProcessOf(directory, null), false);
    assert.equal(isProcessOf(directory, Deno.pid), false);
  });

  it("ends all processes of the run, also those that ignore SIGTERM, and no others", async () => {
    const ours = [
      await sleeper(`${directory}/run.json`),
      await sleeper(`${directory}/nats-server.conf`, { stubborn: true }),
    ];
    const theirs = await sleeper("/elsewhere/run.json");
    await ignoresSigterm(ours[1]!.pid);
    const entries = [...ours, theirs].map(({ pid }) => entry(pid));
    assert.equal(await endProcesses(directory, { entries, graceMs: 200 }), 2);
    const signals = await Promise.all(ours.map(async ({ status }) => (await status).signal));
    assert.deepEqual(signals, ["SIGTERM", "SIGKILL"]);
    assert.equal(isProcessOf("/elsewhere", theirs.pid), true);
    assert.equal(residentBytes(ours[0]!.pid), 0);
  });
});
