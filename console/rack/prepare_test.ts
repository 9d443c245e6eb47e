import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { keepInputs } from "./prepare.ts";

describe("keepInputs", () => {
  it("copies each file once, and leaves what is beyond the limit where it is", async () => {
    const directory = await Deno.makeTempDir();
    try {
      const [small, large] = [`${directory}/small file`, `${directory}/large`];
      await Deno.writeTextFile(small, "small", { mode: 0o644 });
      await Deno.writeTextFile(large, "x".repeat(100));
      const variant = { inputs: { a: { "small file": small, large }, c: { other: small } } };
      const [first, second] = await keepInputs([variant, variant], directory, { most: 50 });
      await Deno.remove(small);
      const copy = first!.inputs.a["small file"];
      assert.equal(await Deno.readTextFile(copy), "small");
      assert.equal((await Deno.stat(copy)).mode! & 0o777, 0o600);
      assert.deepEqual(first, { inputs: { a: { "small file": copy, large }, c: { other: copy } } });
      assert.deepEqual(second, first);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  });
});
