/** Addresses of a native program, which it may tell its peers: of a run's folder they know nothing. */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/addresses_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-addresses-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

describe("addresses of a native program", () => {
  it("are the same in folders of all lengths", async () => {
    const file = compiled(folder, "addresses_check.c");
    const scenario = `name: addresses\nhosts: { a: { services: none } }\n` +
      `programs:\n  - { on: a, native: [${file}] }\n`;
    const seen = new Set<string>();
    for (const more of ["", "/b", "/a-longer-name", `/${"many/".repeat(50)}`]) {
      await Deno.mkdir(`${folder}${more}`, { recursive: true });
      const { rack, lines } = await runNative(`${folder}${more}`, scenario);
      assert.deepEqual(rack.reported("program-failed"), []);
      seen.add(lines.a!.join("\n"));
    }
    assert.deepEqual([...seen].length, 1, [...seen].join("\n"));
  });
});
