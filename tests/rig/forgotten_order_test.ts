/** Orders that a timekeeper has taken and not carried out when it is killed: its successor does. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

describe("A put that waits on a paused rack", () => {
  let rig: CommandRig;

  beforeEach(async () => {
    rig = await CommandRig.open();
  });

  afterEach(async () => {
    await rig.run(["down", "--all"]);
    await rig.gone();
    await rig.close();
  });

  async function rack(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await rig.run(args);
    assert.equal(code, 0, `rack ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  it("is carried out once, by the timekeeper that follows one that was killed", async () => {
    const content = crypto.getRandomValues(new Uint8Array(5000));
    const file = await rig.file("data.bin", content);
    await rack("up", PAIR, "--ddio", "off");
    await rack("pause");
    const put = rig.start(["put", "--to", "b", file, "--timeout", "60"]);
    // Until the timekeeper has it there is nothing to forget.
    await eventually("the order is there", async () => {
      return JSON.parse(await rack("ps", "--json")).clock.nextPs !== null;
    });
    await rack("kill", "timekeeper");
    await rack("start", "timekeeper");
    await rack("resume");
    const { code, stderr } = await put.ended;
    assert.equal(code, 0, stderr);
    await rack("get", "data.bin", `${rig.cache}/copy.bin`, "--from", "b");
    assert.deepEqual(await Deno.readFile(`${rig.cache}/copy.bin`), content);
  });
});
