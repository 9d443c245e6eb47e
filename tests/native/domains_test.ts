/** Open devices, imports, parent domains and thread domains of a native program (`nodes/host/native/lib/verbs.c`). */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/domains_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-domains-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

describe("open devices and domains of native programs", () => {
  it("have their own events, are imported by a descriptor, and end in the order of libibverbs", async () => {
    const file = compiled(folder, "domains_check.c", ["-libverbs"]);
    const scenario = `name: domains\nhosts: { a: { services: none } }\n` +
      `programs:\n  - { on: a, native: [${file}] }\n`;
    const { rack, lines } = await runNative(folder, scenario);
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.a, ["events: done", "imports: done", "parents: done"]);
  });
});
