/** A command that hangs fails its test with all that can be told of it, and is gone. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig } from "./command.ts";
import { eventually } from "./eventually.ts";

describe("a command that does not end", () => {
  let rig: CommandRig;
  beforeAll(async () => void (rig = await CommandRig.open()));
  afterAll(() => rig.close());

  it("is ended after its time, and named with what it has said and the processes of its runs", async () => {
    const path = `${rig.cache}/runs/one/run.json`;
    const held = new Deno.Command("tail", { args: ["-F", path], stderr: "null" }).spawn();
    const hanging = rig.shell("echo it waits >&2; exec sleep 1000", { withinMs: 500 });
    await assert.rejects(hanging, (error) => {
      assert.ok(error instanceof Error);
      const { message } = error;
      assert.match(
        message,
        /^echo it waits .* has not ended within 500 ms\. On stderr .*:\nit waits\n/,
      );
      assert.match(
        message,
        new RegExp(`\\n[RS], [\\d.]+ s of .*: ${held.pid}: \\S*tail .*run\\.json`),
      );
      return true;
    });
    held.kill("SIGKILL");
    await eventually("its process is gone", () => rig.processes().length === 0);
  });
});
