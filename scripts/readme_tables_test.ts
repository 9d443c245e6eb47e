/** Tables in pages are those of the rows that the program reads. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../console/base/paths.ts";

describe("deno task tables", () => {
  it("has nothing to write", async () => {
    const { stdout, success } = await new Deno.Command(Deno.execPath(), {
      args: [
        "run",
        "-A",
        "--quiet",
        fromFileUrl(projectFile("scripts/readme_tables.ts")),
        "--check",
      ],
    }).output();
    assert.ok(success);
    assert.equal(new TextDecoder().decode(stdout), "", "deno task tables writes them anew");
  });
});
