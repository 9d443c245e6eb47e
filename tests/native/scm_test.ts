/** Persistent memory of native programs (`nodes/host/native/lib/scm.c`): what a power failure leaves of it. */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/scm_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-scm-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

async function linesOf(host: string, env: Readonly<Record<string, string>> = {}) {
  const file = compiled(folder, "scm_check.c", ["-ldl"]);
  const regions = "log: { at: 64KiB, size: 1MiB }, other: { at: 8MiB, size: 4KiB }";
  return await runNative(
    folder,
    [
      "name: scm",
      `hosts: { a: { services: none, ${host} scm: { size: 16MiB, regions: { ${regions} } } } }`,
      `programs: [{ on: a, native: [${file}], restart: true }]`,
      "faults: [{ kill: a, at: 2ms }, { start: a, at: 3ms }]",
    ].join("\n"),
    { env },
  );
}

const FIRST = `1048576 B, 4096 B:${" []".repeat(12)}`;
const said = [
  "rackmesh: a part of a mapping below /scm is unmapped: expected all of it",
  "several mappings",
];
const left = (words: readonly string[], other: string) => {
  const all = Array.from({ length: 8 }, (_, i) => ` [${words[i] ?? ""}]`);
  return `1048576 B, 4096 B:${all.join("")} [${other}] [by a child] [by one] [written]`;
};

describe("persistent memory of native programs", () => {
  it("keeps at a power failure what was drained, and no more", async () => {
    const { lines, rack } = await linesOf("");
    const after = left(["persisted", "copied", "streamed"], "msynced");
    assert.deepEqual(lines.a, [FIRST, ...said, "processor", after, ...said, "processor"]);
    assert.deepEqual(rack.reported("program-failed"), []);
  });

  it("keeps all that was stored where the caches survive", async () => {
    const { lines } = await linesOf("domain: eadr,");
    const stored = ["persisted", "copied", "streamed", "flushed", "stored", "processor"];
    assert.deepEqual(lines.a, [
      FIRST,
      ...said,
      "processor",
      left(stored, "msynced"),
      ...said,
      "processor",
    ]);
  });

  it("is the same without a lease", async () => {
    const [with_, without] = [await linesOf(""), await linesOf("", { RACKMESH_LEASE: "off" })];
    assert.deepEqual(without.transcript, with_.transcript);
    assert.equal(without.rack.simulator.digest, with_.rack.simulator.digest);
  });
});
