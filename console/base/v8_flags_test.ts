import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { projectFile } from "./paths.ts";
import { v8Flags } from "./v8_flags.ts";

const LARGE = ["--min-semi-space-size=32", "--max-semi-space-size=32"];

describe("v8Flags", () => {
  it("are those of the command, which shares compiled code with its processes", async () => {
    const flags = v8Flags(...LARGE), text = await Deno.readTextFile(projectFile("scripts/rack"));
    assert.equal(text.includes(`${flags} `), true, `expected ${flags}`);
  });
});
