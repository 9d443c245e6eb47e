/** `rack fio`: job files as users have them, on the two hosts of a shipped scenario. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig } from "../support/command.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

/** Jobs with the options of fio's examples for these engines, and comments where those have them. */
const FILES: Readonly<Record<string, string>> = {
  "apm-client.fio": `# a client of librpma_apm
[global]
ioengine=librpma_apm_client
create_serialize=0 # forces an order of initialization
serverip=\${serverip} # where the server listens
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
`,
  "apm-server.fio": `[global]
ioengine=librpma_apm_server
create_serialize=0
kb_base=1000 # straight units
serverip=\${serverip}
port=7204
thread

[server]
direct_write_to_pmem=0
numjobs=1
size=100MiB
filename=malloc
`,
  "gpspm-client.fio": `[global]
ioengine=librpma_gpspm_client
create_serialize=0
serverip=\${serverip}
port=7204
thread
[client]
numjobs=1
group_reporting=1
sync=1
iodepth=2
iodepth_batch_submit=1
rw=write
blocksize=4KiB
ramp_time=15s
time_based
runtime=60s
`,
  "gpspm-server.fio": `[global]
ioengine=librpma_gpspm_server
create_serialize=0
kb_base=1000
serverip=\${serverip}
port=7204
thread
[server]
direct_write_to_pmem=0
busy_wait_polling=1
numjobs=1
iodepth=2
size=100MiB
filename=malloc
time_based
runtime=365d
`,
  "rdma-client.fio": `[global]
ioengine=rdma
hostname=\${serverip}
port=4000
verb=send
bs=1m
size=100g
[sender]
rw=write
iodepth=1
iodepth_batch_complete=1
`,
  "rdma-server.fio": `[global]
ioengine=rdma
port=4000
bs=1m
size=100g
[receiver]
rw=read
iodepth=16
`,
};
/** Virtual time and bytes of a test's size. */
const SHORT = ["--set", "runtime=100us", "--set", "ramp_time=20us"];

interface Document {
  readonly jobs: readonly {
    readonly jobname: string;
    readonly error: number;
    readonly read: { readonly io_bytes: number };
    readonly write: {
      readonly io_bytes: number;
      readonly total_ios: number;
      readonly clat_ns: { readonly mean: number; readonly percentile: Record<string, number> };
    };
  }[];
  readonly rackmesh: { readonly digest: string };
}

describe("rack fio", () => {
  let rig: CommandRig;
  let folder: string;
  beforeAll(async () => {
    rig = await CommandRig.open();
    folder = rig.cache;
    for (const [name, text] of Object.entries(FILES)) {
      Deno.writeTextFileSync(`${folder}/${name}`, text);
    }
  });
  afterAll(() => rig.close());

  async function run(files: readonly string[], options: readonly string[], serverip = "b") {
    const paths = files.map((name) => `${folder}/${name}`);
    return await rig.run(["fio", PAIR, ...paths, ...options], { env: { serverip } });
  }

  for (const method of ["apm", "gpspm"]) {
    it(`runs the example's jobs of ${method}, client and server together`, async () => {
      const files = [`${method}-server.fio`, `${method}-client.fio`];
      const { code, stdout, stderr } = await run(files, SHORT);
      assert.equal(code, 0, stderr);
      assert.match(stdout, /^client: \(groupid=0, jobs=1\): err= 0: pid=1: /m);
      assert.match(
        stdout,
        /^ {2}write: IOPS=\d+k, BW=\d+MiB\/s \(\d+MB\/s\)\(\d+(\.\d)?KiB\/1msec\)$/m,
      );
      assert.match(stdout, /^ {5}\| 99\.00th=\[ \d{4}\]/m);
      assert.match(stderr, /apm-client|gpspm-client\.fio:\d+: blocksize=4KiB: 1 KiB is 1000 B/);
      assert.doesNotMatch(stderr, /assumed|FAIL/);
    });
  }

  it("assumes a server for a client alone, says which, and prints JSON that tools read", async () => {
    const { code, stdout, stderr } = await run(["apm-client.fio"], [
      ...SHORT,
      "--output-format=json",
    ]);
    assert.equal(code, 0, stderr);
    assert.match(
      stderr,
      /librpma_apm_server on port 7204 of b is assumed, size=100 MiB, filename=malloc/,
    );
    const { jobs: [job] } = JSON.parse(stdout) as Document;
    assert.deepEqual([job!.jobname, job!.error, job!.read.io_bytes], ["client", 0, 0]);
    assert.equal(job!.write.io_bytes, 4000 * job!.write.total_ios);
    assert.ok(job!.write.clat_ns.percentile["99.000000"]! >= job!.write.clat_ns.mean * 0.9);
  });

  it("comes to the same figures in one process and in many", async () => {
    const options = ["--set", "size=3m", "--json"];
    const files = ["rdma-server.fio", "rdma-client.fio"];
    const documents: Document[] = [];
    for (const packing of ["all", "node"]) {
      const { code, stdout, stderr } = await run(files, [...options, "--pack", packing]);
      assert.equal(code, 0, stderr);
      documents.push(JSON.parse(stdout));
    }
    const [one, many] = documents.map(({ jobs, rackmesh: { digest } }) =>
      JSON.stringify([digest, jobs.map(({ jobname, read, write }) => ({ jobname, read, write }))])
    );
    assert.equal(many, one);
    assert.deepEqual(
      documents[0]!.jobs.map((
        { jobname, read, write },
      ) => [jobname, read.io_bytes, write.io_bytes]),
      [
        ["receiver", 3 << 20, 0],
        ["sender", 0, 3 << 20],
      ],
    );
  });

  it("writes to a file with --output, in several forms", async () => {
    const path = `${folder}/out.txt`;
    const options = [...SHORT, `--output=${path}`, "--output-format=normal,json+"];
    const { code, stdout, stderr } = await run(["apm-client.fio"], options);
    assert.deepEqual([code, stdout], [0, ""], stderr);
    const text = Deno.readTextFileSync(path);
    assert.match(text, /^ {2}WRITE: bw=[^]*\n\{\n {2}"fio version": "fio-3\.\d+-rackmesh-/m);
    assert.match(text, /"bins": \{/);
  });

  it("ends with 1 where a job fails, and says why", async () => {
    const options = [...SHORT, "--set", "iodepth=8", "--set", "rw=randwrite", "--set", "iodepth=8"];
    Deno.writeTextFileSync(
      `${folder}/small.fio`,
      FILES["gpspm-server.fio"]!.replace("size=100MiB", "size=4KiB"),
    );
    const { code, stdout, stderr } = await run(["small.fio", "gpspm-client.fio"], [
      ...options,
      "--set",
      "bs=8k",
    ]);
    assert.equal(code, 1, stderr);
    assert.match(stdout, /err=22 \(EINVAL: size 4096: a block has 8192 B\)/);
    assert.match(stderr, /client on a: EINVAL: size 4096/);
    assert.match(stderr, /FAIL programs-run-through: /);
  });

  it("refuses with 64 what it cannot do, and names the place", async () => {
    const client = `${folder}/apm-client.fio`;
    const example = await rig.file(
      "example.fio",
      FILES["apm-client.fio"]!.replace("${serverip}", "[serverip]"),
    );
    const cases: readonly (readonly [words: readonly string[], expected: RegExp])[] = [
      [
        [example],
        /example\.fio:9: serverip: found "\[serverip\]", expected a host of the scenario, a \(10\.0\.0\.1\), b/,
      ],
      [
        [client, "--output-format=xml"],
        /--output-format is "xml": expected one of normal, json, json\+/,
      ],
      [[client, "--set", "bs=x"], /--set bs is "x": expected a number of bytes/],
      [
        [client, "--set", "rate=5m"],
        /--set rate is "5m": expected none: the rack's jobs do not have/,
      ],
      [[client, "--to", "zz"], /--to is "zz": expected one of a, b/],
      [[client, "no.fio"], /Cannot read the job file no\.fio: /],
      [
        [client, "--output", `${folder}/no/out`],
        /--output is ".*\/no\/out": expected a file in a folder/,
      ],
    ];
    const lines = cases.map(([words]) => ["fio", PAIR, ...words]);
    const said = await rig.each(lines, { env: { serverip: "b" } });
    for (const [i, { code, stderr }] of said.entries()) {
      assert.equal(code, 64, stderr);
      assert.match(stderr, cases[i]![1]);
    }
  });
});
