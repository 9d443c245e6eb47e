import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { runScenario } from "./run_scenario.ts";
import { readScenario } from "../scenarios/scenario_source.ts";

const SCENARIO = `name: brief
hosts: { a: {}, b: {} }
programs: [{ on: a, run: put, to: b, method: persist-opcode, bytes: 4096 }]
`;

describe("runScenario", () => {
  let folder: string;
  let scenario: string;
  let cache: string | undefined;

  beforeEach(async () => {
    folder = await Deno.makeTempDir({ prefix: "rackmesh-run-scenario-" });
    scenario = `${folder}/brief.yaml`;
    await Deno.writeTextFile(scenario, SCENARIO);
    cache = Deno.env.get("RACKMESH_CACHE");
    Deno.env.set("RACKMESH_CACHE", folder);
  });

  afterEach(async () => {
    if (cache === undefined) Deno.env.delete("RACKMESH_CACHE");
    else Deno.env.set("RACKMESH_CACHE", cache);
    await Deno.remove(folder, { recursive: true });
  });

  it("answers its report, and says before that which run it is", async () => {
    const told: string[] = [];
    const report = await runScenario(await readScenario(scenario), {
      prepare: { packing: "all" },
      onStart: ({ id }) => told.push(id),
    });
    assert.deepEqual(told, [report.run]);
    assert.deepEqual(report.methods.map(({ method, intact }) => [method, intact]), [
      ["persist-opcode", true],
    ]);
    assert.ok(report.checks.every(({ holds }) => holds));
    const kept = JSON.parse(await Deno.readTextFile(`${report.directory}/report.json`));
    assert.equal(kept.digest, report.digest);
  });

  it("keeps the scenario as it was read, whatever becomes of its file meanwhile", async () => {
    const { directory } = await runScenario(await readScenario(scenario), {
      prepare: { packing: "all" },
      onStart: () => Deno.writeTextFileSync(scenario, "name: other\nhosts: { a: {} }\n"),
    });
    assert.match(await Deno.readTextFile(`${directory}/scenario.yaml`), /^name: brief$/m);
  });

  it("rejects with what its signal says, and leaves no report", async () => {
    const ending = new AbortController();
    const reason = new Error("enough");
    let run = "";
    const running = runScenario(await readScenario(scenario), {
      prepare: { packing: "all" },
      signal: ending.signal,
      onStart: ({ id }) => {
        run = id;
        ending.abort(reason);
      },
    });
    await assert.rejects(running, reason);
    await assert.rejects(Deno.stat(`${folder}/runs/${run}/report.json`), Deno.errors.NotFound);
  });

  it("refuses a record of faults of another rack before anything is made", async () => {
    const faultsFile = `${folder}/faults.jsonl`;
    await Deno.writeTextFile(faultsFile, '{"at":1,"action":"kill","nodes":["zz"]}\n');
    await assert.rejects(
      runScenario(await readScenario(scenario), { prepare: { packing: "all" }, faultsFile }),
      (error) => {
        assert.ok(error instanceof Refusal);
        const [{ file, found, expected }] = error.problems as [typeof error.problems[number]];
        assert.deepEqual([file, found], [faultsFile, "zz"]);
        assert.match(expected, /^a node of this rack \(a, .*tor\)$/);
        return true;
      },
    );
    await assert.rejects(Deno.stat(`${folder}/runs`), Deno.errors.NotFound);
  });
});
