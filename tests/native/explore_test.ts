/** Explorations of native programs: recoveries on what power failures leave, and the shipped log in C. */
import assert from "node:assert/strict";
import { afterAll, describe } from "@std/testing/bdd";
import { isThere } from "../../console/base/files.ts";
import { ROOT } from "../../console/base/paths.ts";
import { Pages } from "../../console/explore/history.ts";
import { recoverOn } from "../../console/explore/native/recovery.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import { nativeLibrary } from "../../console/rack/native/library.ts";
import { judge, summarise } from "../../console/reports/summarise.ts";
import { checksText } from "../../console/reports/report_text.ts";
import { openRecord } from "../../nodes/native_records.ts";
import { createNativePort } from "../../nodes/native_process.ts";
import type { NativeProcess } from "../../nodes/host/native/port.ts";
import { exitOf, exploreScenario } from "../../console/explore/explore_scenario.ts";
import { ExploreMemory } from "../../console/explore/steps/memory.ts";
import { exploreOptions } from "../../console/explore/options.ts";
import { exploredText } from "../../console/explore/report.ts";
import { unseenFlushes } from "../../console/rack/native/unseen_flushes.ts";
import { lostPromises } from "../../console/chaos/recoveries.ts";
import { prepare, type Prepared } from "../../console/rack/prepare.ts";
import { createRunDirectory, removeRun } from "../../console/rack/run_directory.ts";
import { runSimulated } from "../../console/rack/run_variant.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { processesNaming } from "../support/command.ts";
import { compiled, nativeMissing } from "../support/native_rack.ts";
import { itUnless } from "../support/skipping.ts";

const missing = await nativeMissing();
const it = itUnless(missing, "tests/native/explore_test.ts");
const folder = await Deno.makeTempDir({ prefix: "rackmesh-native-explore-" });

afterAll(() => Deno.remove(folder, { recursive: true }));

interface Explored {
  readonly stopped?: () => boolean;
  readonly memory?: ExploreMemory;
  /** Recoveries at a time: each in a process of its own, which takes its time to start. */
  readonly jobs?: number;
}

async function explored(
  path: string,
  options: Parameters<typeof exploreOptions>[0] = {},
  { stopped, memory, jobs = 1 }: Explored = {},
) {
  const notices: string[] = [];
  const all = await exploreScenario(await readScenario(path), {
    prepare: {
      packing: "all",
      native: { kind: "run", onNotice: (text) => void notices.push(text) },
    },
    explore: { ...exploreOptions(options), ...(stopped && { stopped }) },
    jobs,
    ...(memory && { memory }),
  });
  const [{ verdict, command, faults }] = all.explored as [typeof all.explored[number]];
  if (faults !== null) await removeRun({ path: faults.replace(/\/[^/]*$/, "") });
  return { ...verdict, command, code: exitOf(all), text: exploredText(all.explored), notices };
}

let scenarios = 0;

interface Log {
  readonly recover?: string;
  readonly host?: string;
}

/** One host whose program makes words persistent. @returns its scenario. */
async function logScenario(how: string, { recover = "recover", host = "" }: Log): Promise<string> {
  const file = compiled(folder, "log_check.c", ["-ldl"]);
  const path = `${folder}/log-${++scenarios}.yaml`;
  const argv = recover.split(" ").map((word) => `"${word}"`).join(", ");
  await Deno.writeTextFile(
    path,
    [
      "name: log",
      `hosts: { a: { ${host} scm: { size: 1MiB, regions: { log: { at: 0, size: 4KiB } } } }, b: {} }`,
      `programs: [{ on: a, native: [${file}, ${how}], recover: [${file}, ${argv}] }]`,
    ].join("\n"),
  );
  return path;
}

async function exploredLog(
  how: string,
  { recover, host, stopped, jobs, ...options }:
    & Log
    & Explored
    & Parameters<typeof exploreOptions>[0] = {},
) {
  const path = await logScenario(how, { ...recover && { recover }, ...host && { host } });
  return await explored(path, options, { ...stopped && { stopped }, ...jobs && { jobs } });
}

/** Hosts a, b and c, each of which appends to a log of its own, as it does and from when on. */
async function exploredTogether(
  hosts: readonly (readonly [how: string, at: string])[],
  options: Parameters<typeof exploreOptions>[0] = {},
) {
  const file = compiled(folder, "log_check.c", ["-ldl"]);
  const path = `${folder}/together-${++scenarios}.yaml`;
  const programs = hosts.map(([how, at], i) =>
    `  - { on: ${"abc"[i]}, native: [${file}, ${how}], recover: [${file}, recover], at: ${at} }`
  );
  const scm = "defaults: { scm: { size: 1MiB, regions: { log: { at: 0, size: 4KiB } } } }";
  const lines = ["name: log", scm, "hosts: { a: , b: , c: }", "programs:", ...programs];
  await Deno.writeTextFile(path, lines.join("\n"));
  return await explored(path, options);
}

/** What chaos finds in a run that nothing has disturbed. */
async function judged(how: string, log: Log = {}) {
  const source = await readScenario(await logScenario(how, log));
  const [one] = await prepare(source, { packing: "all", native: { kind: "run" } });
  const { id: run, path: directory } = await createRunDirectory("judged");
  try {
    const { record } = await runSimulated(one!, { run, directory, check: "notes" });
    return (await lostPromises(one!, record!, { directory })).map(({ text }) => text);
  } finally {
    await removeRun({ path: directory });
  }
}

describe("a round of chaos", () => {
  it("is judged by recoveries of what it has left, and what was promised", async () => {
    assert.deepEqual(await judged("persist-begun"), []);
    // Its own clflush is not seen: the words are only stored.
    const [lost, ...more] = await judged("own");
    assert.match(lost!, /^a, as its power failed at the end: .*log_check#1 of a has promised "1"/);
    assert.deepEqual(more, []);
    const [fails] = await judged("persist", { recover: "recover exit" });
    assert.match(fails!, /recovery ends with exit code/);
  });
});

describe("a run with a record that is not whole", () => {
  it("says that it cannot be replayed, and why", async () => {
    const source = await readScenario(await logScenario("silent", {}));
    const [one] = await prepare(source, { packing: "all", native: { kind: "run" } });
    const { id: run, path: directory } = await createRunDirectory("cut");
    try {
      const record = openRecord(directory, { host: "b", life: 1, name: "long#1" });
      record.append(new Uint8Array(100));
      record.cut("it was longer than 256 MiB");
      record.close();
      const outcome = await runSimulated(one!, { run, directory, check: "notes" });
      const why =
        "the record of native program long#1 on b.1 is not whole: it was longer than 256 MiB";
      assert.deepEqual(outcome.inexact, [why]);
      const judged = await judge(one!, outcome);
      const report = summarise({
        id: run,
        path: directory,
        wallMs: 0,
        nats: false,
        outcomes: [judged],
      });
      assert.deepEqual(report.inexact, [{ variant: one!.label, why }]);
      const text = checksText(report).join("\n");
      assert.ok(text.includes(`note ${one!.label} cannot be replayed exactly: ${why}`), text);
    } finally {
      await removeRun({ path: directory });
    }
  });
});

describe("an exploration of native programs", () => {
  it("is safe where recovery finds each promise at each instant", async () => {
    const found = await exploredLog("persist-begun", { jobs: 2 });
    assert.deepEqual([found.verdict, found.why, found.code], ["safe", undefined, 0]);
    assert.deepEqual([found.promises, found.judgedBy, found.hosts], [3, ["recovery"], ["a"]]);
    assert.ok(found.native!.images > 3 && found.native!.images <= found.crashPoints, found.text);
    assert.ok(found.exhaustive);
    assert.equal(found.native!.steps, 0);
    assert.match(found.text, /not tried: other interleavings/);
    assert.match(
      found.notices.join(),
      /native programs: .*log_check on a.*recoveries, likewise: .* of a/,
    );
  });

  it("is stopped over the last recovery, too, which then is not judged", async () => {
    const from = 1_000_000_000, until = from + 1;
    const found = await exploredLog("persist-begun", {
      ...{ recover: "recover compute", from, until },
      // It runs: its outcome is waited for.
      stopped: () => processesNaming(`${folder}/log_check recover compute`).length > 0,
    });
    assert.deepEqual([found.verdict, found.why], [
      "partial",
      "it was interrupted after 0 crash points",
    ]);
  });

  it("finds a promise that comes too early, with what recovery printed, and repeats it", async () => {
    const found = await exploredLog("early");
    assert.deepEqual([found.verdict, found.code], ["unsafe", 1]);
    const { counterexample } = found;
    assert.match(
      counterexample!.found,
      /log_check#1 of a has promised "1", which recovery does not/,
    );
    assert.deepEqual(counterexample!.printed, []);
    assert.match(found.command!, /^rack explore .*log-\d+\.yaml --from \d+ps --until \d+ps$/);
    const [, from, until] = /--from (\d+)ps --until (\d+)ps/.exec(found.command!)!.map(Number);
    const again = await exploredLog("early", { from: from!, until: until! });
    assert.deepEqual(again.counterexample?.found, counterexample!.found);
    assert.deepEqual(again.counterexample?.atPs, counterexample!.atPs);
  });

  it("finds a mark before its content, as what recovery finds had not begun", async () => {
    assert.equal((await exploredLog("mark-last-begun")).verdict, "safe");
    const { verdict, counterexample } = await exploredLog("mark-first-begun");
    assert.equal(verdict, "unsafe");
    assert.match(counterexample!.found, /recovery finds "0", which no program had begun/);
  });

  it("tells a recovery that does not run from one that fails", () => {
    const plan = makePlan(
      variants(parseScenario(
        [
          "name: log",
          "hosts: { a: { scm: { size: 1MiB } }, b: {} }",
          "programs: [{ on: a, native: [x], recover: [y] }]",
        ].join("\n"),
        "log.yaml",
      ))[0]!,
    );
    const process: NativeProcess = {
      main: { resume: () => undefined, read: () => undefined, write() {}, awaitEnd() {} },
      first: undefined,
      output: () => new Uint8Array(0),
      end: () => 127,
      kill() {},
    };
    const native = () => ({ start: () => process });
    const { notRun, wrong } = recoverOn(plan, { host: "a", memory: new Pages(), native });
    assert.deepEqual([notRun, wrong], ["exit code 127", null]);
  });

  it("sees no flush of the program's own, and says how many there may be", async () => {
    const found = await exploredLog("own");
    assert.equal(found.verdict, "unsafe");
    assert.ok(found.native!.flushes >= 1 && found.native!.flushes <= 8, found.text);
    assert.match(found.text, /up to \d+ flush(es)? in their code are not seen/);
  });

  it("counts steps in which a program stores into several cache lines", async () => {
    assert.equal((await exploredLog("wide")).native!.steps, 3);
  });

  it("is unsafe where a recovery does not end well", async () => {
    const found = await exploredLog("persist", { recover: "recover exit" });
    assert.equal(found.verdict, "unsafe");
    assert.match(found.counterexample!.found, /recovery ends with exit code 3/);
  });

  it("tells how a recovery has not ended well", async () => {
    const library = await nativeLibrary(), directory = `${folder}/recoveries`;
    const wrongOf = async (how: string) => {
      const source = await readScenario(
        await logScenario("persist", { recover: `recover ${how}` }),
      );
      const [{ plan }] = await prepare(source, { packing: "all", native: { kind: "look" } }) as [
        Prepared,
      ];
      const native = () => createNativePort({ library, directory: `${directory}/${how}` });
      return recoverOn(plan, { host: "a", memory: new Pages(), native }).wrong ?? "";
    };
    assert.equal(await wrongOf("exit"), "recovery ends with exit code 3");
    assert.equal(await wrongOf("crash"), "recovery ends with ended by signal 6");
    assert.match(await wrongOf("wait"), /^recovery waits for .*, which does not come$/);
    assert.match(await wrongOf("sleep"), /^recovery goes on after 10 s of virtual time$/);
  });

  it("judges what several hosts promise together by the power failures of all of them", async () => {
    const early = await exploredTogether([["shared", "0"], ["silent", "1ms"], ["silent", "1ms"]]);
    assert.deepEqual([early.verdict, early.promises], ["unsafe", 3], early.text);
    assert.match(
      early.counterexample!.found,
      /has promised "1" by 2 of 3 hosts, which the recoveries of b, c do not find/,
    );
    assert.deepEqual(early.counterexample!.hosts, ["a", "b", "c"]);
    const inTurn = [["shared", "1ms"], ["silent", "0"], ["silent", "0"]] as const;
    assert.equal((await exploredTogether(inTurn)).verdict, "safe");
    const one = await exploredTogether(inTurn, { cut: { host: "b" } });
    assert.deepEqual([one.verdict, one.code], ["partial", 2], one.text);
  });

  it("is unchecked where nothing was promised", async () => {
    const found = await exploredLog("silent");
    assert.deepEqual([found.verdict, found.code, found.judgedBy], ["unchecked", 2, []]);
    assert.match(found.why!, /a line "promised WHAT"/);
  });

  it("cuts a recovery that writes again, at each instant of it", async () => {
    const path = await logScenario("persist", { recover: "recover careful" });
    const remembered = async (stopped: (memory: ExploreMemory) => boolean = () => false) => {
      const memory = new ExploreMemory(`${folder}/found.jsonl`), before = memory.size;
      const found = await explored(path, {}, { memory, stopped: () => stopped(memory) });
      memory.close();
      return { ...found, before };
    };
    // As a console that is killed leaves it, and the next goes on.
    const half = await remembered(({ size }) => size > 2);
    assert.deepEqual([half.verdict, half.before], ["partial", 0]);
    const careful = await remembered();
    assert.ok(careful.before > 2);
    assert.deepEqual([careful.verdict, careful.why], ["safe", undefined]);
    assert.ok(careful.again.cut > 3 && careful.again.cut === careful.again.recoveries);
    const careless = await exploredLog("persist", { recover: "recover careless" });
    assert.equal(careless.verdict, "unsafe");
    assert.ok(careless.counterexample!.again! >= 1);
    assert.match(careless.text, /It fails again when recovery has done .* begins anew/);
    const once = await exploredLog("persist", { recover: "recover careful", cuts: 1 });
    assert.deepEqual([once.verdict, once.code], ["partial", 2]);
    assert.match(once.why!, /were not cut again \(--cuts 1\)/);
    const file = `${folder}/found.jsonl`, text = await Deno.readTextFile(file);
    await Deno.writeTextFile(
      file,
      text.replaceAll('"wrong":null', '"wrong":"what was remembered"'),
    );
    const { verdict, counterexample } = await remembered();
    assert.deepEqual([verdict, counterexample!.found], ["unsafe", "what was remembered"]);
  });

  it("is partial where ways are too many, or it ends early", async () => {
    const few = await exploredLog("persist", { choices: 1 });
    assert.deepEqual([few.verdict, few.exhaustive], ["partial", false]);
    assert.match(few.why!, /not every choice was tried/);
    const early = await exploredLog("persist", { limit: 2 });
    assert.deepEqual([early.verdict, early.crashPoints], ["partial", 2]);
    const later = await exploredLog("persist", { from: 10_000_000_000 });
    assert.notEqual(later.verdict, "safe");
  });

  it("has failed where a program fails with power everywhere", async () => {
    const file = compiled(folder, "log_check.c", ["-ldl"]), path = `${folder}/false.yaml`;
    const programs = `[{ on: a, native: ["false"], recover: [${file}] }]`;
    await Deno.writeTextFile(path, `name: log\nhosts: { a: , b:  }\nprograms: ${programs}\n`);
    const found = await explored(path);
    assert.deepEqual([found.verdict, found.code], ["failed", 1]);
    assert.match(found.why!, /exit code 1/);
  });

  it("refuses a recovery that is not there, and a rack without one", async () => {
    const file = compiled(folder, "log_check.c", ["-ldl"]), path = `${folder}/none.yaml`;
    const text = (more: string) => `name: log\nhosts: { a: , b:  }\nprograms: [{ ${more} }]\n`;
    await Deno.writeTextFile(path, text(`on: a, native: [${file}], recover: [./gone]`));
    await assert.rejects(explored(path), /Program \.\/gone on a: cannot find/);
    await Deno.writeTextFile(path, text(`on: a, native: [${file}]`));
    await assert.rejects(explored(path), /no host has a recovery.*recover: \[\.\/my_recovery\]/s);
  });
});

describe("unseenFlushes", () => {
  it("counts those of a program and of its own libraries, not of the system's", async () => {
    const own = `${folder}/own`;
    await Deno.mkdir(own);
    const build = (name: string, text: string, ...args: string[]) => {
      Deno.writeTextFileSync(`${own}/${name}.c`, `#include <emmintrin.h>\n${text}`);
      const words = ["-O1", "-o", `${own}/${name}`, `${own}/${name}.c`, ...args];
      const { success, stderr } = new Deno.Command("cc", { args: words }).outputSync();
      assert.ok(success, new TextDecoder().decode(stderr));
    };
    build("libown.so", "void own(void *at) { _mm_clflush(at); }", "-shared", "-fPIC");
    const main = (what: string) =>
      `void own(void *); int main(int c, char **v) { ${what}; return c == 9; }`;
    build("none", main("(void)v"));
    build("far", main("own(v)"), `-L${own}`, "-lown");
    build("near", main("_mm_clflush(v); own(v)"), `-L${own}`, "-lown", "-Wl,-rpath,$ORIGIN");
    assert.equal(unseenFlushes(`${own}/none`, {}), 0);
    assert.equal(unseenFlushes(`${own}/near`, {}), 2);
    assert.equal(unseenFlushes(`${own}/far`, {}), 0);
    assert.equal(unseenFlushes(`${own}/far`, { LD_LIBRARY_PATH: `/none:${own}` }), 1);
  });
});

describe("the shipped log in C", () => {
  const shipped = `${ROOT}/scripts/scenarios/native_log`;

  function run(command: string, ...args: string[]): void {
    const { success, stderr } = new Deno.Command(command, { args }).outputSync();
    assert.ok(success, new TextDecoder().decode(stderr));
  }

  /** A copy that is built, once. */
  function built(): string {
    const copy = `${folder}/native_log`;
    if (isThere(copy)) return copy;
    run("cp", "-r", shipped, copy);
    run("make", "-C", copy, "CFLAGS=-std=gnu11 -O2 -Wall -Wextra -Werror");
    return copy;
  }

  /** With so few records that all is tried in seconds. */
  async function exploredWith(how: string, ddio: "off" | "on") {
    const copy = `${folder}/${how}-${ddio}`;
    run("cp", "-r", built(), copy);
    const path = `${copy}/native_log.yaml`;
    const text = await Deno.readTextFile(path);
    const changed = text.replace('[./native_log, read, "8"', `[./native_log, ${how}, "2"`)
      .replace("ddio: off", `ddio: ${ddio}`);
    assert.ok(changed.includes(`${how}, "2", b, c]`) && changed.includes(`ddio: ${ddio}`));
    await Deno.writeTextFile(path, changed);
    return await explored(path);
  }

  it("keeps its promises where a READ behind the WRITE confirms them", async () => {
    const found = await exploredWith("read", "off");
    assert.deepEqual([found.verdict, found.promises, found.hosts], ["safe", 2, ["b", "c"]]);
  });

  it("breaks them with DDIO on, where the server's flush keeps them", async () => {
    const found = await exploredWith("read", "on");
    assert.equal(found.verdict, "unsafe");
    assert.match(found.counterexample!.promised.join(), /1 ps before the power failure/);
    assert.match(found.counterexample!.ladder, /the power of b fails/);
    assert.equal((await exploredWith("ask", "on")).verdict, "safe");
  });

  it("breaks them where the WRITE's completion is taken for persistence", async () => {
    const found = await exploredWith("write", "off");
    assert.equal(found.verdict, "unsafe");
    assert.match(found.counterexample!.found, /has promised "1 line 1", which recovery does not/);
  });
});
