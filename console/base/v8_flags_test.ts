import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { projectFile } from "./paths.ts";
import { LARGE_HEAP, v8Flags } from "./v8_flags.ts";

describe("v8Flags", () => {
  it("are those of the command, which shares compiled code with its processes", async () => {
    const flags = v8Flags(...LARGE_HEAP);
    const text = await Deno.readTextFile(projectFile("scripts/rack"));
    assert.equal(text.includes(`${flags} `), true, `expected ${flags}`);
  });
});
