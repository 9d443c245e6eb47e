import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { DamagedFileError } from "../base/files.ts";
import {
  checkName,
  type Checkpoint,
  checkpointNames,
  checkpointsIn,
  deleteCheckpoint,
  newName,
  readCheckpoint,
  writeCheckpoint,
} from "./checkpoints.ts";

function checkpointOf(name: string, at: number): Checkpoint {
  const rest = { taken: "2026-01-01T00:00:00Z", events: 1, digest: null, faults: [], planned: [] };
  return { name, at, nodes: [["a", "00"]], ...rest };
}

describe("checkpoints of a run", () => {
  it("are listed by their instants, have a name each, and one that is damaged says so", async () => {
    const directory = await Deno.makeTempDir();
    try {
      assert.deepEqual(checkpointsIn(directory), []);
      assert.throws(() => readCheckpoint(directory, "x"), /"x": expected one that rack checkpoint/);
      writeCheckpoint(directory, checkpointOf("c1", 20));
      writeCheckpoint(directory, checkpointOf("before", 10));
      assert.deepEqual(checkpointsIn(directory).map(({ name }) => name), ["before", "c1"]);
      assert.equal(newName(directory), "c2");
      assert.throws(() => writeCheckpoint(directory, checkpointOf("c1", 5)), /one that is free/);
      assert.equal(readCheckpoint(directory, "c1").at, 20);
      assert.throws(() => readCheckpoint(directory, "c9"), /one of before, c1/);
      assert.throws(() => readCheckpoint(directory, "../checkpoints/c1"), Refusal);
      await Deno.writeTextFile(`${directory}/checkpoints/c1.json`, "{}");
      assert.throws(() => readCheckpoint(directory, "c1"), DamagedFileError);
      assert.deepEqual(checkpointNames(directory), ["before", "c1"]);
      for (const name of ["c9", "../checkpoints/c1"]) {
        assert.throws(() => deleteCheckpoint(directory, name), /\(?one of before, c1\)?/);
      }
      deleteCheckpoint(directory, "c1");
      assert.deepEqual(checkpointNames(directory), ["before"]);
      await Deno.mkdir(`${directory}/runs/ddio_on`, { recursive: true });
      await Deno.writeTextFile(`${directory}/runs/ddio_on/run.json`, "{}");
      writeCheckpoint(`${directory}/runs/ddio_on`, checkpointOf("c1", 5));
      assert.deepEqual(checkpointNames(`${directory}/runs`), ["ddio_on/c1"]);
    } finally {
      await Deno.remove(directory, { recursive: true });
    }
  });

  it("have names that are no path and no time", () => {
    assert.equal(checkName("before_kill-2"), "before_kill-2");
    for (const name of ["", "../x", "a/b", "2ms", "a b", "x".repeat(41)]) {
      assert.throws(() => checkName(name), Refusal, name);
    }
  });
});
