/**
 * `rackmesh/testing`: a protocol is tested in its author's own runner, by runs, memory, packets and verdicts.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { rack, RackFailure } from "../../console/testing.ts";
import { NO_CHECK } from "../../console/base/no_check.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { eventually } from "../support/eventually.ts";
import { CommandRig, WITH_DENO } from "../support/command.ts";

const MY_PROTOCOL = projectFile("scripts/scenarios/my_protocol.yaml");
const TWO_QUEUES = projectFile("scripts/scenarios/two_queues.yaml");
const LOG_AT = 1 << 20, RECORD_BYTES = 64;

/** What the client of `my_protocol.ts` reports. */
interface Result {
  readonly records: number;
  readonly latencies: readonly number[];
}

async function failureOf(work: Promise<unknown>): Promise<RackFailure> {
  const failure = await work.then(() => undefined, (error: unknown) => error);
  assert.ok(failure instanceof RackFailure, String(failure));
  return failure;
}

/** Of a process that may end meanwhile. */
function commandLineOf(pid: string): string {
  try {
    return Deno.readTextFileSync(`/proc/${pid}/cmdline`);
  } catch {
    return "";
  }
}

describe("rackmesh/testing", () => {
  let rig: CommandRig;
  const before = new Map<string, string | undefined>();

  /** For the processes that this one starts; undefined: nothing. */
  function setEnv(name: string, value: string | undefined): void {
    if (!before.has(name)) before.set(name, Deno.env.get(name));
    if (value === undefined) Deno.env.delete(name);
    else Deno.env.set(name, value);
  }

  beforeAll(async () => {
    rig = await CommandRig.open();
    setEnv("RACKMESH_CACHE", rig.cache);
    setEnv(NO_CHECK, "1");
  });

  afterAll(async () => {
    for (const [name, value] of before) setEnv(name, value);
    await rig.close();
  });

  it("has reports, memory and packets of a run, and the digest of the command's", async () => {
    const run = await rack(MY_PROTOCOL, { set: { records: 3 }, seed: 9 }).run({ capture: true });
    const [result, ...more] = run.results<Result>("a");
    assert.deepEqual(more, []);
    assert.equal(result!.records, 3);
    assert.equal(result!.latencies.length, 3);

    const memory = run.memory("b"), log = memory.region("log");
    assert.equal(log.length, 4096);
    const record = (i: number) =>
      memory.read(memory.address + LOG_AT + i * RECORD_BYTES, RECORD_BYTES);
    for (let i = 0; i < 4; i++) {
      assert.ok(record(i).every((byte) => byte === (i < 3 ? i + 1 : 0)), `record ${i}`);
    }

    const writes = run.packets({ from: "a", to: "b", name: "RC RDMA WRITE ONLY" });
    assert.deepEqual(writes.map(({ packet }) => packet!.payload[0]), [1, 2, 3]);
    assert.ok(
      writes.every(({ packet, startPs, endPs }) =>
        packet!.reth!.length === RECORD_BYTES && startPs < endPs && endPs < run.report.virtualPs
      ),
    );
    assert.equal(run.packets({ name: /READ RESPONSE/ }).every(({ from }) => from === "b"), true);
    const [capture] = run.report.captures!;
    assert.ok((await Deno.stat(capture!)).size > 0);

    const scenario = fromFileUrl(MY_PROTOCOL);
    const text = await Deno.readTextFile(scenario);
    const same = await rig.file(
      "three.yaml",
      text.replace("records: 10", "records: 3").replaceAll("./", scenario.replace(/[^/]*$/, "")),
    );
    const reads = ["--allow-read", scenario.replace(/\/[^/]*$/, "")];
    const said = await rig.must(["run", same, ...reads, "--pack", "all", "--seed", "9"]);
    // But for wall time, and where each is kept.
    const lines = (all: string) =>
      all.trimEnd().split("\n").map((line) => line.replace(/ in \S+ s,|, kept in .*/, ""));
    assert.deepEqual(lines(run.text).filter((line) => !line.startsWith("capture ")), lines(said));
  });

  it("has reports of every topic, progress too, which rack run shows as a share", async () => {
    const run = await rack(TWO_QUEUES, { set: { records: 3 } }).run();
    const told = run.reports<{ written: number; messages: number }>("progress", "a");
    assert.deepEqual(told.map(({ value }) => value.written), [1, 2, 3]);
    assert.ok(told.every(({ value, time }) => value.messages === 3 && time > 0));
    assert.deepEqual(told, run.reports().filter(({ topic }) => topic === "progress"));
  });

  it("takes faults, and lets a test expect what fails", async () => {
    const cut = rack(MY_PROTOCOL, { faults: [{ at: "285us", kill: "b" }] });
    const run = await cut.run({ fails: ["programs-run-through"] });
    assert.match(run.text, /^ok {3}silent-without-power \(1 power failure\)$/m);
    assert.equal(run.check("programs-run-through").holds, false);
    const log = run.memory("b").region("log");
    assert.ok(log[0] === 1 && log.at(10 * RECORD_BYTES - 1) === 0);
  });

  it("has the explorer's verdict, and fails with the counterexample and its command", async () => {
    const wrong = rack(TWO_QUEUES, { set: { records: 1 } });
    const { message, code } = await failureOf(wrong.explore());
    assert.equal(code, 1);
    assert.match(
      message,
      /^Found that two-queues is unsafe: expected safe\nunsafe {4}two-queues: /,
    );
    assert.match(message, /\ncheck: the tail counts record 0, which is not whole\n/);
    const [, command] = /\n {2}rack (run .* --faults .*)$/m.exec(message)!;
    // The changed scenario stays for the command.
    const changed = command!.split(" ")[1]!;
    assert.match(await Deno.readTextFile(changed), /program: \/.*\/two_queues\.ts, .*records: 1/);
    await Deno.remove(changed.replace(/[^/]*$/, ""), { recursive: true });

    const right = rack(TWO_QUEUES, { set: { records: 1, tail: "same" } });
    const { explored: [found] } = await right.explore({
      from: "220us",
      until: "222us",
      verdict: "partial",
    });
    assert.match(found!.why, /^only instants from 220 us until 222 us were asked for$/);
    assert.ok(found!.crashPoints > 0);
  });

  it("refuses what is wrong by the names of a test's options, types of own programs too", async () => {
    const nobody = await failureOf(rack(TWO_QUEUES).explore({ cut: "nobody" }));
    assert.equal(nobody.message, 'cut is "nobody": expected a, b, each, all or none');
    const wrong =
      'export default function* ({ cpu }: import("rackmesh").ProgramContext) { cpu.slep(1); }';
    await rig.file("wrong.ts", wrong);
    const scenario = await rig.file(
      "wrong.yaml",
      "name: wrong\nhosts: { a: {} }\nprograms: [{ on: a, program: ./wrong.ts }]\n",
    );
    setEnv(NO_CHECK, undefined);
    const { message, code } = await failureOf(rack(scenario).run());
    setEnv(NO_CHECK, "1");
    assert.equal(code, 64, message);
    assert.match(message, /wrong\.ts:1: found .*slep.*\(TS2551\)/);
  });

  it("works in a folder of its own, with types, and no right but to run deno", async () => {
    await Deno.mkdir(`${rig.cache}/home`);
    const door = (path: string) => projectFile(path).href;
    await rig.file(
      "home/deno.json",
      JSON.stringify({
        imports: {
          "rackmesh": door("nodes/protocol.ts"),
          "rackmesh/testing": door("console/testing.ts"),
        },
      }),
    );
    await rig.file(
      "home/log_test.ts",
      `import { type Packet, rack } from "rackmesh/testing";
const scenario = new URL(${JSON.stringify(MY_PROTOCOL.href)});
Deno.test("is cut", async () => {
  const run = await rack(scenario, { faults: [{ at: "230us", kill: "b" }] }).run();
  const packets: readonly Packet[] = run.packets();
  throw new Error(\`not reached: \${packets.length}\`);
});
`,
    );
    const { code, stdout } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "--quiet", "--no-prompt", "--cached-only", "--allow-run=deno"],
      cwd: `${rig.cache}/home`,
      env: { NO_COLOR: "1", PATH: WITH_DENO },
    }).output();
    const said = new TextDecoder().decode(stdout);
    assert.equal(code, 1, said);
    assert.match(said, /^is cut \.\.\. FAILED/m);
    assert.match(said, /^FAIL programs-run-through: /m);
    assert.match(said, /0 passed \| 1 failed/);
  });

  it("ends its process, and the programs', when the test gives up", async () => {
    await rig.file("ends.ts", "export default function* () { for (;;); }");
    const scenario = await rig.file(
      "ends.yaml",
      "name: ends\nhosts: { a: {} }\nprograms: [{ on: a, program: ./ends.ts }]\n",
    );
    const over = new AbortController();
    const run = rack(scenario).run({ signal: over.signal });
    void run.catch(() => {});
    const ours = () =>
      [...Deno.readDirSync("/proc")].filter(({ name }) =>
        /^\d+$/.test(name) && commandLineOf(name).includes(`\0${rig.cache}`)
      );
    await eventually("the program runs", () => ours().length > 0);
    over.abort(new Error("given up"));
    await assert.rejects(run, /given up/);
    await eventually("all its processes have ended", () => ours().length === 0);
  });
});
