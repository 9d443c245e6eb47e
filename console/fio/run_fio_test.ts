import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { readJobFile } from "./job_file.ts";
import type { ThreadStats } from "../../nodes/host/programs/fio/stats.ts";
import { planJobs } from "./jobs.ts";
import { placeJobs } from "./place.ts";
import { claimsOf, hasNoIo, longJobs } from "./run_fio.ts";

async function jobsOf(settings: string) {
  const text = `[c]\nioengine=librpma_apm_client\nserverip=b\nrw=write\n${settings}\n`;
  const world = { read: () => Promise.resolve(text), variable: () => undefined };
  return planJobs([await readJobFile("f", world)], { world }).jobs;
}

async function areLong(settings: string): Promise<boolean> {
  return longJobs(await jobsOf(settings)).length > 0;
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

describe("hasNoIo", () => {
  it("is true of a client that ended well and has measured nothing, not of a server", async () => {
    const [planned] = await jobsOf("size=1m");
    const client = { ...planned!, host: "a" };
    const server = { ...client, job: { ...client.job, isServer: true } };
    const result = { index: 0, isServer: false };
    const error = { code: 22, text: "EINVAL" };
    const ran = (ios: number) => {
      return { ...result, stats: { read: { ios: 0 }, write: { ios } } as ThreadStats };
    };
    assert.equal(hasNoIo({ ...client, result }), true);
    assert.equal(hasNoIo({ ...client, result: ran(0) }), true);
    assert.equal(hasNoIo({ ...client, result: ran(1) }), false);
    assert.equal(hasNoIo({ ...client, result: { ...result, error } }), false);
    assert.equal(hasNoIo({ ...server, result: { ...result, isServer: true } }), false);
    assert.equal(hasNoIo(client), false);
  });
});

async function place(text: string, memory: "dram" | "scm" = "scm") {
  const world = { read: () => Promise.resolve(text), variable: () => undefined };
  const { jobs } = planJobs([await readJobFile("f", world)], { world });
  const memories = { dramBytes: 2 ** 26, scmBytes: 2 ** 26 };
  return placeJobs(jobs, {
    addresses: { a: 1, b: 2 },
    memories: { a: memories, b: memories },
    memory,
  });
}

describe("a server that is assumed", () => {
  const client = "[c]\nioengine=librpma_apm_client\nserverip=b\nrw=write\n";
  const sizesOf = async (text: string, memory: "dram" | "scm") =>
    (await place(text, memory)).assumed.map(({ job: { size } }) => Object(size).bytes);

  it("is no larger than what its host has, shared by all that are assumed there", async () => {
    const behind = 2 ** 26 - 2 ** 16;
    assert.deepEqual(await sizesOf(client, "scm"), [behind]);
    assert.deepEqual(await sizesOf(client, "dram"), [2 ** 25]);
    const third = Math.floor(behind / 3 / 4096) * 4096;
    assert.deepEqual(await sizesOf(`${client}numjobs=3\n`, "scm"), [third, third, third]);
  });

  it("is as large as its client needs it", async () => {
    assert.deepEqual(await sizesOf(`${client}size=10k\n`, "scm"), [12_288]);
  });
});

describe("claimsOf", () => {
  const nodes = [{ name: "b", config: { ddio: true, domain: "adr" } }];

  it("names the line that claims it, and says so where the server is assumed", async () => {
    const server = "[s]\nioengine=librpma_apm_server\nserverip=b\nkb_base=1000\nsize=1MiB\n" +
      "filename=/dev/dax0.0\ndirect_write_to_pmem=1\n";
    const client = "[c]\nioengine=librpma_apm_client\nserverip=b\nrw=write\nsize=1m\n";
    const both = await place(server + client);
    const claims = claimsOf([...both.jobs, ...both.assumed], { plan: { nodes } });
    assert.deepEqual(claims.map((each) => each.split(", and")[0]), [
      "f:7: direct_write_to_pmem=1",
    ]);
    const { jobs, assumed } = await place(client);
    const [claim, ...more] = claimsOf([...jobs, ...assumed], { plan: { nodes } });
    assert.match(claim!, /^the server that is assumed: direct_write_to_pmem=1, and b has DDIO on/);
    assert.deepEqual(more, []);
  });
});
