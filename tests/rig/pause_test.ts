/** Processes that are stopped and go on: nothing of the rack fails by it, and no result depends on it. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { Supervisor } from "../../console/rack/supervisor.ts";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { CommandRig } from "../support/command.ts";
import { lifeLine, RackBench, type Ran, type RunOf } from "../support/process_rack.ts";

const RUN: RunOf = {
  scenario: new URL("../../scripts/scenarios/persist_pair.yaml", import.meta.url),
  method: "write-send",
  ddio: "on",
  size: 1024,
  depth: 2,
  inputBytes: 16 * 1024,
  delayMsMax: 1,
};

/** Long enough that every process of the rack waits for the one that is stopped. */
const PAUSE_MS = 300;

describe("A process that is stopped", () => {
  let bench: RackBench;
  let undisturbed: Ran;

  beforeAll(async () => {
    bench = await RackBench.open();
    undisturbed = await bench.run({ ...RUN, packing: "all" });
  });

  afterAll(() => bench.close());

  // A device, and the process that all devices wait for; `rack chaos` stops any of them.
  for (const name of ["b", "timekeeper"]) {
    it(`makes the rack wait for it and changes nothing: ${name}`, async () => {
      let moved: number | undefined;
      const act = async (rack: Supervisor) => {
        assert.equal(await rack.pause(name), true);
        await sleep(PAUSE_MS);
        const before = (await rack.status())?.events;
        await sleep(PAUSE_MS);
        moved = (await rack.status())?.events === before ? 0 : 1;
        assert.equal(rack.resume(name), true);
      };
      const ran = await bench.run({ ...RUN, midway: { share: 0.2, act } });
      assert.equal(moved, 0);
      assert.equal(ran.outcome.digest, undisturbed.outcome.digest);
      assert.deepEqual(lifeLine(ran), []);
    });
  }

  it("ends with its rack all the same; only a process of the rack can be stopped", async () => {
    let pid: number | null | undefined;
    const act = async (rack: Supervisor) => {
      assert.equal(await rack.pause("no-such-process"), false);
      assert.equal(rack.resume("no-such-process"), false);
      pid = rack.processes().find(({ name }) => name === "b")?.pid;
      await rack.pause("b");
      await rack.down();
    };
    await assert.rejects(bench.run({ ...RUN, midway: { share: 0.2, act } }), /was taken down/);
    assert.ok(pid);
    assert.throws(() => Deno.statSync(`/proc/${pid}`), Deno.errors.NotFound);
  });
});

const POLLS = `export default function* polls({ cpu }) {
  for (;;) yield* cpu.sleep(1_000);
}
`;

describe("A program that never rests, on a rack in which nothing else happens", () => {
  it("does not keep the rack from pausing, from a power failure, and from a return", async () => {
    const rig = await CommandRig.open();
    try {
      await rig.file("polls.ts", POLLS);
      const scenario = await rig.file(
        "polls.yaml",
        "name: polls\nhosts: { a: {}, b: {} }\n" +
          "programs: [{ on: a, program: ./polls.ts, service: true }]\n",
      );
      const orders = [["up", scenario], ["kill", "b"], ["start", "b"], ["pause"], ["down"]];
      for (const args of orders) {
        const { code, stderr } = await rig.run(args, { cwd: rig.cache });
        assert.equal(code, 0, `${args[0]}: ${stderr}`);
      }
    } finally {
      await rig.run(["down", "--all"]);
      await rig.gone();
      await rig.close();
    }
  });
});
