import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { readJobFile } from "./job_file.ts";
import { placeOf, planJobs } from "./jobs.ts";
import { IDLE, KNOWN, REFUSED, USED, WARNED } from "./options.ts";

const APM = "ioengine=librpma_apm_client\nserverip=b\n";

async function plan(
  texts: string | readonly string[],
  override: readonly string[] = [],
  only: readonly string[] = [],
) {
  const files = [texts].flat();
  const world = {
    variable: () => undefined,
    read: (path: string) => Promise.resolve(files[Number(path.slice(1))]!),
  };
  const sections = await Promise.all(files.map((_, i) => readJobFile(`f${i}`, world)));
  return planJobs(sections, { world, override, only });
}

async function refusedBy(text: string): Promise<string> {
  return await plan(text).then(() => "nothing", (error) => {
    assert.ok(error instanceof Refusal, String(error));
    return error.message;
  });
}

describe("planJobs", () => {
  it("reads the options of fio's example of an apm client", async () => {
    const text = `[global]
ioengine=librpma_apm_client
create_serialize=0 # (required)
serverip=10.0.0.2
port=7204
thread
[client]
numjobs=1
group_reporting=1
sync=1
iodepth=2
iodepth_batch_submit=1
rw=write
rwmixread=70
blocksize=4KiB
ramp_time=15s
time_based
runtime=60s
`;
    const { jobs: [planned, ...more], notes } = await plan(text);
    assert.equal(more.length, 0);
    const { job, address, shown } = planned!;
    assert.equal(address, "10.0.0.2");
    assert.equal(shown.groupReporting, true);
    const { engine, port, sync, iodepth, batch, readPercent, blockSizes, timeBased } = job;
    assert.deepEqual(
      { engine, port, sync, iodepth, batch, readPercent, timeBased, bs: blockSizes.write.most },
      {
        engine: "librpma_apm_client",
        port: 7204,
        sync: true,
        iodepth: 2,
        batch: 1,
        readPercent: 0,
        timeBased: true,
        bs: 4000,
      },
    );
    assert.deepEqual([job.rampPs, job.runtimePs], [15e12, 60e12]);
    assert.match(notes.join(), /f0:15: blocksize=4KiB: 1 KiB is 1000 B, as kb_base is 1024/);
  });

  it("gives each thread of librpma a port, counts waves by stonewall and groups by new_group", async () => {
    const text = `[global]\n${APM}rw=write\n[a]\nnumjobs=2\n[b]\nnew_group\n[c]\nstonewall\n`;
    const { jobs } = await plan(text);
    const shown = jobs.map(({ job: { name, port, wave }, groupId }) => [name, port, wave, groupId]);
    assert.deepEqual(shown, [
      ["a", 7204, 0, 0],
      ["a", 7205, 0, 0],
      ["b", 7206, 0, 1],
      ["c", 7207, 1, 2],
    ]);
  });

  it("keeps the clients of a second file for later, and starts all servers at once", async () => {
    const server = "[s]\nioengine=librpma_apm_server\nkb_base=1000\nsize=1MiB\n";
    const client = `[c]\n${APM}rw=write\n`;
    const { jobs } = await plan([server, client, client, server]);
    const shown = jobs.map(({ job: { isServer, wave, port } }) => [isServer, wave, port]);
    assert.deepEqual(shown, [[true, 0, 7204], [false, 0, 7204], [false, 1, 7205], [true, 0, 7204]]);
  });

  it("takes a run time of 0 for no limit, and time_based without one for a job by size", async () => {
    for (const times of ["runtime=0\ntime_based", "time_based", "runtime=0"]) {
      const { jobs: [first], notes } = await plan(`[c]\n${APM}rw=write\n${times}\n`);
      assert.equal(first!.job.runtimePs, undefined, times);
      assert.equal(first!.job.timeBased, false, times);
      const line = times.startsWith("time") ? 5 : 6;
      const expected = times.includes("time_based") ? [line] : [];
      assert.deepEqual(notes.map((note) => /f0:(\d): time_based requires/.exec(note)?.[1]), [
        ...expected.map(String),
      ], times);
    }
  });

  it("lets an rdma job be random: rw=randread is the server, rw=randwrite a client", async () => {
    const text = "[j]\nioengine=rdma\nport=1\nsize=1m\nrw=";
    const { jobs } = await plan([`${text}randread\n`, `${text}randwrite\n`]);
    const shown = jobs.map(({ job: { isServer, random } }) => [isServer, random]);
    assert.deepEqual(shown, [[true, true], [false, true]]);
  });

  it("names a job as its section, or as it says", async () => {
    const { jobs } = await plan(`[global]\n${APM}[a]\nname=other\n[b]\n`);
    assert.deepEqual(jobs.map(({ job: { name } }) => name), ["other", "b"]);
  });

  it("fills in fio's defaults, and bounds batches and the low mark by the depth", async () => {
    const more = "rw=randrw\nrwmixwrite=30\niodepth=8\niodepth_batch=0\niodepth_low=9\n" +
      "iodepth_batch_complete=99\nbs=4k,8k\nsize=50%\nrandseed=5\n";
    const { jobs: [first] } = await plan(`[c]\n${APM}${more}`);
    const { job } = first!;
    const { batch, iodepthLow, batchCompleteMin, batchCompleteMax, readPercent, random } = job;
    assert.deepEqual(
      { batch, iodepthLow, batchCompleteMin, batchCompleteMax, readPercent, random },
      {
        batch: 8,
        iodepthLow: 8,
        batchCompleteMin: 8,
        batchCompleteMax: 8,
        readPercent: 70,
        random: true,
      },
    );
    assert.deepEqual([job.blockSizes.read.least, job.blockSizes.write.most], [4096, 8192]);
    assert.deepEqual([job.size, job.seed, job.loops, job.randomMap], [{ percent: 50 }, 5, 1, true]);
  });

  it("takes sizes of one direction beside those of the other, and units of counts, as fio does", async () => {
    const sizesOf = async (more: string) => {
      const { jobs: [first] } = await plan(`[c]\n${APM}rw=rw\n${more}\n`);
      const { read, write } = first!.job.blockSizes;
      return [read.least, read.most, write.least, write.most];
    };
    // What fio 3.38 prints of the same jobs.
    const rows = [
      ["bs=,8k", [4096, 4096, 8192, 8192]],
      ["bs=16k,", [16_384, 16_384, 4096, 4096]],
      ["bs=8k\nbs=,16k", [8192, 8192, 16_384, 16_384]],
      ["bs=8k\nbsrange=,16k-32k", [8192, 8192, 16_384, 32_768]],
      ["bsrange=1k-4k\nbs=8k", [1024, 4096, 1024, 4096]],
      ["bsrange=16k:4k,", [4096, 16_384, 4096, 4096]],
    ] as const;
    for (const [more, expected] of rows) assert.deepEqual(await sizesOf(more), expected, more);
    for (const wrong of ["bs=,", "bs=4k-8k", "bsrange=4k", "bs=1,2,3,4"]) {
      await assert.rejects(sizesOf(wrong), /f0:5: bs/, wrong);
    }
    const { jobs: [first] } = await plan(`[c]\n${APM}rw=write\nnumber_ios=2k\niodepth=1k\n`);
    assert.deepEqual([first!.job.ios, first!.job.iodepth], [2048, 1024]);
    const zeros = "number_ios=0\nio_size=0\niodepth=4\niodepth_low=0\nserialize_overlap=0\n" +
      "io_submit_mode=inline\n";
    const { jobs: [zero] } = await plan(`[c]\n${APM}rw=write\n${zeros}`);
    assert.deepEqual([zero!.job.ios, zero!.job.ioBytes, zero!.job.iodepthLow], [
      undefined,
      undefined,
      4,
    ]);
    await assert.rejects(
      plan(`[c]\n${APM}rw=write\nserialize_overlap=1\n`),
      /f0:5: serialize_over/,
    );
  });

  it("runs the sections alone that are named, and does not read the others", async () => {
    // librpma's own servers have a section of fio's engine cpuio, which they leave out so.
    const server = "[global]\nioengine=librpma_apm_server\nserverip=b\n[server]\nsize=4k\n" +
      "filename=malloc\n[cpuio]\nioengine=cpuio\ncpuload=50\n";
    const client = `[client]\n${APM}rw=write\n`;
    const { jobs } = await plan([server, client], [], ["server", "client"]);
    assert.deepEqual(jobs.map(({ job: { name } }) => name), ["server", "client"]);
    await assert.rejects(plan([server, client]), /f0:8: ioengine: found "cpuio", expected librpma/);
    await assert.rejects(
      plan([server, client], [], ["serve"]),
      /--section is "serve": expected server \(one of server, cpuio, client\)/,
    );
  });

  it("takes filename_format for a file's name, and says where a server has none", async () => {
    const memoryOf = async (more: string) => {
      const text = `[s]\nioengine=librpma_apm_server\nserverip=b\nsize=4k\n${more}`;
      const { jobs: [first], notes } = await plan(text);
      return [first!.job.memory, ...notes];
    };
    assert.deepEqual(await memoryOf("filename_format=/mnt/pmem.$jobnum\n"), ["scm"]);
    assert.deepEqual(await memoryOf("filename=malloc\nfilename_format=/mnt/pmem.$jobnum\n"), [
      "dram",
    ]);
    assert.deepEqual(await memoryOf(""), [
      "dram",
      "f0:1: no filename: the workspace is in DRAM, as with filename=malloc",
    ]);
  });

  it("lets settings of the command take the place of the files'", async () => {
    const { jobs: [first] } = await plan(`[c]\n${APM}rw=write\nruntime=60s\n`, [
      "runtime=2ms",
      "thread",
    ]);
    assert.equal(first!.job.runtimePs, 2e9);
    assert.equal(first!.options["runtime"], "2ms");
  });

  it("keeps apart what the files' [global] have otherwise: each job has its own", async () => {
    const of = (engine: string, more: string) =>
      `[global]\nioengine=librpma_apm_${engine}\nserverip=b\nport=1\n${more}`;
    const texts = [of("server", "kb_base=1000\n[s]\nsize=1MiB\n"), of("client", "[c]\nrw=write\n")];
    const { globals, jobs } = await plan(texts);
    assert.deepEqual(globals, { serverip: "b", port: "1" });
    assert.deepEqual(jobs.map(({ options }) => options), [
      { ioengine: "librpma_apm_server", kb_base: "1000", size: "1MiB" },
      { ioengine: "librpma_apm_client", rw: "write" },
    ]);
    const alone = await plan(texts[1]!);
    assert.deepEqual(alone.globals, { ioengine: "librpma_apm_client", serverip: "b", port: "1" });
    assert.deepEqual(alone.jobs[0]!.options, { rw: "write" });
    const other = await plan(`[c]\n${APM}readwrite=write\nblocksize=8k\nthread\nname=d\n`);
    assert.deepEqual(other.jobs[0]!.options, {
      ioengine: "librpma_apm_client",
      serverip: "b",
      rw: "write",
      bs: "8k",
      name: "d",
    });
    const drawn = await plan(`[c]\n${APM}rw=write\nbs=$pagesize\n`);
    assert.equal(drawn.jobs[0]!.options["bs"], "4096");
  });

  it("knows the line of each option, in [global], too", async () => {
    const { jobs: [first] } = await plan(`[global]\n${APM}[c]\nrw=write\n`, ["port=9"]);
    const lines = (["serverip", "rw", "port", "bs"] as const).map((option) =>
      placeOf(first!, option).line
    );
    assert.deepEqual(lines, [3, 5, 4, 4]);
  });

  it("does not read a value that the command replaces, under any of its names", async () => {
    const text =
      "[c]\nioengine=rdma\nhostname=[hostname]\nport=[port]\nproto=[read/write]\nsize=1m\nrw=write\n";
    const { jobs: [first] } = await plan(text, ["port=4000", "verb=read"]);
    assert.deepEqual([first!.job.port, first!.job.verb], [4000, "read"]);
  });

  it("says once what has no effect, and takes what asks for nothing", async () => {
    const { notes } = await plan(
      `[c]\n${APM}rw=write\ncpus_allowed=1\nfsync=0\nverify=none\ndirect=1\nrandom_distribution=random\n`,
    );
    assert.deepEqual(notes, [
      "f0:5: cpus_allowed has no effect here: programs run on the next core",
    ]);
  });

  const refusals: readonly (readonly [what: string, settings: string, expected: RegExp])[] = [
    ["an unknown option", "rw=write\niodept=4", /f0:5: iodept: found "4", expected iodepth$/m],
    [
      "an option of another engine",
      "rw=write\nverb=read",
      /f0:5: verb: found verb with ioengine=librpma/,
    ],
    [
      "an option that the rack has not",
      "rw=write\nrate_iops=100",
      /f0:5: rate_iops: found "100", expected none/,
    ],
    ["more than one file", "rw=write\nnr_files=4", /f0:5: nr_files: found "4", expected 1$/m],
    ["an end with others", "rw=write\nexitall", /f0:5: exitall: found it, expected none/],
    ["trim", "rw=trim", /f0:4: rw: found "trim", expected .*do not trim/],
    ["no number of bytes", "rw=write\nbs=4q", /f0:5: bs: found "4q", expected a number of bytes/],
    [
      "a depth of 0",
      "rw=write\niodepth=0",
      /f0:5: iodepth: found "0", expected a whole number, at least 1/,
    ],
    [
      "a flag that is none",
      "rw=write\nthread\nstonewall=2",
      /f0:6: stonewall: found "2", expected nothing, 0 or 1/,
    ],
    [
      "a port beyond the last",
      "rw=write\nport=65535\nnumjobs=2",
      /f0:5: port: found 65535 and 2 threads/,
    ],
    [
      "more threads than there may be",
      "rw=write\nnumjobs=1000",
      /f0:1: numjobs: found 257 threads, expected at most 256/,
    ],
  ];
  for (const [what, settings, expected] of refusals) {
    it(`refuses ${what}, with the line`, async () => {
      assert.match(await refusedBy(`[c]\n${APM}${settings}\n`), expected);
    });
  }

  const engines: readonly (readonly [string, RegExp])[] = [
    ["ioengine=libaio\n", /f0:2: ioengine: found "libaio", expected librpma_apm_client, /],
    ["rw=read\n", /f0:1: ioengine: found none \(fio's default is psync\)/],
    ["ioengine=librpma_gpspm_client\nrw=rw\n", /rw: found "rw", expected write or randwrite/],
    [
      "ioengine=rdma\nport=1\nrw=randrw\nsize=1m\n",
      /rw: found "randrw", expected read or randread \(the server\), .*no mix/,
    ],
    ["ioengine=rdma\nrw=write\nsize=1m\n", /port: found none, expected port=/],
    ["ioengine=rdma\nport=1\nrw=write\n", /size: found none, expected size=/],
    ["ioengine=rdma\nport=1\nrw=write\nverb=recv\nsize=1m\n", /verb: found "recv" of a client/],
    [
      "ioengine=librpma_apm_server\nsize=1MiB\n",
      /size: found 1000000 B, expected size=…, a multiple of 4096 B/,
    ],
  ];
  for (const [settings, expected] of engines) {
    it(`refuses what an engine does not take: ${settings.trim().replaceAll("\n", ", ")}`, async () => {
      assert.match(await refusedBy(`[c]\n${settings}`), expected);
    });
  }
});

describe("the table of options", () => {
  it("has each name of fio once", () => {
    const names = [...Object.keys(USED), ...IDLE, ...Object.keys(WARNED), ...REFUSED];
    assert.equal(new Set(names).size, names.length);
    assert.ok(KNOWN.length > 200);
  });
});
