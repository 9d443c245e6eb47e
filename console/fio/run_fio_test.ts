import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { readJobFile } from "./job_file.ts";
import { planJobs } from "./jobs.ts";
import { longJobs } from "./run_fio.ts";

async function areLong(settings: string): Promise<boolean> {
  const text = `[c]\nioengine=librpma_apm_client\nserverip=b\nrw=write\n${settings}\n`;
  const world = { read: () => Promise.resolve(text), variable: () => undefined };
  const { jobs } = planJobs([await readJobFile("f", world)], { world });
  return longJobs(jobs).length > 0;
}

describe("longJobs", () => {
  it("are those by time and by blocks whose posts no memory would hold", async () => {
    assert.equal(await areLong("time_based\nruntime=60s"), true);
    assert.equal(await areLong("time_based\nruntime=10ms\nramp_time=15s"), true);
    assert.equal(await areLong("time_based\nruntime=10ms\nsize=100g"), false);
    assert.equal(await areLong("size=100g"), true);
    assert.equal(await areLong("size=100g\nruntime=10ms"), false);
    assert.equal(await areLong("size=100g\nnumber_ios=5"), false);
    assert.equal(await areLong("size=1m"), false);
    assert.equal(await areLong("size=1m\nloops=5000"), true);
  });
});
