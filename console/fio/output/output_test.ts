import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import type { FioRun, FioThread } from "../run_fio.ts";
import { StatsMeter } from "../../../nodes/host/programs/fio/stats.ts";
import { readJobFile } from "../job_file.ts";
import { planJobs } from "../jobs.ts";
import { percentilesOf, rowsOf } from "./group.ts";
import { fioJson } from "./json.ts";
import { num2str } from "./num2str.ts";
import { fioText } from "./text.ts";

const NOW = new Date("2026-11-04T05:06:07Z");
const CONTEXT = { version: "fio-3.38", now: NOW };
const MS = 1e9;

/** Threads of a job file whose I/O took `latenciesNs`, one after the other. */
async function threadsOf(
  text: string,
  latenciesNs: readonly number[],
  { windowPs = 500 * MS, error }: { readonly windowPs?: number; readonly error?: string } = {},
): Promise<FioThread[]> {
  const world = { read: () => Promise.resolve(text), variable: () => undefined };
  const { jobs } = planJobs([await readJobFile("f", world)], { world });
  return jobs.map((each): FioThread => {
    const meter = new StatsMeter(0, 0, { bwWindowPs: windowPs, iopsWindowPs: windowPs });
    let now = 0;
    for (const ns of latenciesNs) {
      const end = now + (ns + 1000) * 1000;
      meter.submittedTogether(1, 1);
      meter.completed("write", 4096, {
        start: now,
        issue: now + 1e6,
        end,
        isSync: false,
        isRamping: false,
      });
      meter.completedTogether(1);
      now = end;
    }
    const { index, isServer } = each.job;
    const failed = error === undefined ? {} : { error: { code: 12, text: error } };
    const stats = meter.result(now, 0);
    return { ...each, host: "a", result: { index, isServer, startPs: 0, stats, ...failed } };
  });
}

function runOf(threads: readonly FioThread[]): FioRun {
  const report = { digest: "d", virtualPs: 2.5e12, checks: [] } as unknown as FioRun["report"];
  return { scenario: "s", seed: 7, threads, globals: { ioengine: "x" }, report, captures: [] };
}

const JOB = "[job]\nioengine=librpma_apm_client\nserverip=b\nrw=write\niodepth=2\n";
/** A hundred latencies from 1 to 100 µs. */
const LATENCIES = Array.from({ length: 100 }, (_, i) => 1000 * (i + 1));

describe("num2str", () => {
  it("prints as fio's does, with at most so many digits", () => {
    const rows = [
      [4096, "4096B", "4096B"],
      [12_345, "12.1KiB", "12.3kB"],
      [1_048_576, "1024KiB", "1049kB"],
      [20 * 2 ** 20, "20.0MiB", "21.0MB"],
      [11_400 * 2 ** 20, "11.1GiB", "12.0GB"],
      [0, "0B", "0B"],
    ] as const;
    for (const [value, binary, decimal] of rows) {
      assert.equal(num2str(value, { figures: 4, binary: true, unit: "B" }), binary);
      assert.equal(num2str(value, { figures: 4, unit: "B" }), decimal);
    }
    assert.equal(num2str(242_163, { figures: 4 }), "242k");
    assert.equal(num2str(1000, { figures: 4, unit: "bit/s" }), "8000bit/s");
    assert.equal(num2str(123_456, { figures: 6 }), "123456");
  });
});

describe("fioText", () => {
  it("has fio's lines in fio's order", async () => {
    const text = fioText(await threadsOf(JOB, LATENCIES), CONTEXT);
    assert.equal(
      text,
      `job: (g=0): rw=write, bs=(R) 4096B-4096B, (W) 4096B-4096B, (T) 4096B-4096B, ioengine=librpma_apm_client, iodepth=2
fio-3.38
Starting 1 thread

job: (groupid=0, jobs=1): err= 0: pid=1: Wed Nov  4 05:06:07 2026
  write: IOPS=19.4k, BW=75.8MiB/s (79.5MB/s)(400KiB/5msec); 0 zone resets
    slat (nsec): min=1000, max=1000, avg=1000.00, stdev= 0.00
    clat (nsec): min=1000, max=100000, avg=50500.00, stdev=29011.49
     lat (nsec): min=2000, max=101000, avg=51500.00, stdev=29011.49
    clat percentiles (nsec):
     |  1.00th=[ 1004],  5.00th=[ 5024], 10.00th=[10048], 20.00th=[20096],
     | 30.00th=[30080], 40.00th=[40192], 50.00th=[49920], 60.00th=[60160],
     | 70.00th=[70144], 80.00th=[80384], 90.00th=[89600], 95.00th=[94720],
     | 99.00th=[98816], 99.50th=[99840], 99.90th=[99840], 99.95th=[99840],
     | 99.99th=[99840]
  lat (usec)   : 2=1.00%, 4=2.00%, 10=6.00%, 20=10.00%, 50=30.00%
  lat (usec)   : 100=50.00%, 250=1.00%
  cpu          : usr=100.00%, sys=0.00%, ctx=0, majf=0, minf=0
  IO depths    : 1=100.0%, 2=0.0%, 4=0.0%, 8=0.0%, 16=0.0%, 32=0.0%, >=64=0.0%
     submit    : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     complete  : 0=0.0%, 4=100.0%, 8=0.0%, 16=0.0%, 32=0.0%, 64=0.0%, >=64=0.0%
     issued rwts: total=0,100,0,0 short=0,0,0,0 dropped=0,0,0,0
     latency   : target=0, window=0, percentile=100.00%, depth=2

Run status group 0 (all jobs):
  WRITE: bw=75.8MiB/s (79.5MB/s), 75.8MiB/s-75.8MiB/s (79.5MB/s-79.5MB/s), io=400KiB (410kB), run=5-5msec`,
    );
  });

  it("goes to usec where latencies are long, and shows windows where there are", async () => {
    const long = LATENCIES.map((ns) => 100 * ns);
    const text = fioText(await threadsOf(JOB, long, { windowPs: 100 * MS }), CONTEXT);
    assert.match(text, / {4}clat \(usec\): min=100, max=10000, avg=5050\.00, stdev=2901\.15/);
    assert.match(text, / {4}clat percentiles \(usec\):\n {5}\| {2}1\.00th=\[ {2}100\]/);
    assert.match(text, / {3}bw \( {2}KiB\/s\): min=.*, samples=5\n {3}iops {8}: min=/);
  });

  it("shows percentiles with the decimals of the list, and no latencies that are disabled", async () => {
    // As librpma's own jobs have it: fio 3.38 prints the same of its null engine.
    const own = "disable_clat=1\nlat_percentiles=1\npercentile_list=99.0:99.999\n";
    const text = fioText(await threadsOf(`${JOB}${own}`, LATENCIES), CONTEXT);
    assert.match(
      text,
      /msec\); 0 zone resets\n {4}slat .*\n {5}lat .*\n {4}lat percentiles .*\n {5}\| 99\.000th=\[ {2}100\], 99\.999th=\[ {2}101\]\n {2}cpu /,
    );
    const whole = fioText(await threadsOf(`${JOB}percentile_list=50:99\n`, LATENCIES), CONTEXT);
    assert.match(whole, / {5}\| {2}50th=\[49920\], {2}99th=\[98816\]\n/);
    const none = fioText(await threadsOf(`${JOB}gtod_reduce=1\n`, LATENCIES), CONTEXT);
    assert.doesNotMatch(none, /(slat|clat| lat) /);
  });

  it("adds up the threads of a group with group_reporting, and shows each without", async () => {
    const two = `${JOB}numjobs=2\n`;
    const each = fioText(await threadsOf(two, LATENCIES), CONTEXT);
    assert.equal(each.match(/^job: \(groupid=0, jobs=1\)/gm)?.length, 2);
    assert.match(each, /iodepth=2\n\.\.\.\nfio-3\.38\nStarting 2 threads\n/);
    const threads = await threadsOf(`${two}group_reporting\n`, LATENCIES);
    const both = fioText(threads, CONTEXT);
    assert.match(both, /^job: \(groupid=0, jobs=2\): err= 0/m);
    assert.match(both, / {2}write: IOPS=38\.8k, BW=152MiB\/s \(159MB\/s\)\(800KiB\/5msec\)/);
    const [row] = rowsOf(threads);
    assert.deepEqual([row!.stats.write.clat.samples, row!.stats.write.clat.mean], [200, 50_500]);
    assert.ok(Math.abs(row!.stats.write.clat.squares - 2 * 83_325e6) < 1);
  });

  it("says what failed, and what has not ended", async () => {
    const failed = await threadsOf(JOB, [], { error: "ENOMEM: no room" });
    assert.match(
      fioText(failed, CONTEXT),
      /^job: \(groupid=0, jobs=1\): err=12 \(ENOMEM: no room\)/m,
    );
    const { result: _, ...unended } = failed[0]!;
    assert.match(fioText([unended], CONTEXT), /err=110 \(ETIMEDOUT: the job has not ended\)/);
  });
});

describe("fioJson", () => {
  it("has fio's keys, percentiles and classes", async () => {
    const threads = await threadsOf(`${JOB}percentile_list=50:99.9\n`, LATENCIES);
    const document = fioJson(runOf(threads), { ...CONTEXT, withBins: false });
    assert.deepEqual(Object.keys(document), [
      "fio version",
      "timestamp",
      "timestamp_ms",
      "time",
      "global options",
      "jobs",
      "disk_util",
      "rackmesh",
    ]);
    assert.equal(document["timestamp"], NOW.getTime() / 1000);
    assert.equal(document["time"], "Wed Nov  4 05:06:07 2026");
    const [job] = document["jobs"] as [Record<string, unknown>];
    for (
      const key of ["jobname", "groupid", "error", "eta", "elapsed", "job options", "read", "write"]
    ) {
      assert.ok(key in job, key);
    }
    assert.equal(job["elapsed"], 3);
    const write = job["write"] as Record<string, Record<string, unknown>>;
    const { io_bytes, io_kbytes, bw_bytes, bw, iops, runtime, total_ios } = write;
    assert.deepEqual({ io_bytes, io_kbytes, bw_bytes, bw, runtime, total_ios }, {
      io_bytes: 409_600,
      io_kbytes: 400,
      bw_bytes: 79_533_980,
      bw: 77_669,
      runtime: 5,
      total_ios: 100,
    });
    assert.ok(Math.abs(Number(iops) - 19_417.47) < 0.01);
    const { percentile, ...clat } = write["clat_ns"]!;
    assert.deepEqual({ ...clat, stddev: Math.round(Number(clat["stddev"])) }, {
      min: 1000,
      max: 100_000,
      mean: 50_500,
      stddev: 29_011,
      N: 100,
    });
    assert.deepEqual(percentile, { "50.000000": 49_920, "99.900000": 99_840 });
    const { latency_us, iodepth_level } = job as Record<string, Record<string, number>>;
    assert.deepEqual([latency_us!["2"], latency_us!["100"], iodepth_level!["1"]], [1, 50, 100]);
    assert.equal((job["job options"] as Record<string, string>)["iodepth"], "2");
    const { latency_depth, latency_target, latency_percentile, latency_window } = job;
    assert.deepEqual([latency_depth, latency_target, latency_percentile, latency_window], [
      2,
      0,
      100,
      0,
    ]);
  });

  it("has zeros for latencies that are disabled", async () => {
    const threads = await threadsOf(`${JOB}disable_clat=1\n`, LATENCIES);
    const document = fioJson(runOf(threads), { ...CONTEXT, withBins: true });
    const [job] = document["jobs"] as [Record<string, Record<string, Record<string, unknown>>>];
    assert.deepEqual(job["write"]!["clat_ns"], { min: 0, max: 0, mean: 0, stddev: 0, N: 0 });
    assert.equal(job["write"]!["lat_ns"]!["N"], 100);
    assert.ok(Object.values(job["latency_us"]!).every((share) => Number(share) === 0));
  });

  it("has the histogram in json+, whose counts are all I/O", async () => {
    const document = fioJson(runOf(await threadsOf(JOB, LATENCIES)), {
      ...CONTEXT,
      withBins: true,
    });
    const [job] = document["jobs"] as [{ write: { clat_ns: { bins: Record<string, number> } } }];
    const counts = Object.values(job.write.clat_ns.bins);
    assert.equal(counts.reduce((sum, each) => sum + each, 0), 100);
  });
});

describe("percentilesOf", () => {
  it("is the bucket at which so many are reached, as calc_clat_percentiles", () => {
    const latency = { samples: 4, min: 1, max: 4, mean: 2.5, squares: 5 };
    const buckets = [[1, 1], [2, 1], [3, 1], [4, 1]] as const;
    assert.deepEqual(percentilesOf({ ...latency, buckets }, [25, 26, 50, 100]), [1, 2, 2, 4]);
  });
});
