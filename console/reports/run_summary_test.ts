import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { variantFolder } from "./run_summary.ts";

describe("variantFolder", () => {
  it("finds a variant by name or number, the first without either, and refuses others", async () => {
    const path = await Deno.makeTempDir();
    try {
      for (const name of ["b", "a"]) {
        await Deno.mkdir(`${path}/${name}`);
        await Deno.writeTextFile(`${path}/${name}/run.json`, "{}");
      }
      const run = { id: "r", path };
      const found = [undefined, "", "b", "2"].map((wanted) => variantFolder(run, wanted));
      assert.deepEqual(found, ["a", "a", "b", "b"].map((name) => `${path}/${name}`));
      for (const wanted of ["c", "0", "3", "../x"]) {
        assert.throws(() => variantFolder(run, wanted), /a number from 1 to 2/, wanted);
      }
      assert.equal(variantFolder({ id: "a", path: `${path}/a` }), `${path}/a`);
      assert.throws(() => variantFolder({ id: "a", path: `${path}/a` }, "1"), /has one only/);
    } finally {
      await Deno.remove(path, { recursive: true });
    }
  });
});
