/** `rack sweep` and `rack plot` as a person runs them: their figures are those of `rack run`. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import type { RunReport } from "../../console/reports/method_report.ts";
import { isThere } from "../../console/base/files.ts";
import type { Sweep } from "../../console/sweep/run_sweep.ts";
import { CommandRig } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const SCENARIO = `
name: swept
seed: 7
defaults: { ddio: off, dram: 1MiB, scm: { size: 1MiB } }
hosts:
  a: {}
  b: { domain: adr }
programs:
  - { on: a, run: put, to: b, method: write-flush, depth: 4, size: 1KiB, bytes: 16KiB }
`;

/** Twenty seconds of work: it is interrupted. */
const LONG = SCENARIO.replace("bytes: 16KiB", "bytes: 64MiB").replaceAll("1MiB", "128MiB");

describe("rack sweep", () => {
  let rig: CommandRig, path: string, sweep: Sweep;
  beforeAll(async () => {
    rig = await CommandRig.open();
    path = await rig.file("swept.yaml", SCENARIO);
  });
  afterAll(() => rig.close());

  it("runs every combination, with the figures and digests that rack run has of each", async () => {
    const files = ["--plot", `${rig.cache}/p.svg`, "--csv", `${rig.cache}/p.csv`];
    const vary = ["--vary", "depth=1,4", "--vary", "defaults.ddio=on,off"];
    sweep = JSON.parse(await rig.must(["sweep", path, ...vary, ...files, "--json"]));
    assert.deepEqual(
      sweep.combinations.map(({ state, values }) => [state, ...Object.values(values)]),
      [
        ["done", "1", "on"],
        ["done", "1", "off"],
        ["done", "4", "on"],
        ["done", "4", "off"],
      ],
    );
    assert.equal(new Set(sweep.combinations.map(({ report }) => report!.digest)).size, 4);
    for (const { values, report } of sweep.combinations) {
      const text = SCENARIO.replace("depth: 4", `depth: ${values["depth"]}`)
        .replace("ddio: off", `ddio: ${values["defaults.ddio"]}`);
      const one = await rig.file("one.yaml", text);
      const alone: RunReport = JSON.parse(await rig.must(["run", one, "--pack", "all", "--json"]));
      assert.equal(report!.digest, alone.digest);
      assert.deepEqual(report!.methods, alone.methods);
      assert.deepEqual(report!.checks, alone.checks);
    }
    const svg = await Deno.readTextFile(`${rig.cache}/p.svg`);
    assert.match(svg, /Median latency \(µs\)/);
    assert.match(svg, /Scenario swept, seed 7, commit [0-9a-f]{12}\./);
    assert.match(
      svg,
      /rack sweep .*swept\.yaml --vary .*depth=1,4.* --vary .*defaults\.ddio=on,off/s,
    );
    const csv = (await Deno.readTextFile(`${rig.cache}/p.csv`)).split("\r\n");
    assert.equal(csv.length, 6);
    const median = csv[0]!.split(",").indexOf("latencyPs.median");
    assert.equal(
      csv[1]!.split(",")[median],
      String(sweep.combinations[0]!.report!.methods[0]!.latencyPs.median),
    );
  });

  it("runs combinations as processes that they share, with the same digests and figures", async () => {
    const vary = ["--vary", "depth=1,4", "--vary", "defaults.ddio=on,off"];
    const words = ["sweep", path, ...vary, "--pack", "node", "--lanes", "3", "--json"];
    const { combinations, directory, command }: Sweep = JSON.parse(await rig.must(words));
    assert.match(command, / --pack node$/);
    for (const [i, { state, values, report, directory: left }] of combinations.entries()) {
      assert.deepEqual([state, left], ["done", null]);
      assert.deepEqual(values, sweep.combinations[i]!.values);
      assert.equal(report!.digest, sweep.combinations[i]!.report!.digest);
      assert.deepEqual(report!.methods, sweep.combinations[i]!.report!.methods);
      assert.equal(report!.processes, 7);
    }
    // One set of processes, whose output is one log each.
    const logs = [...Deno.readDirSync(`${directory}/logs`)].map(({ name }) => name).sort();
    assert.deepEqual(logs, [
      "a-rnic.log",
      "a.log",
      "b-rnic.log",
      "b.log",
      "timekeeper.log",
      "tor.log",
    ]);
    await Deno.remove(directory, { recursive: true });
  });

  it("is drawn again from what it has kept, and so are runs, by what their scenarios differ in", async () => {
    const again = await rig.must(["plot", sweep.run, "--plot", `${rig.cache}/again.html`]);
    assert.match(again, /^depth +defaults\.ddio +median/);
    assert.match(await Deno.readTextFile(`${rig.cache}/again.html`), /DDIO off/);
    const runs = rig.runs().map((run) => run.replace(/.*\//, "")).filter((run) =>
      run !== sweep.run
    );
    assert.equal(runs.length, 4);
    const document = JSON.parse(await rig.must(["plot", ...runs, "--json"]));
    const names = document.dimensions.map(({ name }: { readonly name: string }) => name).toSorted();
    assert.deepEqual(names, ["defaults.ddio", "programs[0].depth"]);
    const curves = JSON.parse(
      await rig.must([
        "plot",
        runs[0]!,
        "--distribution",
        "--plot",
        `${rig.cache}/d.svg`,
        "--json",
      ]),
    );
    const { latenciesPs } = curves[0], { latencyPs } = (await reportOf(runs[0]!)).methods[0]!;
    assert.equal(latenciesPs.length, 16);
    assert.equal(Math.max(...latenciesPs), latencyPs.max);
    assert.match(
      await Deno.readTextFile(`${rig.cache}/d.svg`),
      /Operations that are no slower \(%\)/,
    );
  });

  async function reportOf(run: string): Promise<RunReport> {
    return JSON.parse(await Deno.readTextFile(`${rig.cache}/runs/${run}/report.json`));
  }

  it("says in its row what has failed, keeps what is left of it, and ends with 1", async () => {
    const text = SCENARIO.replace("write-flush", "write-read, claims: true");
    const failing = await rig.file("failing.yaml", text);
    const vary = ["--vary", "defaults.ddio=on,off", "--jobs", "1"];
    const { code, stdout, stderr } = await rig.run(["sweep", failing, ...vary]);
    assert.equal(code, 1, stderr);
    assert.match(stdout, /^on .* FAIL objects-are-whole$/m);
    assert.match(stdout, /^off .* ok$/m);
    assert.match(stderr, /^2 combinations, 1 at a time$/m);
    assert.match(stderr, /^FAIL defaults\.ddio on: objects-are-whole: /m);
    assert.match(stderr, /^1 of 2 done, 1 failed in /m);
    const [kept] = rig.runs().filter((run) => run.includes("sweep-swept"))
      .toSorted().toReversed();
    const left = [...Deno.readDirSync(`${kept}/combinations`)].map(({ name }) => name).toSorted();
    assert.deepEqual(left, ["1", "1.yaml", "2.yaml"]);
  });

  it("refuses what is wrong before anything runs", async () => {
    const before = rig.runs().length;
    for (
      const [args, message] of [
        [["--vary", "depth=1,999"], /--vary depth=999: programs\[0\]\.depth is 999: expected/],
        [["--vary", "depth=1", "--plot", "x.png"], /--plot is "x\.png": expected .*\.svg, \.html/],
        [["--vary", "bytes=1KiB", "--vary", "file=./gone"], /cannot find .*gone/],
      ] as const
    ) {
      const { code, stderr } = await rig.run(["sweep", path, ...args]);
      assert.equal(code, 64, stderr);
      assert.match(stderr, message);
    }
    assert.equal(rig.runs().length, before);
  });

  it("leaves nothing running when it is interrupted, and says what was done", async () => {
    const long = await rig.file("long.yaml", LONG);
    const vary = [
      "--vary",
      "bytes=1KiB,64MiB,63MiB",
      "--jobs",
      "1",
      "--csv",
      `${rig.cache}/no.csv`,
    ];
    const command = rig.start(["sweep", long, ...vary], { detached: true });
    // By what is on disk: one process takes up combination after combination.
    const isAtSecond = () => rig.runs().some((run) => isThere(`${run}/combinations/2/run.json`));
    await eventually("the second combination runs", isAtSecond);
    command.interrupt();
    const { code, stdout, stderr } = await command.ended;
    assert.equal(code, 130, stderr);
    assert.match(stderr, /SIGINT: ending the combinations that run/);
    assert.match(stderr, /1 of 3 done, 2 not run to the end in /);
    assert.match(stdout, /^ *1KiB .* ok$/m);
    assert.equal(stdout.includes("64MiB"), false);
    assert.deepEqual(rig.processes(), []);
    await assert.rejects(Deno.stat(`${rig.cache}/no.csv`), Deno.errors.NotFound);
  });
});
