/**
 * Records of native programs (`nodes/host/native/record_format.ts`): a replay of a recorded run comes to
 * the same without the binary, or says where the program would have gone another way.
 */
import { replayErrorOf } from "../../nodes/host/testing/native_port_contract.ts";
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { RECORDED_FOLDER } from "../../nodes/native_records.ts";
import { executableInPath } from "../../console/base/executables.ts";
import {
  compiled,
  nativeMissing,
  type NativeRun,
  replayNative,
  runNative,
} from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(
  missing ?? (executableInPath("rping") ? undefined : "there is no rping"),
  "tests/native/record_test.ts",
);
const folder = await Deno.makeTempDir({ prefix: "rackmesh-record-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

const PINGPONG = `
name: pingpong
hosts: { a: {}, b: {} }
programs:
  - { on: b, native: [/usr/bin/ibv_rc_pingpong, -g, "0", -c, -n, "40"] }
  - { on: a, native: [/usr/bin/ibv_rc_pingpong, -g, "0", -c, -n, "40", b], at: 1ms }
`;
const RPING = `
name: rping
hosts: { a: {}, b: {} }
programs:
  - { on: b, native: [/usr/bin/rping, -s, -v, -V, -C, "5"] }
  - { on: a, native: [/usr/bin/rping, -c, -v, -V, -a, b, -C, "5"], at: 1ms }
`;

async function recorded(
  scenario: string,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly run: NativeRun; readonly record: string }> {
  const record = await Deno.makeTempDir({ dir: folder, prefix: "record-" });
  return { run: await runNative(folder, scenario, { env, record }), record };
}

function assertSame(replayed: NativeRun, run: NativeRun): void {
  assert.deepEqual(replayed.transcript, run.transcript);
  const { digest, events } = run.rack.simulator;
  assert.deepEqual(
    [replayed.rack.simulator.digest, replayed.rack.simulator.events],
    [digest, events],
  );
}

function scmScenario(): string {
  const file = compiled(folder, "scm_check.c", ["-ldl"]);
  const regions = "log: { at: 64KiB, size: 1MiB }, other: { at: 8MiB, size: 4KiB }";
  return [
    "name: scm",
    `hosts: { a: { services: none, scm: { size: 16MiB, regions: { ${regions} } } } }`,
    `programs: [{ on: a, native: [${file}], restart: true }]`,
    "faults: [{ kill: a, at: 2ms }, { start: a, at: 3ms }]",
  ].join("\n");
}

describe("a record of native programs", () => {
  for (const [name, scenario] of Object.entries({ PINGPONG, RPING })) {
    it(`${name}: comes to the same digest, events, output and end`, async () => {
      const { run, record } = await recorded(scenario);
      assert.ok(run.transcript.filter((line) => line.includes("native-ended")).length === 2);
      assertSame(replayNative(record, scenario), run);
    });

    it(`${name}: comes to the same whatever lease it was recorded with`, async () => {
      const { run } = await recorded(scenario);
      const { record } = await recorded(scenario, { RACKMESH_LEASE: "off" });
      assertSame(replayNative(record, scenario), run);
    });
  }

  it("has each life of a host whose power fails, with what was persistent in between", async () => {
    const scenario = scmScenario();
    const { run, record } = await recorded(scenario);
    assert.equal(run.lines.a!.length, 8);
    assert.deepEqual(
      [...Deno.readDirSync(`${record}/${RECORDED_FOLDER}`)].map(({ name }) => name).sort(),
      ["a", "a.1"],
    );
    assertSame(replayNative(record, scenario), run);
  });

  it("has each child of a program, and of its children, also where the host's power fails", async () => {
    const file = compiled(folder, "fork_check.c", ["-libverbs", "-lpthread"]);
    const scenario = [
      "name: fork",
      "hosts: { a: { services: none }, b: { services: none } }",
      "programs:",
      `  - { on: b, native: [${file}, server] }`,
      `  - { on: a, native: [${file}, client, b], at: 1ms }`,
      `  - { on: a, native: [${file}], restart: true, at: 2ms }`,
      "faults: [{ kill: a, at: 4500us }, { start: a, at: 9ms }]",
    ].join("\n");
    const { run, record } = await recorded(scenario);
    const names = (host: string) =>
      [...Deno.readDirSync(`${record}/${RECORDED_FOLDER}/${host}`)].map(({ name }) => name);
    assert.ok(names("b").some((name) => /~\d+$/.test(name)), `${names("b")}`);
    assert.ok(names("a.1").some((name) => /~\d+$/.test(name)), `${names("a.1")}`);
    assertSame(replayNative(record, scenario), run);
  });

  it("says in one sentence where the program would have gone another way", async () => {
    const { record } = await recorded(PINGPONG);
    const change = (plan: RackPlan) => ({
      ...plan,
      cables: plan.cables.map((cable) => ({ ...cable, latencyPs: 2 * cable.latencyPs })),
    });
    assert.match(
      replayErrorOf(() => replayNative(record, PINGPONG, { change })),
      /^Native program \/usr\/bin\/ibv_rc_pingpong#1 on [ab] would have gone another way at the reply at \S+ \S+ to request \d+ of thread 0 \(\w+\): recorded is .*, found .*\. It needs to be run again\.$/,
    );
  });

  it("is of a command: another one is another program", async () => {
    const { record } = await recorded(PINGPONG);
    const other = PINGPONG.replace('"40"]', '"41"]');
    assert.equal(
      replayErrorOf(() => replayNative(record, other)),
      "Native program /usr/bin/ibv_rc_pingpong#1 on b would have gone another way at its start: " +
        'recorded is "/usr/bin/ibv_rc_pingpong -g 0 -c -n 40", ' +
        'found "/usr/bin/ibv_rc_pingpong -g 0 -c -n 41". It needs to be run again.',
    );
  });

  it("that is not there is told by program, host and life", async () => {
    const { record } = await recorded(PINGPONG);
    Deno.removeSync(`${record}/${RECORDED_FOLDER}/b`, { recursive: true });
    assert.equal(
      replayErrorOf(() => replayNative(record, PINGPONG)),
      "There is no record of native program /usr/bin/ibv_rc_pingpong#1 on b in life 0 of its host. " +
        "It needs to be run again.",
    );
  });
});
