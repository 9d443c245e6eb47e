/** perftest's tests on a rack: what they measure, what they print, and what they refuse. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import {
  type Addends,
  host,
  pingPongPs,
  readPs,
  sumOf,
} from "../../fabric/rack/plan/profile_sums_testing.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { PerftestResult, PerftestRow } from "../../nodes/host/programs/perftest/client.ts";
import { PERFTEST, PERFTESTS } from "../../nodes/host/programs/perftest/terms.ts";
import { CommandRig } from "../support/command.ts";
import { SimulatedRack } from "../support/simulated_rack.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

type Latency = Extract<PerftestRow, { measures: "latency" }>;
type Bandwidth = Extract<PerftestRow, { measures: "bandwidth" }>;

function run(test: string, options = "", fabric = ""): PerftestResult {
  const rack = new SimulatedRack(`
name: perftest
fabric: { mtu: 4096${fabric} }
hosts: { a: {}, b: {} }
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: perftest, to: b, test: ${test}${options} }
`).run();
  const [result] = rack.reported("result", "a");
  assert.ok(result !== undefined, JSON.stringify(rack.reports));
  return result as unknown as PerftestResult;
}

function onlyRow<Row extends PerftestRow>(result: PerftestResult): Row {
  assert.equal(result.status, "done", result.error);
  assert.equal(result.rows.length, 1);
  return result.rows[0] as Row;
}

function assertAddsUp(found: readonly Time[], addends: Addends): void {
  const sum = sumOf(addends), parts = addends.map(([what, ps]) => `\n${ps} ps ${what}`);
  for (const ps of found) {
    assert.ok(Math.abs(ps - sum) < 0.05 * ps, `${ps} ps, but the sum is ${sum} ps:${parts}`);
  }
}

describe("perftest", () => {
  for (const test of PERFTESTS) {
    const kind = PERFTEST[test];
    it(`${test} runs to its end and says what it measured`, () => {
      const iterations = kind.measures === "latency" ? 50 : 200;
      const row = onlyRow(run(test, `, iterations: ${iterations}`));
      assert.equal(row.bytes, kind.bytes);
      assert.equal(row.iterations, iterations);
      if (row.measures === "latency") {
        assert.ok(row.minPs > 0.9e6 && row.minPs <= row.typicalPs && row.p99Ps <= row.maxPs);
      } else {
        assert.ok(row.measures === "bandwidth");
        // An atomic carries 8 B, a million times a second (profile: the card's locked read and write).
        assert.ok(row.averageBytesPerSecond > (kind.verb === "atomic" ? 5e6 : 1e9));
        // The payload cannot be faster than the link.
        assert.ok(row.peakBytesPerSecond! <= 100e9 / 8);
      }
    });
  }

  it("prints half of a round trip for WRITE and SEND, the whole for READ", () => {
    const write = onlyRow<Latency>(run("ib_write_lat", ", size: 64, iterations: 20"));
    const read = onlyRow<Latency>(run("ib_read_lat", ", size: 64, iterations: 20"));
    assert.ok(write.typicalPs < read.typicalPs);
    // What a link's latency adds: once to a way, twice to a round trip.
    const slow = ", latency: 1300ns";
    const far = onlyRow<Latency>(run("ib_write_lat", ", size: 64, iterations: 20", slow));
    const farRead = onlyRow<Latency>(run("ib_read_lat", ", size: 64, iterations: 20", slow));
    const added = far.typicalPs - write.typicalPs;
    assert.ok(added > 0);
    assert.ok(Math.abs(farRead.typicalPs - read.typicalPs - 2 * added) < 0.01 * added);
  });

  for (
    const [bytes, isInline] of [
      [2, true],
      [64, true],
      [220, true],
      [221, false],
      [4096, false],
    ] as const
  ) {
    it(`ib_write_lat of ${bytes} B takes what its parts add up to, within 5 %`, () => {
      const { minPs, maxPs } = onlyRow<Latency>(
        run("ib_write_lat", `, size: ${bytes}, iterations: 8`),
      );
      assertAddsUp([minPs, maxPs], pingPongPs(bytes, isInline));
    });
  }

  it("ib_read_lat takes what its parts add up to, within 5 %", () => {
    const { typicalPs } = onlyRow<Latency>(run("ib_read_lat", ", size: 256, iterations: 8"));
    assertAddsUp([typicalPs], readPs(256, "switch", host.dmaReadLlcPs));
  });

  it("small READs: of one queue pair 2.55 million a second (perftest log), of several more", () => {
    const rate = (qps: number) => {
      const row = onlyRow<Bandwidth>(run("ib_read_bw", `, size: 64, iterations: 200, qps: ${qps}`));
      return row.averageBytesPerSecond / 64;
    };
    const [one, four] = [rate(1), rate(4)];
    assert.ok(Math.abs(one / 2.55e6 - 1) < 0.05, `${one} a second`);
    assert.ok(four > 2.5 * one, `${four} a second of four, ${one} of one`);
  });

  it("measures every size with all: 2 B to 8 MiB", () => {
    const { rows, status } = run("ib_write_bw", ", all: true, iterations: 2, depth: 2");
    assert.equal(status, "done");
    assert.deepEqual(rows.map(({ bytes }) => bytes), Array.from({ length: 23 }, (_, i) => 2 << i));
    const rates = rows.map((row) => (row as Bandwidth).averageBytesPerSecond);
    assert.ok(rates[22]! > 100 * rates[0]!);
  });

  it("uses several queue pairs, each with its own messages", () => {
    const row = onlyRow<Bandwidth>(run("ib_send_bw", ", qps: 4, iterations: 50, size: 4KiB"));
    assert.equal(row.iterations, 200);
  });

  it("Q-11: programs share their host's line by their weights", () => {
    const rack = new SimulatedRack(`
name: weights
fabric: { mtu: 4096 }
hosts: { a: {}, b: {}, c: {} }
programs:
  - { on: [b, c], run: perftest-server }
  - { on: a, run: perftest, to: b, test: ib_write_bw, iterations: 240, weight: 3 }
  - { on: a, run: perftest, to: c, test: ib_write_bw, iterations: 80 }
`).run();
    const [heavy, light] = rack.reported("result", "a").map((result) =>
      onlyRow<Bandwidth>(result as unknown as PerftestResult).averageBytesPerSecond
    ).sort((x, y) => y - x);
    assert.ok(Math.abs(heavy! / light! - 3) < 0.06, `${heavy} and ${light}`);
  });

  it("waits for as long as many large messages take", () => {
    const options = ", iterations: 2, depth: 2, size: 8MiB";
    const row = onlyRow<Bandwidth>(run("ib_read_bw", options, ", rate: 1Gbps"));
    // Both complete together, after 134 ms of virtual time.
    assert.ok(row.averageBytesPerSecond > 0.9 * 1e9 / 8);
  });

  it("puts no data into the WQEs of a bandwidth test, as its header says", () => {
    const rates = [16, 32, 128].map((size) =>
      onlyRow<Bandwidth>(run("ib_write_bw", `, iterations: 400, size: ${size}`)).messagesPerSecond
    );
    // A WQE with data in it is longer from 32 B on, and takes the core twice as long to hand over.
    assert.ok(Math.min(...rates) > 0.9 * Math.max(...rates), rates.join(", "));
  });

  it("takes a path MTU: smaller packets carry less", () => {
    const large = onlyRow<Bandwidth>(run("ib_write_bw", ", iterations: 50"));
    const result = run("ib_write_bw", ", iterations: 50, mtu: 256");
    assert.equal(result.pathMtu, 256);
    assert.ok(
      onlyRow<Bandwidth>(result).averageBytesPerSecond < 0.9 * large.averageBytesPerSecond,
    );
  });

  it("writes into SCM where it is told to", () => {
    assert.equal(onlyRow(run("ib_write_lat", ", memory: scm, iterations: 5")).iterations, 5);
  });

  it("says why it failed where there is no server, and never hangs", () => {
    const rack = new SimulatedRack(`
name: alone
hosts: { a: {}, b: {} }
programs: [{ on: a, run: perftest, to: b, test: ib_write_lat }]
`).run();
    const [result] = rack.reported("result", "a");
    assert.equal(result?.status, "failed");
    assert.match(String(result?.error), /no-service/);
  });

  for (
    const [test, options, message] of [
      ["ib_write_lat", "qps: 2", /one queue pair/],
      ["ib_atomic_lat", "size: 16", /8 B/],
      ["ib_wrong", "size: 16", /one of ib_write_lat/],
    ] as const
  ) {
    it(`refuses ${test} with ${options}`, () => {
      const rack = new SimulatedRack(`
name: refused
hosts: { a: {}, b: {} }
programs: [{ on: a, run: perftest, to: b, test: ${test}, ${options} }]
`).run();
      const [failure] = rack.reported("program-failed", "a");
      assert.match(String(failure?.message), message);
    });
  }
});

describe("rack perftest", () => {
  let rig: CommandRig;
  beforeAll(async () => {
    rig = await CommandRig.open();
  });
  afterAll(() => rig.close());

  it("gives the same figures as one process and as many", async () => {
    const args = ["perftest", "ib_send_lat", PAIR, "-n", "3", "-s", "256", "-F", "--json"];
    const one = JSON.parse((await rig.run(args)).stdout);
    const many = JSON.parse((await rig.run([...args, "--pack", "node"])).stdout);
    assert.equal(one.status, "done");
    assert.deepEqual(many, one);
    assert.deepEqual(rig.processes(), []);
  });

  it("leaves a capture of each test, and overwrites none", async () => {
    const folder = `${rig.cache}/several`;
    const names: string[] = [];
    const contents: string[] = [];
    for (const args of [["ib_write_lat"], ["ib_send_lat"], ["ib_write_lat", "-s", "64"]]) {
      const [test, ...rest] = args;
      const options = ["-n", "3", "--pcap", folder, "--json"];
      const ended = await rig.run(["perftest", test!, PAIR, ...rest, ...options]);
      assert.equal(ended.code, 0, ended.stderr);
      const { captures: [path] } = JSON.parse(ended.stdout) as { captures: string[] };
      names.push(path!.replace(`${folder}/`, ""));
      contents.push(Deno.readFileSync(path!).toBase64());
    }
    assert.deepEqual(names, [
      "ib_write_lat_ddio_on.pcapng",
      "ib_send_lat_ddio_on.pcapng",
      "ib_write_lat_ddio_on_2.pcapng",
    ]);
    const left = names.map((name) => Deno.readFileSync(`${folder}/${name}`).toBase64());
    assert.deepEqual(left, contents);
  });

  it("prints a table", async () => {
    const { code, stdout } = await rig.run(["perftest", "ib_write_bw", PAIR, "-n", "20"]);
    assert.equal(code, 0);
    assert.match(stdout, /#bytes {5}#iterations {4}BW peak\[MiB\/sec\]/);
    assert.match(stdout, /\n 65536 +20 +\d+\.\d\d +\d+\.\d\d\t\t +\d\.\d{6}\n/);
  });

  for (
    const [name, args, message] of [
      ["a test that there is not", ["ib_wrong"], /expected one of ib_write_lat/],
      ["a size beyond 8 MiB", ["ib_write_bw", "-s", "9MiB"], /expected 1 to 8MiB/],
      ["queue pairs of a latency test", ["ib_read_lat", "-q", "2"], /one queue pair/],
      ["an atomic of another size", ["ib_atomic_lat", "-s", "4"], /8 B/],
      ["a host that there is not", ["ib_read_lat", "--to", "zz"], /expected one of a, b/],
      ["an MTU that there is not", ["ib_read_lat", "-m", "1000"], /256, 512/],
    ] as const
  ) {
    it(`refuses ${name}`, async () => {
      const [test, ...rest] = args;
      const { code, stderr } = await rig.run(["perftest", test, PAIR, ...rest]);
      assert.equal(code, 64, stderr);
      assert.match(stderr, message);
    });
  }
});
