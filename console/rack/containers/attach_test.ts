/** A rack in containers in the list of runs, from a volume that has its record. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import type { RunFile } from "../../../fabric/rack/assembly/run_file.ts";
import { takeRacksDown } from "../live/take_down.ts";
import { logLines } from "../kept_runs.ts";
import { recordedIn } from "../fault_lines.ts";
import { traceOfRun } from "../trace_operation.ts";
import { findUp, isInContainers, stateOf } from "../live/racks.ts";
import { listRuns, pruneRuns } from "../run_directory.ts";
import { attachRack } from "./attach.ts";

describe("attachRack", () => {
  const before = Deno.env.get("RACKMESH_CACHE");
  let folder: string;

  beforeEach(async () => {
    folder = await Deno.makeTempDir();
    Deno.env.set("RACKMESH_CACHE", `${folder}/cache`);
    await Deno.mkdir(`${folder}/record`);
  });

  afterEach(async () => {
    if (before === undefined) Deno.env.delete("RACKMESH_CACHE");
    else Deno.env.set("RACKMESH_CACHE", before);
    await Deno.remove(folder, { recursive: true });
  });

  const attach = (more: Partial<RunFile> = {}) =>
    attachRack({
      runFile: {
        run: "pair-1",
        plan: { scenario: "pair", nodes: [] },
        partitions: [{ name: "b", nodes: ["b"] }],
        directory: "/var/lib/rackmesh",
        ...more,
      } as unknown as RunFile,
      address: { url: "nats://nats:4222", user: "_supervisor", password: "p1" },
      viewer: { user: "_viewer", password: "p2" },
      record: `${folder}/record`,
      states: `${folder}/states`,
      brokerLog: `${folder}/nats-server.log`,
    });

  it("is one row, up, however often the console starts", async () => {
    await attach();
    assert.equal(await attach(), "pair-1");
    const rows = await listRuns();
    assert.deepEqual(rows.map(({ id, up, processes }) => ({ id, up, processes })), [
      { id: "pair-1", up: true, processes: 0 },
    ]);
    assert.deepEqual(await pruneRuns({ runs: 0, bytes: 0 }), []);
    const rack = await findUp("pair-1");
    assert.ok(isInContainers(rack));
    assert.equal(rack.supervisor.viewer.password, "p2");
    assert.equal(await Deno.realPath(rack.directory), rack.directory);
    assert.equal(stateOf(rack, "b"), `${rack.directory}/states/b`);
  });

  it("shows what the timekeeper writes down later", async () => {
    await attach();
    const { directory } = await findUp("pair-1");
    assert.deepEqual(recordedIn(directory).faults, []);
    const fault = { at: 5, action: "kill", partition: "b", nodes: ["b"] };
    await Deno.writeTextFile(`${folder}/record/faults.jsonl`, `${JSON.stringify(fault)}\n`);
    assert.deepEqual(recordedIn(directory).faults, [{ at: 5, action: "kill", node: "b" }]);
  });

  it("has the steps of what is run with --trace, as soon as there are some", async () => {
    await attach({ trace: true });
    await assert.rejects(traceOfRun("pair-1", {}), /pair-1 has no trace/);
    await Deno.mkdir(`${folder}/states/b/trace`, { recursive: true });
    const step = { time: 7, node: "b", step: "S907" };
    await Deno.writeTextFile(`${folder}/states/b/trace/b.ndjson`, `${JSON.stringify(step)}\n`);
    assert.deepEqual((await traceOfRun("pair-1", {})).lines, [step]);
  });

  it("says whose the log of a device is", async () => {
    await attach();
    await Deno.writeTextFile(`${folder}/nats-server.log`, "ready\n");
    await assert.rejects(
      logLines({ run: "pair-1", node: "b" }).next(),
      /The log of b is its container's: expected docker-compose logs b/,
    );
    const { value } = await logLines({ run: "pair-1" }).next();
    assert.deepEqual(value, { log: "nats", line: "ready", alone: true });
  });

  it("is not taken down from here: its containers are Docker's", async () => {
    await attach();
    await assert.rejects(
      takeRacksDown({ run: "pair-1" }),
      /pair-1 is in containers, which only Docker ends: expected docker-compose down -v/,
    );
  });
});
