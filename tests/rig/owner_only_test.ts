/** What a run leaves, its SCM above all, is readable by its owner only, whatever the umask is. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { CommandRig } from "../support/command.ts";

const SCENARIO = "name: pair\nprofile: clx-optane-cx5\nhosts: { a: {}, b: { ddio: off } }\n" +
  "programs: [{ on: a, run: put, to: b, method: persist-opcode, bytes: 4KiB }]\n" +
  "faults: [{ at: 30us, kill: b }, { at: 40us, start: b }]\n";

describe("the files of a run", () => {
  let rig: CommandRig;
  let umask: number;

  beforeEach(async () => {
    rig = await CommandRig.open();
    umask = Deno.umask(0);
  });

  afterEach(async () => {
    Deno.umask(umask);
    await rig.close();
  });

  for (const pack of ["node", "all"]) {
    it(`are their owner's alone, with --pack ${pack}`, async () => {
      const scenario = await rig.file("pair.yaml", SCENARIO);
      await rig.run(["run", scenario, "--pack", pack, "--trace"]);
      assertOwnersOnly(rig.runs(), ["b.scm", "b.scm.log", "run.json", "report.json"]);
    });
  }

  it("are their owner's alone while the rack is up, and when it is down", async () => {
    const scenario = await rig.file("pair.yaml", SCENARIO);
    assert.equal((await rig.run(["up", scenario, "--trace"])).code, 0);
    assertOwnersOnly(rig.runs(), ["b.scm", "supervisor.json", "processes.json", "supervisor.log"]);
    assert.equal((await rig.run(["down"])).code, 0);
    assertOwnersOnly(rig.runs(), ["b.scm", "faults.jsonl"]);
  });
});

function assertOwnersOnly(runs: readonly string[], known: readonly string[]): void {
  assert.equal(runs.length, 1);
  const open: string[] = [], names = new Set<string>();
  for (const path of everythingIn(runs[0]!)) {
    names.add(path.replace(/.*\//, ""));
    const mode = Deno.statSync(path).mode! & 0o777;
    if ((mode & 0o077) !== 0) open.push(`${path} ${mode.toString(8)}`);
  }
  assert.deepEqual(open, []);
  for (const name of known) assert.ok(names.has(name), `${name} is there`);
}

function* everythingIn(path: string): Generator<string> {
  yield path;
  for (const { name, isDirectory } of Deno.readDirSync(path)) {
    if (isDirectory) yield* everythingIn(`${path}/${name}`);
    else yield `${path}/${name}`;
  }
}
