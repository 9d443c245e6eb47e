/** `rack fio`: job files as users have them, on the two hosts of a shipped scenario. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig } from "../support/command.ts";
import { FIO_EXAMPLES } from "../support/fio_examples.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

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
  readonly rackmesh: {
    readonly digest: string;
    readonly checks: readonly { readonly name: string; readonly looked: readonly string[] }[];
  };
}

describe("rack fio", () => {
  let rig: CommandRig;
  let folder: string;
  beforeAll(async () => {
    rig = await CommandRig.open();
    folder = rig.cache;
    for (const [name, text] of Object.entries(FIO_EXAMPLES)) {
      Deno.writeTextFileSync(`${folder}/${name}`, text);
    }
  });
  afterAll(() => rig.close());

  async function run(files: readonly string[], options: readonly string[]) {
    const paths = files.map((name) => `${folder}/${name}`);
    return await rig.run(["fio", PAIR, ...paths, "--to", "b", ...options]);
  }

  it("runs the example's jobs of apm, client and server together", async () => {
    const { code, stdout, stderr } = await run(["apm-server.fio", "apm-client.fio"], SHORT);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^client: \(groupid=0, jobs=1\): err= 0: pid=1: /m);
    assert.match(
      stdout,
      /^ {2}write: IOPS=\d+k, BW=\d+MiB\/s \(\d+MB\/s\)\(\d+(\.\d)?KiB\/1msec\); 0 zone resets$/m,
    );
    assert.match(stdout, /^ {5}\| 99\.00th=\[ \d{4}\]/m);
    assert.match(stderr, /apm-client\.fio:\d+: blocksize=4KiB: 1 KiB is 1000 B/);
    assert.doesNotMatch(stderr, /assumed|FAIL/);
  });

  it("assumes a server for a client alone, says which, and writes several forms to a file", async () => {
    const path = `${folder}/out.txt`;
    const options = [...SHORT, `--output=${path}`, "--output-format=normal,json+"];
    const { code, stdout, stderr } = await run(["apm-client.fio"], options);
    assert.deepEqual([code, stdout], [0, ""], stderr);
    assert.match(
      stderr,
      /librpma_apm_server on port 7204 of b is assumed, size=100 MiB, filename=malloc/,
    );
    const text = Deno.readTextFileSync(path);
    const [, normal, json] = /^([^]*?\n)(\{\n[^]*)$/.exec(text)!;
    assert.match(normal!, /^ {2}WRITE: bw=/m);
    assert.match(json!, /"fio version": "fio-3\.\d+-rackmesh-.*"[^]*"bins": \{/);
    const { jobs: [job] } = JSON.parse(json!) as Document;
    assert.deepEqual([job!.jobname, job!.error, job!.read.io_bytes], ["client", 0, 0]);
    assert.equal(job!.write.io_bytes, 4000 * job!.write.total_ios);
    assert.ok(job!.write.clat_ns.percentile["99.000000"]! >= job!.write.clat_ns.mean * 0.9);
  });

  it("comes to the same figures in one process and in many", async () => {
    const filled = ["size=3m", "port=4000", "verb=send"].flatMap((each) => ["--set", each]);
    const options = [...filled, "--json"];
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
    // Frames of these jobs are not recorded: no check says that it has looked at none.
    for (const { rackmesh: { checks } } of documents) {
      const looked = Object.fromEntries(checks.map(({ name, looked }) => [name, looked]));
      for (const name of ["frames-are-conserved", "answers-in-order", "ports-keep-their-rate"]) {
        assert.deepEqual(looked[name], ["frames were not recorded"], name);
      }
    }
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

  it("ends with 1 where a job fails, and says why", async () => {
    const options = [...SHORT, "--set", "iodepth=8", "--set", "rw=randwrite", "--set", "iodepth=8"];
    Deno.writeTextFileSync(
      `${folder}/small.fio`,
      FIO_EXAMPLES["gpspm-server.fio"]!.replace("size=100MiB", "size=4KiB"),
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
    const cases: readonly (readonly [words: readonly string[], expected: RegExp])[] = [
      [
        [client],
        /apm-client\.fio:5: serverip: found "\[serverip\]", expected a host of the scenario, a \(10\.0\.0\.1\), b/,
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
    const said = await rig.each(lines);
    for (const [i, { code, stderr }] of said.entries()) {
      assert.equal(code, 64, stderr);
      assert.match(stderr, cases[i]![1]);
    }
  });
});
