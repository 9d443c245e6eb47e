/** What the library answers itself within its lease changes nothing that the rack or the program could see. */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/lease_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-lease-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

describe("polls of an empty completion queue", () => {
  it("leave the caches as they are, whether the library or the host answers them", async () => {
    const file = compiled(folder, "polls_check.c", ["-libverbs"]);
    // Two ways: the queue's line stays in the cache, or is the next to leave it, by who has used it last.
    const text = `
name: polls
defaults: { llc: { size: 4KiB, ways: 2, ddioWays: 1 } }
hosts: { a: { services: none } }
programs: [{ on: a, native: [${file}] }]
`;
    const on = await runNative(folder, text);
    assert.match(on.lines.a![0]!, /^\d+ ns$/);
    for (const lease of ["clock", "off"]) {
      const less = await runNative(folder, text, { env: { RACKMESH_LEASE: lease } });
      assert.deepEqual(less.transcript, on.transcript, lease);
      assert.equal(less.rack.simulator.digest, on.rack.simulator.digest, lease);
    }
  });
});
