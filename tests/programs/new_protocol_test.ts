/**
 * `rack new --protocol`: the folder works as it is for the command and for an editor, which has
 * nothing but the folder's `deno.json`; no file in it is overwritten.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { INSPECTOR_PORT } from "../../console/scenarios/new_protocol.ts";
import { CommandRig, WITH_DENO } from "../support/command.ts";

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

function textOf(file: string): Promise<string> {
  return Deno.readTextFile(`${rig.cache}/${file}`);
}

function isFile(path: string): boolean {
  return Deno.statSync(path).isFile;
}

async function protocolIn(target: string): Promise<{ written: string[]; kept: string[] }> {
  const args = ["new", "--protocol", target, "--json"];
  return JSON.parse(await rig.must(args, { cwd: rig.cache }));
}

describe("rack new --protocol", () => {
  it("writes a folder whose protocol runs, with types that an editor finds", async () => {
    const { written, kept } = await protocolIn("ring_log");
    assert.deepEqual(kept, []);
    for (const file of ["ring_log.ts", "ring_log_test.ts", "ring_log.yaml", "deno.json"]) {
      assert.ok(written.includes(file), file);
    }
    const { configurations } = JSON.parse(await textOf("ring_log/.vscode/launch.json"));
    const [launch, attach] = configurations;
    assert.ok(isFile(launch.runtimeExecutable), launch.runtimeExecutable);
    assert.deepEqual(launch.runtimeArgs, [
      "run",
      "ring_log.yaml",
      "--pack",
      "all",
      "--inspect-brk",
    ]);
    assert.deepEqual([launch.attachSimplePort, attach.port], [INSPECTOR_PORT, INSPECTOR_PORT]);
    const scenario = `${rig.cache}/ring_log/ring_log.yaml`;
    const report = JSON.parse(await rig.must(["run", scenario, "--pack", "all", "--json"]));
    assert.ok(report.checks.every(({ holds }: { holds: boolean }) => holds));

    const tested = await new Deno.Command(Deno.execPath(), {
      args: ["test", "--quiet", "--no-prompt", "--cached-only", "--allow-run=deno"],
      cwd: `${rig.cache}/ring_log`,
      env: { NO_COLOR: "1", PATH: WITH_DENO, RACKMESH_CACHE: rig.cache, RACKMESH_NO_CHECK: "1" },
    }).output();
    assert.match(new TextDecoder().decode(tested.stdout), /^ok \| 1 passed \| 0 failed/m);

    const text = await textOf("ring_log/ring_log.ts");
    const bad = text.replace("sges:", "sgse:");
    assert.notEqual(bad, text);
    await rig.file("ring_log/bad.ts", bad);
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["check", "--quiet", "ring_log.ts", "bad.ts"],
      cwd: `${rig.cache}/ring_log`,
      env: { NO_COLOR: "1" },
    }).output();
    const said = new TextDecoder().decode(stderr);
    assert.equal(success, false);
    assert.match(said, /'sgse' does not exist in type 'SendRequest'/);
    assert.doesNotMatch(said, /ring_log\.ts:/);
    await Deno.remove(`${rig.cache}/ring_log/bad.ts`);
  });

  it("leaves what is there as it is, and writes nothing beside a protocol of that name", async () => {
    await rig.shell("mkdir mine && echo '{ }' > mine/deno.json");
    const said = await rig.must(["new", "--protocol", "mine/second.ts"], { cwd: rig.cache });
    assert.match(said, /deno\.json there already, and not changed/);
    assert.match(said, /editors need in its "imports": "rackmesh": "file:.*\/nodes\/protocol\.ts"/);
    assert.equal(await textOf("mine/deno.json"), "{ }\n");

    await rig.shell("mkdir taken && echo mine > taken/taken.yaml");
    const { code, stderr } = await rig.run(["new", "--protocol", "taken"], { cwd: rig.cache });
    assert.equal(code, 64);
    assert.match(stderr, /taken\/taken\.yaml is there already: expected the name of a protocol/);
    const names = [...Deno.readDirSync(`${rig.cache}/taken`)].map(({ name }) => name);
    assert.deepEqual(names, ["taken.yaml"]);
  });

  it("names a folder's protocol after it, and refuses a file's name that is none", async () => {
    assert.ok((await protocolIn("2nd try!")).written.includes("nd_try.ts"));
    const { code, stderr } = await rig.run(["new", "--protocol", "a-b.ts"], { cwd: rig.cache });
    assert.equal(code, 64);
    assert.match(stderr, /--protocol is "a-b\.ts": expected a file such as my_protocol\.ts/);
  });
});
