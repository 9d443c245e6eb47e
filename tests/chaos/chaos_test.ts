/**
 * Rounds of `rack chaos` on shipped scenarios, and the command itself. Whatever is done to a rack, it
 * comes to its end, keeps its promises, and its record replays it in one process; and whatever happens to
 * the command, it leaves nothing behind.
 *
 * CI plays few rounds, as each takes seconds of CPU time. `RACKMESH_CHAOS_ROUNDS=8 deno test -A
 * tests/chaos/chaos_test.ts` plays so many of each scenario, `RACKMESH_CHAOS=10m` goes on for so long with each;
 * `RACKMESH_TEST_SEED=17` is another campaign. What is done follows from the seed; where it hits, from the machine.
 */
import assert from "node:assert/strict";
import { afterAll, afterEach, beforeAll, describe, it } from "@std/testing/bdd";
import { statOf } from "../../console/base/process_stat.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { forEachAtOnce } from "../../console/base/at_once.ts";
import { CommandRig, processesNaming } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";
import { contentOf } from "../support/process_rack.ts";
import type { CampaignReport } from "../../console/chaos/campaign.ts";

const SEED = Deno.env.get("RACKMESH_TEST_SEED") ?? "1";
const LENGTH = Deno.env.get("RACKMESH_CHAOS");
const ROUNDS = Deno.env.get("RACKMESH_CHAOS_ROUNDS");

/** Scenarios, shipped but for the last one, and how many rounds of each are played with every change. */
const SCENARIOS = [
  ["persist_pair", 1],
  ["persist_pair_kill", 1],
  ["my_protocol", 1],
  ["replicated_log", 1],
  ["leaf_spine", 1],
  ["paging", 1],
  // C-10: memory that computers share.
  ["coherent_lock_pair", 1],
] as const;

/** Few processes, as the others have many. */
const BY_MACHINE: ReadonlySet<string> = new Set(["paging", "coherent_lock_pair"]);

/** Encodings of hints beside the operation code, one of which each campaign has. */
const ENCODINGS = ["flagged", "header", "payload"];

/**
 * Puts both ways into memory on demand, of which pages are taken back all the time, behind hints of all kinds, and
 * atomics whose words are read ahead.
 */
const PAGING = `name: paging
seed: 7
defaults:
  pin: false
  fault: rnr
  iommu: on
  scm: { size: 8MiB }
  pressure: { at: 300us, every: 60us, times: 30, pages: 3 }
hosts:
  a:
    hints:
      { kinds: [prefetch, warm-up, receive, atomic], batch: adaptive, send: after-ack, patience: 1ms }
  b:
    hints:
      kinds: [prefetch, warm-up, receive, atomic]
      encoding: ${ENCODINGS[Number(SEED) % ENCODINGS.length]}
      transport: own
    translationCache: { entries: 64 }
    ddio: both
programs:
  - { on: b, run: perftest-server }
  - { on: a, run: put, to: b, bytes: 8000, method: all, size: 4KiB, depth: 2 }
  - { on: a, run: perftest, to: b, test: ib_atomic_lat, iterations: 8 }
  - { on: b, run: put, to: a, bytes: 8000, method: write-flush, size: 4KiB, depth: 2 }
expect: [survives-what-was-reported]
`;

/** The log's client appends eight records, as many as may be outstanding: half a megabyte would take a minute. */
const LOG_BYTES = 8 * 1024;

/** A campaign takes as long as it was told to; else it has the file's time. */
const WITHIN = LENGTH === undefined && ROUNDS === undefined ? {} : { withinMs: 86_400_000 };

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterEach(() => rig.gone());

afterAll(() => rig.close());

function shipped(name: string): string {
  return fromFileUrl(projectFile(`scripts/scenarios/${name}.yaml`));
}

/** What is wrong with a campaign, with all it takes to look into it. */
function failuresOf(report: CampaignReport): string {
  return report.failures.map(({ round, what, blows, findings, untold, command }) =>
    [
      `round ${round} of seed ${report.seed}: ${what}`,
      ...blows.map((action) => `  ${action.what}`),
      ...findings.map(({ check, text }) => `  ${check}: ${text}`),
      ...(untold === null ? [] : [`  no result: ${untold}`]),
      `  ${command}`,
    ].join("\n")
  ).join("\n");
}

/** The scenario of a round does what was done in it, without its record. */
async function sameAgain({ saved, unsaved, replayed, scenario }: CampaignReport): Promise<void> {
  // An own program draws its random numbers by its path, which is another one from the folder of what is saved.
  const isOwn = /(my_protocol|coherent_lock_pair)\.yaml$/.test(scenario);
  if (!isOwn) assert.deepEqual(unsaved, [], `${scenario}: rounds without a scenario`);
  assert.equal(saved.length, isOwn ? 0 : replayed, scenario);
  const [first] = saved;
  if (first === undefined) return;
  const { stdout, stderr } = await rig.run(["run", first.file, "--pack", "all", "--json"]);
  assert.equal(JSON.parse(stdout || "{}").digest, first.digest, `${first.file}: ${stderr}`);
}

describe("rack chaos", () => {
  for (const [scenario, rounds] of SCENARIOS) {
    it(`P-41: seed ${SEED}: ${scenario} keeps its promises, comes to its end, and replays`, async () => {
      const bounds = LENGTH === undefined
        ? ["--for", "10m", "--rounds", ROUNDS ?? String(rounds)]
        : ["--for", LENGTH];
      const input = scenario === "replicated_log"
        ? ["--input", await rig.file("log.bin", contentOf(LOG_BYTES))]
        : [];
      const save = `${rig.cache}/saved-${scenario}`;
      const saves = ["--save", save, "--json"];
      const isPaging = scenario === "paging";
      const file = isPaging ? await rig.file("paging.yaml", PAGING) : shipped(scenario);
      const packing = BY_MACHINE.has(scenario) ? ["--pack", "machine"] : [];
      const args = ["chaos", file, ...packing, "--seed", SEED, ...bounds, ...input, ...saves];
      const { code, stdout, stderr } = await rig.run(args, WITHIN);
      assert.ok(stdout !== "", stderr);
      const report: CampaignReport = JSON.parse(stdout);
      assert.equal(failuresOf(report), "");
      assert.equal(code, 0);
      assert.ok(report.rounds > 0 && report.hits > 0);
      assert.equal(report.replayed + report.inexact, report.rounds);
      if (!isPaging) await sameAgain(report);
    });
  }

  it("finds a promise that is not kept, and prints the command that shows it", async () => {
    const scenario = await liarScenario(rig);
    const chaos = ["chaos", scenario, "--rounds", "1", "--seed", "3", "--json"];
    const junit = `${rig.cache}/chaos.xml`;
    const ended = await rig.run([...chaos, "--junit", junit], WITHIN);
    assert.equal(ended.code, 1, ended.stderr);
    const report: CampaignReport = JSON.parse(ended.stdout);
    const [failure] = report.failures;
    assert.ok(failure !== undefined);
    assert.deepEqual([...new Set(failure.findings.map(({ check }) => check))], [
      "survives-what-was-reported",
    ]);
    assert.deepEqual([failure.replay, failure.replayShows], ["same", true]);
    assert.deepEqual(JSON.parse(Deno.readTextFileSync(`${report.directory}/chaos.json`)), report);
    assert.ok(failure.directory !== null && Deno.statSync(failure.directory).isDirectory);
    const document = await Deno.readTextFile(junit);
    assert.match(document, /<testsuites name="rack chaos .*" tests="1" failures="1" errors="0"/);
    assert.match(document, /name="round 0".*>\n *<failure type="survives-what-was-reported"/);
    const [, ...args] = failure.command.split(" ");
    const again = await rig.run([...args, "--json"]);
    assert.equal(JSON.parse(again.stdout).digest, failure.digest);
  });

  it("refuses what it cannot do, before anything is started", async () => {
    const pair = shipped("persist_pair");
    const cases: [args: string[], message: RegExp][] = [
      [["--for", "soon"], /--for is "soon": expected a time > 0/],
      [["--rounds", "0"], /--rounds is "0": expected a whole number from 1/],
      [["--pack", "all"], /--pack is "all": expected one of node, machine/],
      [["--method", "magic"], /--method is "magic"/],
    ];
    await forEachAtOnce(cases, async ([args, message]) => {
      const { code, stderr } = await rig.run(["chaos", pair, ...args]);
      assert.equal(code, 64, stderr);
      assert.match(stderr, message);
    });
    const kill = ["chaos", shipped("persist_pair_kill"), "--pack", "machine"];
    const { code, stderr } = await rig.run(kill);
    assert.equal(code, 64, stderr);
    assert.match(stderr, /expected node, as .* has power failures of its own/);
  });

  it("takes everything down when it is interrupted, stopped processes included", async () => {
    const command = rig.start(["chaos", shipped("persist_pair"), "--for", "5m", "--seed", "5"], {
      detached: true,
      ...WITHIN,
    });
    await aProcessIsStopped();
    command.interrupt();
    const { code, stderr } = await command.ended;
    assert.equal(code, 130, stderr);
    await rig.gone();
    assert.deepEqual(wakersLeft(), []);
  });

  it("says what was played and not replayed when it is interrupted, and does not count it as held", async () => {
    const args = ["chaos", shipped("persist_pair"), "--for", "5m", "--seed", "5", "--jobs", "2"];
    const command = rig.start(args, { detached: true, ...WITHIN });
    // It answers no more, so the replay of the round that it has comes to no end.
    await eventually("a process replays", () => {
      const line = rig.processes().find((line) => line.includes("replay_main.ts"));
      if (line !== undefined) Deno.kill(parseInt(line), "SIGSTOP");
      return line !== undefined;
    });
    const runs = `${rig.cache}/runs`;
    const run = latestOf(runs);
    // Folders of rounds that held are gone: one is that of a round that was played, one of the next one.
    await eventually("the next round is played", () => {
      return [...Deno.readDirSync(run)].filter(({ name }) => /^round-/.test(name)).length > 1;
    });
    command.interrupt();
    const { code, stderr } = await command.ended;
    assert.equal(code, 130, stderr);
    assert.match(
      stderr,
      /^round \d+: untold, not replayed, .*\n\s+no result: it was played, and not/m,
    );
    assert.match(stderr, /^ +rack run .* --faults .*\/round-\d+\/faults\.jsonl$/m);
    const report: CampaignReport = JSON.parse(Deno.readTextFileSync(`${run}/chaos.json`));
    assert.equal(report.rounds, report.held + report.untold);
    assert.ok(report.untold > 0);
    assert.equal(report.replayed + report.inexact, report.held);
    await rig.gone();
  });

  it("leaves nothing when it is killed itself, stopped processes included", async () => {
    // The first round of this seed in which a device is stopped.
    const round = ["--seed", "6", "--from", "1"];
    const command = rig.start(["chaos", shipped("persist_pair"), "--for", "5m", ...round], {
      ...WITHIN,
    });
    await aProcessIsStopped();
    command.kill("SIGKILL");
    await command.ended;
    await rig.gone();
    assert.deepEqual(wakersLeft(), []);
  });
});

/** The directory of the run that began last. */
function latestOf(runs: string): string {
  const paths = [...Deno.readDirSync(runs)].map(({ name }) => `${runs}/${name}`);
  const began = (path: string) => Deno.statSync(path).birthtime?.getTime() ?? 0;
  return paths.sort((x, y) => began(y) - began(x))[0]!;
}

/** Waits until a process of a run is stopped, as chaos does it in one of a few rounds. */
async function aProcessIsStopped(): Promise<void> {
  await eventually(
    "a process is stopped",
    () => rig.processes().some((line) => isStopped(Number(line.split(":")[0]))),
  );
}

function isStopped(pid: number): boolean {
  return statOf(pid)?.[0] === "T";
}

/** Shells that look after stopped processes name the run's file, too. */
function wakersLeft(): string[] {
  return processesNaming(`${rig.cache}/runs/`);
}

/** A program that says of what it never wrote that it is persistent. */
async function liarScenario(of: CommandRig): Promise<string> {
  await of.file(
    "liar.ts",
    `export default function* ({ cpu }) {
      const startPs = cpu.now;
      yield* cpu.sleep(1_000_000);
      const bytes = new Uint8Array(64).fill(7);
      cpu.note({ kind: "writes", id: 0, on: "b", at: 1 << 20, bytes });
      cpu.note({ kind: "visible", id: 0 });
      cpu.note({ kind: "persistent", id: 0, promised: true });
      yield* cpu.sleep(50_000_000);
      cpu.report("result", { program: "liar", startPs });
    }\n`,
  );
  return await of.file(
    "liar.yaml",
    `name: liar
hosts: { a: {}, b: { scm: { size: 4MiB } } }
programs: [{ on: a, program: ./liar.ts }]
`,
  );
}
