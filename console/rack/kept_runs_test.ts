import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { runsDirectory } from "../base/paths.ts";
import { logLines } from "./kept_runs.ts";

describe("logs of a run", () => {
  it("whose file of the supervisor is damaged are those that are here", async () => {
    const before = Deno.env.get("RACKMESH_CACHE");
    const cache = await Deno.makeTempDir();
    Deno.env.set("RACKMESH_CACHE", cache);
    try {
      const logs = `${runsDirectory()}/pair-1/logs`;
      await Deno.mkdir(logs, { recursive: true });
      await Deno.writeTextFile(`${logs}/b.log`, "one\n");
      await Deno.writeTextFile(`${runsDirectory()}/pair-1/supervisor.json`, "{");
      const lines = await Array.fromAsync(logLines({ run: "pair-1" }));
      assert.deepEqual(lines, [{ log: "b", line: "one", alone: true }]);
    } finally {
      await Deno.remove(cache, { recursive: true });
      if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
      else Deno.env.set("RACKMESH_CACHE", before);
    }
  });
});
