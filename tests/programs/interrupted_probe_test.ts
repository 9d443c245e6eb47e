/** An interrupt while a program of one's own is tried: the command ends, and so does the process that tries it. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, it } from "@std/testing/bdd";
import { ifThere } from "../../console/base/files.ts";
import { statOf } from "../../console/base/process_stat.ts";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

let rig: CommandRig, scenario: string;

beforeAll(async () => {
  rig = await CommandRig.open();
  await rig.file("endless.js", "for (;;);\nexport default function* () {}\n");
  const text = "name: own\nhosts: { a: {} }\nprograms: [{ on: a, program: ./endless.js }]\n";
  scenario = await rig.file("own.yaml", text);
});

afterAll(() => rig.close());

/** The process in which a command tries a program. */
function probeOf(command: number): number | undefined {
  const all = [...Deno.readDirSync("/proc")].map(({ name }) => Number(name));
  return all.find((pid) =>
    Number(statOf(pid)?.[1]) === command &&
    ifThere(() => Deno.readTextFileSync(`/proc/${pid}/cmdline`))?.includes("probe_main.ts")
  );
}

const COMMANDS: Readonly<Record<string, readonly string[]>> = {
  run: ["--pack", "all"],
  up: [],
  trace: [],
  validate: [],
  explore: [],
  chaos: ["--rounds", "1"],
  sweep: ["--vary", "seed=1,2"],
  compose: ["--out", "made"],
};

for (const [command, more] of Object.entries(COMMANDS)) {
  it(`rack ${command} leaves no process behind that tries a program`, async () => {
    const running = rig.start([command, scenario, ...more], { cwd: rig.cache });
    let probe: number | undefined;
    await eventually("a program is tried", () => (probe = probeOf(running.pid)) !== undefined);
    // A terminal would interrupt both; here only the command hears it.
    Deno.kill(running.pid, "SIGINT");
    const { code, stderr } = await running.ended;
    assert.equal(code, 130, stderr);
    assert.doesNotMatch(stderr, /\n\s+at /);
    assert.equal(statOf(probe!), undefined);
  });
}
