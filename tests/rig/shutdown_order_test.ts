/**
 * C-09: `rack shutdown` of a rack that is up. The order is on record with its instant, and the power failure follows
 * from it: a replay in one process, and a rack that is brought up in the middle of the shutdown, do the same again.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PS_PER_US } from "../../fabric/base/time.ts";
import { EXIT } from "../../fabric/base/exit.ts";
import { bringUp } from "../../console/rack/bring_up.ts";
import { awaitService, killService, startDevice } from "../../console/rack/live/power.ts";
import { linkedTo, type RackUp } from "../../console/rack/live/racks.ts";
import { shutDownHost, type ShutDownOutcome } from "../../console/rack/live/shutdown.ts";
import { takeRacksDown } from "../../console/rack/live/take_down.ts";
import { pause, resume, until } from "../../console/rack/live/virtual_time.ts";
import { readRunFile } from "../../console/rack/run_directory.ts";
import { Replay } from "../../console/replay/client.ts";
import { resumeRun } from "../../console/replay/resume/resume_run.ts";
import { scenarioOfRun } from "../../console/scenarios/kept_scenario.ts";
import { CommandRig } from "../support/command.ts";
import { ROOT } from "../../console/base/paths.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

const SCENARIO = `name: orderly
defaults: { attach: coherent, scm: { size: 1MiB }, dram: 4MiB, services: none }
hosts: { a: {}, b: {} }
shared: [{ name: s, home: a, far: [b], bytes: 4KiB, lease: 20us }]
programs: [{ on: all, program: ${
  new URL("../coherence/adds_program.ts", import.meta.url).pathname
} }]
`;
const WAIT = { timeoutSeconds: 60 };

describe("rack shutdown", () => {
  let rig: CommandRig;
  let cache: string | undefined;
  let rack: RackUp;
  let done: ShutDownOutcome;

  beforeAll(async () => {
    rig = await CommandRig.open();
    cache = Deno.env.get("RACKMESH_CACHE");
    Deno.env.set("RACKMESH_CACHE", rig.cache);
    rack = await bringUp(
      await readScenario(await rig.file("orderly.yaml", SCENARIO), { allowRead: [ROOT] }),
      {
        prepare: { packing: "node" },
      },
    );
  });

  afterAll(async () => {
    await rig.closeDown();
    if (cache === undefined) Deno.env.delete("RACKMESH_CACHE");
    else Deno.env.set("RACKMESH_CACHE", cache);
  });

  it("C-09: by its command, of a host that may be started again", async () => {
    const said = JSON.parse(await rig.must(["shutdown", "b", "--within", "50us", "--json"]));
    const { host, nodes, atPs, completePs, offPs, regions } = said;
    assert.deepEqual([host, nodes, regions], ["b", ["b"], ["s"]]);
    assert.ok(atPs < completePs && completePs < offPs);
    assert.equal(offPs, atPs + 50 * PS_PER_US);
    const off = await rig.run(["shutdown", "b"]);
    assert.equal(off.code, EXIT.usage);
    assert.match(off.stderr, /Cannot shut down b: b has no power/);
    await rig.must(["start", "b"]);
  });

  it("C-09: by its command, which fails where it has too little time, and says what was left", async () => {
    const { code, stderr } = await rig.run(["shutdown", "b", "--within", "1us"]);
    assert.equal(code, EXIT.failed);
    const left =
      /b's power went off at .*, 1 us after its shutdown had begun and before it had given back its shared region s$/m;
    assert.match(stderr, left);
    await rig.must(["start", "b"]);
  });

  it("C-09: by its command, which refuses what is no host, and no time", async () => {
    const [card, none] = await rig.each([
      ["shutdown", "a-rnic", "--run", rack.id],
      ["shutdown", "a", "--within", "0us", "--run", rack.id],
    ]);
    assert.deepEqual([card!.code, none!.code], [EXIT.usage, EXIT.usage]);
    assert.match(card!.stderr, /"a-rnic" cannot be shut down: expected a host: one of a, b/);
    assert.match(none!.stderr, /--within is "0us": expected a time > 0/);
  });

  it("C-09: goes on where the timekeeper is killed between the order and the power failure", async () => {
    await linkedTo(rack, async (link) => {
      await pause(link.control);
      const held = Promise.withResolvers<void>();
      const options = { ...WAIT, withinPs: 100 * PS_PER_US, onHeld: () => held.resolve() };
      const shutDown = shutDownHost(link, "b", options);
      await Promise.race([held.promise, shutDown]);
      killService(rack, "timekeeper");
      await awaitService(link, "timekeeper");
      await resume(link.control);
      done = await shutDown;
      assert.equal(done.offAt, done.begun + 100 * PS_PER_US);
      await startDevice(link, "b");
    });
  });

  it("C-09: is replayed in one process to the same digests, and written as a fault", async () => {
    await takeRacksDown({ run: rack.id });
    const replay = await Replay.open({ run: rack.id });
    try {
      const { exactness, orders, faults } = await replay.timeline();
      assert.equal(exactness.state, "equal", JSON.stringify(exactness));
      assert.deepEqual(orders.map(({ program }) => program), new Array(3).fill("shutdown"));
      assert.equal(faults.filter(({ action }) => action === "kill").length, 3);
    } finally {
      await replay.close();
    }
    const { directory, id: run } = rack, { plan, partitions } = readRunFile(directory)!;
    const { text } = scenarioOfRun({ run, directory, plan, partitions });
    assert.equal(text.match(/shutdown: b, within: (50|1|100)us/g)?.length, 3, text);
  });

  it("C-09: goes on in a rack that is brought up in the middle of it", async () => {
    const at = done.begun + 10;
    const { rack: again } = await resumeRun(rack.id, { at });
    await linkedTo(again, async ({ control }) => {
      await until(control, { breaks: [], time: done.offAt + 1 }, new AbortController().signal);
      const { why } = await control.status();
      assert.equal(why.find(({ partition }) => partition === "b")!.status, "dead");
      type Faults = { readonly faults: readonly { readonly at: number }[] };
      const { faults } = await control.demand<Faults>("faults", { from: 0 });
      assert.equal(faults.at(-1)!.at, done.offAt);
    });
    await takeRacksDown({ run: again.id });
  });
});
