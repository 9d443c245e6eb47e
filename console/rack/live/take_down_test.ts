/** What is told of a rack of another machine that is let go of without an answer. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { isThere } from "../../base/files.ts";
import { runsDirectory } from "../../base/paths.ts";
import { recordingsIn } from "../../captures/capture_files.ts";
import { readUncollected, writeSupervisor } from "../run_directory.ts";
import { takeRacksDown } from "./take_down.ts";

const CACHE = "RACKMESH_CACHE";

describe("an attached rack that is taken down and cannot be asked", () => {
  const run = "pair-1";
  let before: string | undefined, path: string;

  beforeEach(async () => {
    before = Deno.env.get(CACHE);
    Deno.env.set(CACHE, await Deno.makeTempDir());
    path = `${runsDirectory()}/${run}`;
    await Deno.mkdir(path, { recursive: true });
    writeSupervisor(path, { run, pid: null, url: "nats://127.0.0.1:1", viewer: {} });
    await Deno.writeTextFile(`${path}/run.json`, "{");
  });

  afterEach(async () => {
    await Deno.remove(Deno.env.get(CACHE)!, { recursive: true });
    if (before === undefined) Deno.env.delete(CACHE);
    else Deno.env.set(CACHE, before);
  });

  it("is let go of, with why its record is not whole", async () => {
    const [ended] = await takeRacksDown({ run });
    assert.equal(ended!.detached, true);
    assert.match(ended!.problem!, /^not kept as a whole: .*run\.json/);
    assert.equal(isThere(`${path}/supervisor.json`), false);
    assert.match(readUncollected(path)!, /run\.json/);
  });

  it("tells of that and of captures that could not be written", async () => {
    await Deno.mkdir(recordingsIn(path));
    const [ended] = await takeRacksDown({ run });
    assert.match(ended!.problem!, /^not kept as a whole: .*; without captures: .*run\.json/s);
  });
});
