/** Which runs stay when new ones begin. */
import assert from "node:assert/strict";
import { afterEach, beforeEach, describe, it } from "@std/testing/bdd";
import {
  createRunDirectory,
  listRuns,
  markRun,
  pruneRuns,
  removeRun,
  writeSupervisor,
} from "./run_directory.ts";
import { runsDirectory } from "../base/paths.ts";

const VARIABLES = ["RACKMESH_CACHE", "RACKMESH_RUNS_MAX", "RACKMESH_RUNS_BYTES_MAX"] as const;
const before = new Map<string, string | undefined>();

beforeEach(async () => {
  for (const name of VARIABLES) before.set(name, Deno.env.get(name));
  Deno.env.set("RACKMESH_CACHE", await Deno.makeTempDir({ prefix: "rackmesh-runs-" }));
  Deno.env.set("RACKMESH_RUNS_MAX", "none");
});

afterEach(async () => {
  await Deno.remove(Deno.env.get("RACKMESH_CACHE")!, { recursive: true });
  for (const [name, value] of before) {
    if (value === undefined) Deno.env.delete(name);
    else Deno.env.set(name, value);
  }
});

/** A run whose command has ended, with a file of so many bytes. */
async function ended(bytes = 10): Promise<string> {
  const { id, path } = await createRunDirectory("x");
  await Deno.writeTextFile(`${path}/owner.json`, JSON.stringify({ pid: 1, startTicks: null }));
  await Deno.writeFile(`${path}/data`, new Uint8Array(bytes));
  await later();
  return id;
}

/** The kernel's stamps of files tell milliseconds apart at best. */
async function later(): Promise<void> {
  await new Promise((resolve) => setTimeout(resolve, 12));
}

async function rowOf(id: string) {
  return (await listRuns()).find((row) => row.id === id)!;
}

async function ids(): Promise<string[]> {
  return (await listRuns()).map(({ id }) => id).reverse();
}

describe("createRunDirectory", () => {
  it("removes the oldest runs beyond the limits, and says which", async () => {
    const [a, b, c, d] = [await ended(), await ended(), await ended(), await ended()];
    Deno.env.set("RACKMESH_RUNS_MAX", "3");
    const { id, removed } = await createRunDirectory("x");
    assert.deepEqual(removed.map((row) => row.id), [a, b]);
    assert.deepEqual(await ids(), [c, d, id]);
  });

  it("removes those that are beyond the size", async () => {
    const [a, b, c] = [await ended(200_000), await ended(200_000), await ended(10)];
    Deno.env.set("RACKMESH_RUNS_BYTES_MAX", "300KiB");
    await createRunDirectory("x");
    assert.deepEqual((await ids()).slice(0, -1), [b, c]);
    assert.ok(a !== b);
  });

  it("never removes one whose command runs, one that is kept, and the latest one that has ended", async () => {
    const kept = await ended(), other = await ended();
    const { id: running } = await createRunDirectory("x");
    await later();
    const latest = await ended();
    await markRun(await rowOf(kept), "");
    Deno.env.set("RACKMESH_RUNS_MAX", "0");
    const { id } = await createRunDirectory("x");
    assert.deepEqual(await ids(), [kept, running, latest, id]);
    await markRun(await rowOf(kept), undefined);
    assert.deepEqual((await pruneRuns({ runs: 0, bytes: 0 })).map((row) => row.id), [kept]);
    assert.ok(other !== kept);
  });

  it("never removes one that is up", async () => {
    const up = await ended();
    const { path } = await rowOf(up);
    // A process counts as its supervisor where its command line names the run.
    const supervisor = new Deno.Command("bash", {
      args: ["-c", "read -r", "supervisor", `${path}/run.json`],
      stdin: "piped",
    }).spawn();
    try {
      writeSupervisor(path, {
        run: up,
        pid: supervisor.pid,
        url: "nats://127.0.0.1:1",
        viewer: {},
      });
      await ended();
      assert.equal((await rowOf(up)).up, true);
      assert.deepEqual(await pruneRuns({ runs: 0, bytes: 0 }), []);
      assert.equal((await ids())[0], up);
    } finally {
      await supervisor.stdin.close();
      await supervisor.status;
    }
    assert.deepEqual((await pruneRuns({ runs: 0, bytes: 0 })).map(({ id }) => id), [up]);
  });

  it("leaves a run alone that another command makes just now", async () => {
    const write = Deno.writeTextFile;
    let pruned = 0;
    // The other command prunes between the steps of this one, and sees a later run that has ended.
    Deno.writeTextFile = async (...args) => {
      await later();
      await Deno.mkdir(`${runsDirectory()}/later-${pruned}`, { recursive: true });
      pruned += (await pruneRuns({ runs: 0, bytes: 0 })).length + 1;
      return await write(...args);
    };
    try {
      const { id } = await createRunDirectory("x");
      assert.ok(pruned > 0);
      assert.ok((await ids()).includes(id));
      assert.equal((await rowOf(id)).running, true);
    } finally {
      Deno.writeTextFile = write;
    }
  });

  it("is no run before it has an owner, and none while it is removed", async () => {
    const id = await ended();
    const row = await rowOf(id);
    await Deno.mkdir(`${runsDirectory()}/.half`);
    assert.deepEqual(await ids(), [id]);
    const both = await Promise.all([removeRun(row), removeRun(row)]);
    assert.deepEqual(both.sort(), [false, true]);
    assert.deepEqual(await ids(), []);
  });

  it("refuses limits that are none before it makes anything", async () => {
    Deno.env.set("RACKMESH_RUNS_MAX", "many");
    await assert.rejects(createRunDirectory("x"), /RACKMESH_RUNS_MAX is "many": expected a whole/);
    assert.deepEqual(await ids(), []);
  });
});
