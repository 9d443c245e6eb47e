import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { readScenario } from "./scenario_source.ts";

describe("readScenario", () => {
  it("says of a program what is to be run in its place", async () => {
    await assert.rejects(
      readScenario("none/mine.ts"),
      /none\/mine\.ts is a program: expected a scenario .*program: \.\/mine\.ts/,
    );
  });

  it("lets paths begin in the file's folder, in another one, or for a pipe in the current one", async () => {
    const folder = await Deno.realPath(await Deno.makeTempDir());
    try {
      const text = "name: x\nhosts: { a: {} }\n", path = `${folder}/x.yaml`;
      await Deno.writeTextFile(path, text);
      const { base, text: read, scenario, yaml } = await readScenario(path);
      assert.deepEqual([base, read, scenario.name], [folder, text, "x"]);
      assert.deepEqual(yaml.locate(["hosts", "a"]), { line: 2, column: 13 });
      assert.equal((await readScenario(path, { base: "/other" })).base, "/other");
      const { success } = await new Deno.Command("mkfifo", { args: [`${folder}/pipe`] }).output();
      assert.ok(success);
      const writing = Deno.writeTextFile(`${folder}/pipe`, text);
      assert.equal((await readScenario(`${folder}/pipe`)).base, Deno.cwd());
      await writing;
    } finally {
      await Deno.remove(folder, { recursive: true });
    }
  });
});
