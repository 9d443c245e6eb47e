/** fio's engines on a rack: what they post, what they measure, what they leave in memory. */
import assert from "node:assert/strict";
import { describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { NEVER } from "../../fabric/base/time.ts";
import { FIO_EXAMPLES } from "../support/fio_examples.ts";
import { type EndedJob, placedJobs, runJobs } from "../support/fio_jobs.ts";
import type { SimulatedRack } from "../support/simulated_rack.ts";

const APM = "ioengine=librpma_apm_client\nserverip=b\n";
const GPSPM = "ioengine=librpma_gpspm_client\nserverip=b\n";

function server(method: "apm" | "gpspm", more = ""): string {
  return `[global]\nioengine=librpma_${method}_server\nkb_base=1000\nserverip=b\n` +
    `[server]\nsize=1MiB\nfilename=malloc\n${more}`;
}

function statsOf(jobs: readonly EndedJob[], index = 0) {
  const found = jobs.find(({ job }) => !job.isServer && job.index === index)!;
  assert.equal(found.result?.error, undefined, found.result?.error?.text);
  return found.result!.stats!;
}

describe("librpma_apm_client", () => {
  it("writes a block and flushes it by a READ, each before the next with sync=1", async () => {
    const { jobs, rack } = await runJobs([
      server("apm"),
      `[c]\n${APM}rw=write\nbs=4k\nsync=1\nsize=40k\n`,
    ]);
    const { write, read, depths, submits } = statsOf(jobs);
    assert.deepEqual([write.ios, write.bytes, read.ios], [10, 40_960, 0]);
    assert.deepEqual(depths, [10, 0, 0, 0, 0, 0, 0]);
    // fio's td_io_queue marks no submission of an engine that has a commit.
    assert.deepEqual(submits, [0, 0, 0, 0, 0, 0, 0]);
    assert.equal(write.slat.samples, 0);
    // The way there and back twice, as the READ follows the WRITE: some 4 us (README: write-read).
    assert.ok(write.clat.mean > 3000 && write.clat.mean < 6000, `${write.clat.mean} ns`);
    // A WQE for each WRITE, and one for its flush.
    assert.equal(postsOf(rack, "a"), 20);
  });

  it("flushes a batch of a sequence once, and each write of random I/O", async () => {
    const job = `[c]\n${APM}bs=4k\nsize=64k\niodepth=8\niodepth_batch=4\n`;
    const sequence = await runJobs([server("apm"), `${job}rw=write\n`]);
    assert.equal(statsOf(sequence.jobs).write.ios, 16);
    assert.equal(postsOf(sequence.rack, "a"), 16 + 4);
    assert.deepEqual(statsOf(sequence.jobs).submits, [0, 4, 0, 0, 0, 0, 0]);
    const random = await runJobs([server("apm"), `${job}rw=randwrite\n`]);
    assert.equal(postsOf(random.rack, "a"), 16 + 16);
  });

  it("mixes reads and writes by rwmixread, and keeps its depth", async () => {
    const { jobs } = await runJobs([
      server("apm"),
      `[c]\n${APM}rw=randrw\nrwmixread=70\nbs=1k\nsize=400k\niodepth=16\n`,
    ]);
    const { read, write, depths } = statsOf(jobs);
    assert.equal(read.ios + write.ios, 400);
    assert.ok(Math.abs(read.ios / 400 - 0.7) < 0.08, `${read.ios} reads of 400`);
    assert.equal(depths[4], 400 - 15, "all but the first 15 find 16 outstanding");
    assert.deepEqual([read.slat.samples, write.lat.samples], [read.ios, write.ios]);
  });

  it("runs by virtual time: ramp_time does not count, and stops at its run time", async () => {
    const { jobs, rack } = await runJobs([
      server("apm"),
      `[c]\n${APM}rw=write\nbs=4k\nsync=1\nsize=8k\ntime_based\nramp_time=100us\nruntime=300us\n`,
    ]);
    const { runtimePs, write } = statsOf(jobs);
    assert.ok(runtimePs >= 300e6 && runtimePs < 310e6, `${runtimePs} ps`);
    assert.ok(Math.abs(write.ios * write.lat.mean - 300_000) < 10_000);
    const ended = rack.reports.find(({ topic, node }) => topic === "result" && node === "a")!.time;
    const passed = ended - jobs[1]!.result!.startPs!;
    assert.ok(passed >= 400e6 && passed < 450e6, `${passed} ps from the first block to the end`);
  });

  it("samples no latencies in ramp_time, where a job ends in it, too", async () => {
    const { jobs } = await runJobs([
      server("apm"),
      `[c]\n${APM}rw=write\nbs=4k\nsize=8k\nramp_time=1ms\n`,
    ]);
    const { write, classes } = statsOf(jobs);
    assert.deepEqual([write.ios, write.bytes], [2, 8192]);
    assert.deepEqual([write.slat.samples, write.clat.samples, write.lat.samples], [0, 0, 0]);
    assert.ok(classes.every((count) => count === 0));
  });

  it("goes on at the begin of a small workspace with flushes of their own", async () => {
    const { jobs } = await runJobs([
      server("apm"),
      `[c]\n${APM}rw=write\nbs=4k\nsize=12k\niodepth=8\niodepth_batch=8\nloops=10\n`,
    ]);
    assert.equal(statsOf(jobs).write.ios, 30);
  });

  it("refuses persistent memory without direct_write_to_pmem, and its server ends", async () => {
    const scm = server("apm").replace("malloc", "/dev/dax1.0");
    const { jobs } = await runJobs([scm, `[c]\n${APM}rw=write\nbs=4k\nsize=8k\n`]);
    const [first, second] = jobs;
    assert.equal(second!.result!.error?.code, 22);
    assert.match(second!.result!.error!.text, /direct_write_to_pmem is 0: expected 1/);
    assert.equal(first!.result!.error, undefined);
  });

  it("refuses a size beyond the server's workspace with both numbers", async () => {
    const { jobs } = await runJobs([server("apm"), `[c]\n${APM}rw=write\nbs=4k\nsize=2m\n`]);
    assert.match(
      jobs[1]!.result!.error!.text,
      /size 2097152: the server's workspace has 1048576 B/,
    );
  });
});

describe("librpma_gpspm_client", () => {
  it("posts a request for each batch, and a notice of its end", async () => {
    const client = `[c]\n${GPSPM}rw=write\nbs=4k\nsize=64k\niodepth=4\niodepth_batch=2\n`;
    const { jobs, rack } = await runJobs([server("gpspm", "iodepth=4\n"), client]);
    assert.equal(statsOf(jobs).write.ios, 16);
    assert.equal(postsOf(rack, "a"), 16 + 8 + 1);
    assert.equal(postsOf(rack, "b"), 8);
  });

  it("has the server's CPU make ranges persistent; apm's READ does that with DDIO off", async () => {
    const survives = async (method: "apm" | "gpspm", ddio: "on" | "off") => {
      const more = "iodepth=4\ndirect_write_to_pmem=1\n";
      const scm = server(method, more).replace("malloc", "/dev/dax1.0");
      const client = `[c]\n${method === "apm" ? APM : GPSPM}rw=write\nbs=4k\nsize=64k\n`;
      const { jobs, rack } = await runJobs([scm, client], {
        hosts: `{ a: {}, b: { ddio: ${ddio}, domain: adr, scm: { size: 2MiB } } }`,
      });
      assert.equal(statsOf(jobs).write.ios, 16);
      const written = rack.scm.get("b")!.subarray(1 << 20, (1 << 20) + 65_536);
      return written.filter((byte) => byte !== 0).length > 65_000;
    };
    assert.equal(await survives("gpspm", "on"), true);
    assert.equal(await survives("gpspm", "off"), true);
    assert.equal(await survives("apm", "off"), true);
    assert.equal(await survives("apm", "on"), false);
  });

  it("takes longer than apm by the server's part in it", async () => {
    const run = async (method: "apm" | "gpspm") => {
      const client = `[c]\n${method === "apm" ? APM : GPSPM}rw=write\nbs=4k\nsync=1\nsize=40k\n`;
      const { jobs } = await runJobs([server(method, "iodepth=2\n"), client]);
      return statsOf(jobs).write.clat.mean;
    };
    const [apm, gpspm] = [await run("apm"), await run("gpspm")];
    assert.ok(gpspm > apm + 1000, `${apm} ns, ${gpspm} ns`);
  });

  it("waits for an interrupt on a server with busy_wait_polling=0", async () => {
    const run = async (polling: number) => {
      const client = `[c]\n${GPSPM}rw=write\nbs=4k\nsync=1\nsize=40k\n`;
      const { jobs } = await runJobs([
        server("gpspm", `iodepth=2\nbusy_wait_polling=${polling}\n`),
        client,
      ]);
      return statsOf(jobs).write.clat.mean;
    };
    const [polling, sleeping] = [await run(1), await run(0)];
    assert.ok(sleeping > polling + 500, `${polling} ns, ${sleeping} ns`);
  });

  it("refuses a server with fewer receives than it has flushes", async () => {
    const client = `[c]\n${GPSPM}rw=randwrite\nbs=4k\nsize=40k\niodepth=8\n`;
    const { jobs } = await runJobs([server("gpspm", "iodepth=2\n"), client]);
    assert.match(jobs[1]!.result!.error!.text, /the server's iodepth is 2: expected 8/);
  });
});

describe("the rdma engine", () => {
  const serverOf = (more = "") =>
    `[receiver]\nioengine=rdma\nport=4000\nrw=read\nbs=16k\nsize=256k\niodepth=8\n${more}`;
  const clientOf = (more = "") =>
    `[sender]\nioengine=rdma\nhostname=b\nport=4000\nrw=write\nbs=16k\nsize=256k\niodepth=4\n${more}`;

  for (const verb of ["write", "read"] as const) {
    it(`verb=${verb}: the client moves its size, and the server waits for its end`, async () => {
      const { jobs } = await runJobs([serverOf(), clientOf(`verb=${verb}\n`)]);
      const { write } = statsOf(jobs);
      assert.deepEqual([write.ios, write.bytes], [16, 256 * 1024]);
      assert.ok(write.clat.mean > 2000);
      assert.equal(jobs[0]!.result!.error, undefined);
      assert.equal(jobs[0]!.result!.stats, undefined);
    });
  }

  it("needs a buffer of the server for each I/O outstanding, unless the client draws them", async () => {
    const server = serverOf().replace("iodepth=8", "iodepth=2");
    const { jobs } = await runJobs([server, clientOf()]);
    const errors = jobs.map(({ result }) => result?.error?.text);
    assert.deepEqual(errors.slice(1), [
      "EINVAL: the server's iodepth is 2: expected at least 4",
    ]);
    const drawn = await runJobs([server, clientOf().replace("rw=write", "rw=randwrite")]);
    assert.equal(statsOf(drawn.jobs).write.ios, 16);
    assert.ok(drawn.jobs.every(({ result }) => result!.error === undefined));
  });

  it("verb=send: the server receives what the client sends", async () => {
    const { jobs } = await runJobs([serverOf(), clientOf("verb=send\n")]);
    const { read } = jobs[0]!.result!.stats!;
    assert.deepEqual([read.ios, read.bytes], [16, 256 * 1024]);
    assert.equal(statsOf(jobs).write.ios, 16);
  });

  it("verb=send: a server with more to receive ends with its client", async () => {
    const more = serverOf().replace("size=256k", "size=1m");
    const { jobs } = await runJobs([more, clientOf("verb=send\n")]);
    assert.equal(jobs[0]!.result!.stats!.read.ios, 16);
    assert.equal(jobs[0]!.result!.error, undefined);
  });

  it("refuses a server whose block is smaller, at both ends", async () => {
    const { jobs } = await runJobs([serverOf().replace("bs=16k", "bs=4k"), clientOf()]);
    for (const { result } of jobs) {
      assert.ok(result?.error !== undefined);
    }
    assert.match(jobs[0]!.result!.error!.text, /the server's block has 4096 B: expected at least/);
  });
});

describe("jobs of fio", () => {
  for (const method of ["apm", "gpspm"] as const) {
    it(`are those of its example of ${method}, with less virtual time`, async () => {
      const texts = ["server", "client"].map((end) =>
        FIO_EXAMPLES[`${method}-${end}.fio`]!.replace("[serverip]", "b")
          .replace("60s", "100us").replace("15s", "20us")
      );
      const { jobs } = await runJobs(texts);
      const { write, runtimePs } = statsOf(jobs);
      assert.ok(runtimePs >= 100e6 && write.ios > 10);
      assert.equal(write.bytes, 4000 * write.ios);
      assert.ok(jobs.every(({ result }) => result !== undefined && result.error === undefined));
    });
  }

  it("run at once in a wave, and after a stonewall when all of it have ended", async () => {
    const { jobs } = await runJobs([
      `[global]\n${APM}rw=write\nbs=4k\nsize=64k\n[one]\nnumjobs=2\n[two]\nstonewall\n`,
    ]);
    const clients = jobs.filter(({ job }) => !job.isServer).map(({ result }) => result!);
    const ends = clients.map(({ startPs, stats }) => startPs! + stats!.runtimePs);
    assert.ok(clients[1]!.startPs! < ends[0]!, "both of the first wave at once");
    assert.ok(clients[2]!.startPs! > Math.max(ends[0]!, ends[1]!));
  });

  it("draw other offsets with another randseed, and the same with the same", async () => {
    const run = async (seed: number) => {
      const client = `[c]\n${APM}rw=randrw\nbs=1k\nsize=64k\nrandseed=${seed}\n`;
      const { jobs } = await runJobs([client]);
      return JSON.stringify(statsOf(jobs));
    };
    const [one, again, other] = [await run(1), await run(1), await run(2)];
    assert.equal(again, one);
    assert.notEqual(other, one);
  });

  const ADDRESSES = { a: 0x0a000001, b: 0x0a000002, c: 0x0a000003 };
  const refusals: readonly (readonly [string, readonly string[], RegExp])[] = [
    [
      "a server alone",
      [server("apm")],
      /f0:5: found only servers, such as \[server\], expected a client/,
    ],
    [
      "a reader with a host's name, which is a server to the rdma engine",
      ["[c]\nioengine=rdma\nport=1\nhostname=b\nverb=read\nrw=randread\nbs=4k\nsize=1m\n"],
      /f0:6: rw: found "randread", which makes \[c\] a server, with hostname=b and verb=read of a client, expected rw=randwrite for a client, whose requests are its verb, read/,
    ],
    [
      "a server without a client",
      [server("apm", "numjobs=2\n"), `[c]\n${APM}rw=write\n`],
      /f0:5: found port 7205/,
    ],
    [
      "a client without a server",
      [server("apm"), `[c]\n${APM}rw=write\nnumjobs=2\n`],
      /f1:1: found a client of librpma_apm_server on port 7205 of b/,
    ],
    [
      "a client of another method",
      [server("gpspm"), `[c]\n${APM}rw=write\n`],
      /f1:1: found a client of librpma_apm_server/,
    ],
    [
      "an unknown host",
      [`[c]\n${APM.replace("=b", "=zz")}rw=write\n`],
      /serverip: found "zz", expected a host of the scenario, a \(10\.0\.0\.1\)/,
    ],
  ];
  const unnamed: typeof refusals = [
    [
      "a client without serverip",
      [server("apm"), `[c]\n${APM.replace("serverip=b\n", "")}rw=write\n`],
      /f1:1: serverip: found none, expected a host of the scenario, a /,
    ],
    [
      "an empty serverip, at its line",
      [`[global]\n${APM.replace("=b", "=")}[c]\nrw=write\n`],
      /f0:3: serverip: found "", expected a host/,
    ],
    [
      "a variable that is not set, of a server",
      [server("apm").replace("=b", "=${nowhere}"), `[c]\n${APM}rw=write\n`],
      /f0:\d: serverip: found "", as the variable nowhere is not set, expected a host/,
    ],
    [
      "an empty serverip of many threads, once",
      [`[c]\n${APM.replace("=b", "=")}rw=write\nnumjobs=3\n`],
      /^f0:3: serverip: found "", expected [^\n]*$/,
    ],
    [
      "an rdma client without hostname",
      ["[c]\nioengine=rdma\nport=1\nsize=1m\nrw=write\n"],
      /f0:1: hostname: found none, expected a host/,
    ],
  ];
  for (const [what, texts, expected] of [...refusals, ...unnamed]) {
    it(`are refused before anything runs: ${what}`, async () => {
      const refused = await placedJobs(texts, { addresses: ADDRESSES }).then(
        () => "nothing",
        (error) => {
          assert.ok(error instanceof Refusal, String(error));
          return error.message;
        },
      );
      assert.match(refused, expected);
    });
  }

  it("take --to in the place of an address that no file has", async () => {
    const texts = [`[c]\n${APM.replace("serverip=b\n", "")}rw=write\n`];
    const [client] = await placedJobs(texts, { addresses: ADDRESSES, to: "c" });
    assert.equal(client!.job.to, "c");
  });

  it("are placed by name and address: servers where they listen, clients on the next host", async () => {
    const texts = [
      server("apm").replace("=b", "=0.0.0.0"),
      `[c]\n${APM.replace("=b", "=10.0.0.3")}rw=write\n`,
    ];
    const jobs = await placedJobs(texts, { addresses: ADDRESSES });
    assert.deepEqual(jobs.map(({ host, job: { to } }) => [host, to]), [["c", undefined], [
      "a",
      "c",
    ]]);
  });
});

/** Work requests that a host's programs have posted to send, but those of its GSI. */
function postsOf(rack: SimulatedRack, host: string): number {
  return rack.record(NEVER).notes.filter(({ node, note }) =>
    node === host && note.kind === "posted" && note.queue === "send" && note.qpn > 1
  ).length;
}
