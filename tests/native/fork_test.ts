/** Processes of native programs that fork (`nodes/host/native/lib/processes.c`, `family.ts`). */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { compiled, nativeMissing, type NativeRun, runNative } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/fork_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-fork-" });
afterAll(() => Deno.remove(folder, { recursive: true }));

/** With leases and without them: the same lines at the same instants, and the same digest. */
async function runTwice(...programs: readonly string[]): Promise<NativeRun> {
  const file = compiled(folder, "fork_check.c", ["-libverbs", "-lpthread"]);
  const text = [
    "name: fork",
    "hosts: { a: { services: none }, b: { services: none } }",
    "programs:",
    ...programs.map((program) => `  - { ${program.replace("FILE", file)} }`),
  ].join("\n");
  const first = await runNative(folder, text);
  const off = await runNative(folder, text, { env: { RACKMESH_LEASE: "off" } });
  assert.deepEqual(off.transcript, first.transcript);
  assert.equal(off.rack.simulator.digest, first.rack.simulator.digest);
  return first;
}

describe("a native program that forks", () => {
  it("shares memory, pipes and output with its children, and waits for them in virtual time", async () => {
    const { rack, lines } = await runTwice("on: a, native: [FILE]");
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.a, [
      "55 us: parent 4002",
      "55 us: child 20001 of 4002",
      "1056 us: semaphore",
      "3056 us: condition, flag 1",
      "3067 us: barrier",
      "4267 us: rwlock, flag 2",
      "4267 us: child's code 3",
      "4567 us: spun",
      "4569 us: signal 15",
      "rackmesh: kill: signal 15 to process 1 is refused: expected one to a child, which ends it",
      "4670 us: program's code 5",
      "5170 us: semaphore of a segment",
      "5470 us: read",
      "5770 us: end of the pipe",
      "6272 us: ends of three children",
    ]);
  });

  it("serves each connection in a child, which has the socket when its parent has closed it", async () => {
    const { rack, lines } = await runTwice(
      "on: b, native: [FILE, server]",
      "on: a, native: [FILE, client, b], at: 1ms",
    );
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.b?.map((line) => line.replace(/\d+ us/, "at")), [
      "at: call 0",
      "at: code 0",
      "at: call 1",
      "at: code 1",
      "at: call 2",
      "at: code 2",
    ]);
    assert.equal(lines.a?.length, 3);
    assert.deepEqual(rack.simulator.unfinished().filter(({ value }) => !value.serves), []);
  });

  it("takes its children with it at a power failure", async () => {
    const file = compiled(folder, "fork_check.c", ["-libverbs", "-lpthread"]);
    const { rack, lines } = await runNative(
      folder,
      [
        "name: fork",
        "hosts: { a: { services: none } }",
        `programs: [{ on: a, native: [${file}], restart: true }]`,
        "faults: [{ kill: a, at: 1500us }, { start: a, at: 9ms }]",
      ].join("\n"),
    );
    assert.deepEqual(rack.reported("program-failed"), []);
    assert.deepEqual(lines.a?.slice(2, 4).map((line) => line.replace(/^\d+ /, "")), [
      "us: semaphore",
      "us: parent 4002",
    ]);
    assert.match(lines.a?.at(-1) ?? "", /ends of three children/);
  });
});
