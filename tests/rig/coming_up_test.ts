/**
 * Processes that are killed while their rack comes up: it comes up all the same, or the command ends
 * with a sentence that names the process.
 */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { eventually } from "../support/eventually.ts";
import { CommandRig, type Ended } from "../support/command.ts";

const SCENARIO = fromFileUrl(projectFile("scripts/scenarios/my_protocol.yaml"));
const PROGRAMS: Readonly<Record<string, RegExp>> = {
  "nats-server": /^\d+: \S*nats-server -c /,
  timekeeper: / \S*timekeeper_main\.ts /,
  supervisor: / \S*supervise\.ts /,
  b: / \S*nodes\/main\.ts \S+ b /,
  "b-rnic": / \S*nodes\/main\.ts \S+ b-rnic /,
  tor: / \S*nodes\/main\.ts \S+ tor /,
};
const LOOK_AGAIN_MS = 3;

describe("A process that is killed while its rack comes up", () => {
  let rig: CommandRig;

  beforeEach(async () => {
    rig = await CommandRig.open();
  });

  afterEach(() => rig.closeDown());

  /** Kills the first `times` processes of a program, each so many ms after it was seen. */
  async function killing(
    command: "run" | "up",
    { victim, afterMs, times = 1 }: { victim: string; afterMs: number; times?: number },
  ): Promise<Ended> {
    const running = rig.start([command, SCENARIO], { cwd: rig.cache });
    let isOver = false;
    running.ended.finally(() => isOver = true);
    const killed = new Set<number>();
    while (killed.size < times && !isOver) {
      const pids = rig.processes().filter((line) => PROGRAMS[victim]!.test(line))
        .map((line) => parseInt(line)).filter((pid) => !killed.has(pid));
      for (const pid of pids) {
        await sleep(afterMs);
        Deno.kill(pid, "SIGKILL");
        killed.add(pid);
      }
      await sleep(LOOK_AGAIN_MS);
    }
    const ended = await running.ended;
    const said =
      `${victim} was there so often; the command ended with ${ended.code}: ${ended.stderr}`;
    assert.equal(killed.size, times, said);
    assert.doesNotMatch(ended.stderr, /\n {4}at /, "no stack trace");
    return ended;
  }

  for (
    const [command, victim, afterMs] of [
      ["run", "b", 0],
      ["run", "tor", 50],
      ["up", "b", 30],
      ["run", "timekeeper", 0],
      ["run", "nats-server", 0],
      ["up", "nats-server", 10],
      ["up", "nats-server", 300],
    ] as const
  ) {
    it(`${victim}, ${afterMs} ms after its start: rack ${command} goes on`, async () => {
      const { code, stderr } = await killing(command, { victim, afterMs });
      assert.equal(code, 0, stderr);
    });
  }

  it("a device, and rack start from a second shell: both commands end", async () => {
    const up = rig.start(["up", SCENARIO], { cwd: rig.cache }).ended;
    await eventually("b has a process", () => {
      const line = rig.processes().find((each) => PROGRAMS["b"]!.test(each));
      if (line === undefined) return false;
      Deno.kill(parseInt(line), "SIGKILL");
      return true;
    });
    const { code, stderr } = await rig.run(["start", "b"], { cwd: rig.cache });
    // It comes back by itself; before the supervisor is there, no rack is up.
    if (code !== 0) assert.match(stderr, /b has power|No rack is up|expected/);
    const upEnded = await up;
    assert.equal(upEnded.code, 0, upEnded.stderr);
  });

  it("the supervisor: rack up ends with a sentence", async () => {
    const { code, stderr } = await killing("up", { victim: "supervisor", afterMs: 500 });
    assert.equal(code, 2, stderr);
    assert.match(stderr, /Found that the supervisor ended \(SIGKILL\) before the rack was up/);
  });

  it("a device that is killed again and again: rack run ends with a sentence", async () => {
    const { code, stderr } = await killing("run", { victim: "b", afterMs: 0, times: 5 });
    assert.equal(code, 2, stderr);
    assert.match(stderr, /Found that b was killed 5 times before it had joined the rack/);
  });
});
