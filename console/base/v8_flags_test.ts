import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { projectFile } from "./paths.ts";
import { v8Flags } from "./v8_flags.ts";

const LARGE = ["--min-semi-space-size=32", "--max-semi-space-size=32"];

describe("v8Flags", () => {
  it("are those of the command and of the tasks, which share compiled code with its processes", async () => {
    for (const [file, flags] of [["scripts/rack", v8Flags(...LARGE)], ["deno.json", v8Flags()]]) {
      const text = await Deno.readTextFile(projectFile(file!));
      assert.equal(text.includes(`${flags} `), true, `${file}: expected ${flags}`);
    }
  });
});
