/**
 * What somebody meets who has just come: the version, scenarios to look at and to begin with, what is wrong
 * with one, completion, what happens to a rack, and which runs are kept. Each by the real command.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { Ajv } from "ajv";
import { readYaml } from "../../fabric/rack/scenario/yaml_source.ts";
import { scenarioJsonSchema } from "../../fabric/rack/scenario/json_schema.ts";
import { fromFileUrl, projectFile, ROOT } from "../../console/base/paths.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { SCHEMA_COMMENT, SCHEMA_FILE, shippedScenarios } from "../../console/scenarios/shipped.ts";
import { validateScenario } from "../../console/scenarios/validate.ts";
import { CommandRig, type Ended, rackArguments, type Said } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PAIR = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.closeDown());

function run(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Ended> {
  return rig.run(args, { cwd: rig.cache, env });
}

/** A command that must succeed. */
function rack(...args: string[]): Promise<string> {
  return rig.must(args, { cwd: rig.cache });
}

async function json<T>(...args: string[]): Promise<T> {
  return JSON.parse(await rack(...args, "--json"));
}

/** A command that is called with what cannot be. */
async function refused(message: RegExp, ...args: string[]): Promise<void> {
  assertRefused(await run(args), message, args);
}

function assertRefused({ code, stdout, stderr }: Said, message: RegExp, args: readonly string[]) {
  assert.equal(code, 64, `rack ${args.join(" ")}: ${stdout}${stderr}`);
  assert.match(stderr, message);
}

describe("rack --version", () => {
  it("says deno.json's version, the commit of a clone, and Deno's", async () => {
    const { version } = JSON.parse(await Deno.readTextFile(projectFile("deno.json")));
    const text = await rack("--version");
    assert.ok(text.startsWith(`rack ${version} (`), text);
    assert.ok(text.endsWith(`Deno ${Deno.version.deno})\n`), text);
    const head = await new Deno.Command("git", { args: ["-C", ROOT, "rev-parse", "HEAD"] })
      .output();
    if (!head.success) return;
    const commit = new TextDecoder().decode(head.stdout).slice(0, 12);
    assert.ok(text.includes(`(commit ${commit}, `), text);
  });
});

describe("rack --help", () => {
  it("has an example behind every command that a newcomer begins with", async () => {
    const commands = ["scenarios", "new", "validate", "schema", "events", "completion", "runs"];
    const all = [...commands, "runs keep", "runs release", "runs prune"];
    const said = await rig.each(all.map((command) => [...command.split(" "), "--help"]));
    for (const [i, { code, stdout }] of said.entries()) {
      assert.equal(code, 0, all[i]);
      assert.match(stdout, /\nExample:\n {2}(rack|source) /);
    }
  });
});

describe("what is mistyped", () => {
  it("is told by the word that was probably meant", async () => {
    const known: readonly (readonly [meant: RegExp, args: readonly string[]])[] = [
      [/unknown command 'rnu'\n\(Did you mean run\?\)/, ["rnu"]],
      [/unknown command 'cutt'\n\(Did you mean cut\?\)/, ["link", "cutt", "a"]],
      [/There is no rack runs kep: expected keep \(one of/, ["runs", "kep", "x"]],
      [/unknown option '--mehtod'\n\(Did you mean --method\?\)/, ["run", PAIR, "--mehtod"]],
      [/--method is "write-raed": expected write-read \(one of/, [
        "run",
        PAIR,
        "--method",
        "write-raed",
      ]],
      [/"ib_write_lta".*expected ib_write_lat/, ["perftest", "ib_write_lta", PAIR]],
      [/The shell is "bsh": expected bash \(one of/, ["completion", "bsh"]],
    ];
    const said = await rig.each(known.map(([, args]) => args));
    for (const [i, [meant, args]] of known.entries()) assertRefused(said[i]!, meant, args);
  });
});

describe("rack scenarios", () => {
  it("names every shipped file with its first sentence", async () => {
    const files = [...Deno.readDirSync(projectFile("scripts/scenarios"))]
      .map(({ name }) => name).filter((name) => name.endsWith(".yaml")).sort();
    const rows = await json<{ file: string; about: string }[]>("scenarios");
    assert.deepEqual(
      rows.map(({ file }) => file),
      files.map((name) => `${ROOT}/scripts/scenarios/${name}`),
    );
    const text = await rack("scenarios");
    for (const { file, about } of rows) {
      assert.match(about, /^\w[^\n]{15,}\w$/);
      assert.ok(text.includes(file) && text.includes(about), file);
    }
  });
});

describe("rack schema", () => {
  it("prints what is kept beside the shipped scenarios for editors", async () => {
    const schema = await rack("schema");
    assert.equal(
      schema,
      await Deno.readTextFile(SCHEMA_FILE),
      "after a change of the schema: rack schema > scripts/scenarios/schema.json",
    );
    assert.deepEqual(JSON.parse(schema), scenarioJsonSchema());
  });

  it("takes every shipped scenario, each of which names it in its first line", async () => {
    const isValid = new Ajv({ strict: false }).compile(
      JSON.parse(await Deno.readTextFile(SCHEMA_FILE)),
    );
    for (const { file } of await shippedScenarios()) {
      const text = await Deno.readTextFile(file);
      assert.equal(text.split("\n")[0], `${SCHEMA_COMMENT}./schema.json`, file);
      assert.ok(
        isValid(readYaml(text, file).source.data),
        `${file}: ${JSON.stringify(isValid.errors)}`,
      );
    }
  });
});

describe("rack validate", () => {
  it("takes every shipped scenario, and says what it stands for", async () => {
    for (const { file, name } of await shippedScenarios()) {
      const { runs } = await validateScenario(await readScenario(file));
      assert.ok(runs.length > 0, name);
    }
    const valid = await json<{ ok: boolean; runs: string[] }>("validate", PAIR);
    assert.deepEqual([valid.ok, valid.runs.length], [true, 16]);
    const text = await rack("validate", PAIR);
    assert.equal(
      text,
      `ok   ${PAIR}: persist-pair, 2 hosts (5 nodes), put, 16 runs, put on a needs --input FILE\n`,
    );
  });

  it("says all that is wrong with its line, what was found and what was expected", async () => {
    const wrong = "name: x\nseed: -1\nhosts:\n  a: {}\n  b: { ddio: offf }\n" +
      "programs:\n  - { on: a, run: putt, to: b }\n";
    const file = await rig.file("wrong.yaml", wrong);
    const lines = [
      /wrong\.yaml:2: seed: found -1, expected a whole number ≥ 0, below 2\^53/,
      /wrong\.yaml:5: hosts\.b\.ddio: found "offf", expected on, off or both/,
      /wrong\.yaml:7: programs\[0\]\.run: found "putt", expected put/,
    ];
    for (const line of lines) await refused(line, "validate", file);
    const { code, stdout, stderr } = await run(["validate", file, "--json"]);
    assert.deepEqual([code, stderr], [64, ""]);
    const { ok, problems } = JSON.parse(stdout);
    assert.equal(ok, false);
    assert.deepEqual(problems.map(({ line }: { line: number }) => line), [2, 5, 7]);
    assert.deepEqual(problems[1], {
      file,
      line: 5,
      column: 14,
      path: "hosts.b.ddio",
      found: '"offf"',
      expected: "on, off or both",
    });
    await refused(/Cannot read the scenario .*none\.yaml/, "validate", "none.yaml");
  });

  it("loads own programs, and says of each that it cannot at its line", async () => {
    await rig.file("right.ts", "export default function* right() {}\n");
    await rig.file("broken.ts", "export default function* broken( {\n");
    await rig.file("empty.ts", "export const x = 1;\n");
    const programs = ["right", "broken", "empty", "none"].map((name) =>
      `  - { on: a, program: ./${name}.ts }\n`
    );
    const file = await rig.file(
      "own.yaml",
      `name: x\nhosts: { a: {}, b: {} }\nprograms:\n${programs.join("")}`,
    );
    const { code, stderr } = await run(["validate", file]);
    assert.equal(code, 64);
    const lines = stderr.trim().split("\n").filter((line) => line.includes("own.yaml:"));
    assert.equal(lines.length, 3, stderr);
    assert.match(
      lines[0]!,
      /own\.yaml:5: programs\[1\]\.program: found "\.\/broken\.ts" \(Cannot load/,
    );
    assert.match(
      lines[1]!,
      /own\.yaml:6: .*no default export that is a function: expected a program, .*\), expected/,
    );
    assert.match(lines[2]!, /own\.yaml:7: .*\(cannot find .*\), expected a file that can be read/);
  });
});

describe("rack new", () => {
  it("writes a scenario that is valid and runs, and never over a file", async () => {
    const said = await rack("new", "my_rack.yaml");
    assert.match(said, /rack run my_rack\.yaml/);
    const text = await Deno.readTextFile(`${rig.cache}/my_rack.yaml`);
    const [first] = text.split("\n");
    assert.equal(first, `${SCHEMA_COMMENT}${SCHEMA_FILE}`);
    const isValid = new Ajv({ strict: false }).compile(scenarioJsonSchema());
    assert.ok(isValid(readYaml(text, "x").source.data), JSON.stringify(isValid.errors));
    await rack("validate", "my_rack.yaml");
    const report = await json<{ checks: { holds: boolean }[]; methods: unknown[] }>(
      "run",
      "my_rack.yaml",
      "--pack",
      "all",
    );
    assert.equal(report.methods.length, 4);
    assert.ok(report.checks.every(({ holds }) => holds));
    await refused(/my_rack\.yaml is there already/, "new", "my_rack.yaml");
    assert.equal(await Deno.readTextFile(`${rig.cache}/my_rack.yaml`), text);
  });
});

interface Event {
  readonly event: string;
  readonly [key: string]: unknown;
}

describe("rack events", () => {
  it("needs a rack that is up", async () => {
    await refused(/No rack is up/, "events");
  });
});

describe("a rack that is up", () => {
  let id: string;

  beforeAll(async () => {
    const { run } = await json<{ run: string }>("up", PAIR, "--ddio", "off");
    id = run;
  });

  it("rack completion: completes the command itself, with names of the rack that is up and of runs", async () => {
    const nodes = ["a", "a-rnic", "b", "b-rnic", "tor", "timekeeper", "nats"];
    assert.deepEqual((await rack("completion", "nodes")).trim().split("\n").sort(), nodes.sort());
    assert.equal(await rack("completion", "hosts"), "a\nb\n");
    assert.ok((await rack("completion", "runs")).split("\n").includes(id));
    await rig.file("completion.bash", await rack("completion", "bash"));
    const script = `source ./completion.bash
COMP_WORDS=(rack events --r) COMP_CWORD=2
_rack
echo "\${COMPREPLY[@]}"`;
    const bash = await new Deno.Command("bash", { args: ["-c", script], cwd: rig.cache }).output();
    assert.equal(new TextDecoder().decode(bash.stdout), "--run\n");
    await refused(/There is no a-rinc in .*: expected a-rnic \(one of /, "kill", "a-rinc");
    await refused(/The target is "a-rinc\/tor": expected a-rnic\/tor/, "link", "cut", "a-rinc/tor");
  });

  /** Events of a rack whose host b has no power, and whose host a is cut off. */
  async function beginsWithFaults(): Promise<void> {
    const events = new EventStream(rig);
    const state = await events.next("state");
    const nodes = state["nodes"] as { name: string; power: boolean }[];
    assert.deepEqual(nodes.filter(({ power }) => !power).map(({ name }) => name), ["b"]);
    const [link] = state["links"] as Event[];
    assert.deepEqual([link!["action"], link!["target"]], ["cut", "a-rnic/tor"]);
    events.kill("SIGINT");
    assert.equal((await events.ended).code, 130);
  }

  it("rack events: tells of a rack's state with its faults, then of power, cables, the clock and programs, and of its end or until Ctrl-C", async () => {
    await rig.file("data.bin", new Uint8Array(5_000));
    const events = new EventStream(rig);
    try {
      const state = await events.next("state");
      assert.equal(events.seen[0], state);
      assert.equal(state["scenario"], "persist-pair");
      const nodes = state["nodes"] as { name: string; power: boolean }[];
      assert.deepEqual(nodes.map(({ name }) => name).sort(), ["a", "a-rnic", "b", "b-rnic", "tor"]);
      assert.ok(nodes.every(({ power }) => power));

      await rack("put", "--to", "b", "data.bin");
      const report = await events.next("report", ({ topic }) => topic === "result");
      assert.equal(report["node"], "a");

      const { atPs } = await json<{ atPs: number }>("kill", "b");
      const power = await events.next("power");
      assert.deepEqual(power, { event: "power", action: "kill", nodes: ["b"], atPs });
      await events.next("process", ({ name, alive }) => name === "b" && alive === false);
      await rack("link", "cut", "a");
      const link = await events.next("link");
      assert.deepEqual([link["action"], link["target"]], ["cut", "a-rnic/tor"]);
      await beginsWithFaults();

      await rack("start", "b");
      await events.next("power", ({ action }) => action === "start");
      await events.next("process", ({ name, alive }) => name === "b" && alive === true);
      await rack("pause");
      await events.next("clock", ({ paused }) => paused === true);
      await rack("resume");
      await events.next("clock", ({ paused }) => paused === false);

      await rack("kill", "nats");
      await events.next("process", ({ name, alive }) => name === "nats" && alive === false);
      await rack("start", "nats");
      await rack("pause");
      await events.next("clock", ({ paused }) => paused === true);

      await rack("down");
      await events.next("ended");
      assert.deepEqual([(await events.ended).code, (await events.ended).success], [0, true]);
      assert.equal(events.seen.at(-1)!.event, "ended");
    } finally {
      events.kill();
    }
  });
});

/** `rack events` as its lines come. */
class EventStream {
  readonly seen: Event[] = [];
  readonly ended: Promise<Deno.CommandStatus>;
  readonly #process: Deno.ChildProcess;
  readonly #taken = new Set<Event>();

  constructor(of: CommandRig) {
    this.#process = new Deno.Command(Deno.execPath(), {
      args: rackArguments(["events"]),
      env: { RACKMESH_CACHE: of.cache },
      stdin: "null",
      stdout: "piped",
      stderr: "null",
    }).spawn();
    this.ended = Promise.all([this.#process.status, this.#read()]).then(([status]) => status);
  }

  async #read(): Promise<void> {
    let text = "";
    for await (const part of this.#process.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (text + part).split("\n");
      text = lines.pop()!;
      for (const line of lines) this.seen.push(JSON.parse(line));
    }
  }

  /** The first one of this kind that was not asked for yet. */
  async next(kind: string, isIt: (event: Event) => boolean = () => true): Promise<Event> {
    const find = () =>
      this.seen.find((each) => !this.#taken.has(each) && each.event === kind && isIt(each));
    await eventually(`the event ${kind}`, () => find() !== undefined).catch(
      (error) => {
        throw new Error(`${error.message}: ${JSON.stringify(this.seen)}`);
      },
    );
    const found = find()!;
    this.#taken.add(found);
    return found;
  }

  kill(signal: Deno.Signal = "SIGKILL"): void {
    try {
      this.#process.kill(signal);
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  }
}

describe("rack runs", () => {
  const LIMIT = { RACKMESH_RUNS_MAX: "1" };
  const TINY = ["--method", "write-only", "--ddio", "off", "--pack", "all", "--json"];

  async function tiny(input: string): Promise<string> {
    const { code, stdout, stderr } = await run(["run", PAIR, "--input", input, ...TINY], LIMIT);
    assert.equal(code, 0, stderr);
    return JSON.parse(stdout).run;
  }

  async function kept(): Promise<string[]> {
    return (await json<{ id: string }[]>("runs")).map(({ id }) => id).reverse();
  }

  it("keeps so many, and the named ones besides", async () => {
    await rack("runs", "rm", "--all");
    const input = await rig.file("data.bin", new Uint8Array(5_000));
    const first = await tiny(input);
    await rack("runs", "keep", first, "before");
    const second = await tiny(input), third = await tiny(input);
    // The latest one that has ended stays in any case.
    assert.deepEqual(await kept(), [first, second, third]);
    const fourth = await tiny(input);
    assert.deepEqual(await kept(), [first, third, fourth]);

    const text = await rack("runs");
    assert.match(text, new RegExp(`${first}  kept +before +\\d`));
    assert.match(
      text,
      /\n3 runs, .*; 1 of them, .*, kept by you; of the others at most 50 and 2 GiB stay\n$/,
    );
    await refused(
      /The name is "before": expected one that no other run has/,
      "runs",
      "keep",
      third,
      "before",
    );
    assert.match(await rack("runs", "rm", "--all"), /^2 removed, 1 kept/);
    await rack("runs", "release", "before");
    assert.match(await rack("runs", "rm", "--all"), /^1 removed/);
  });

  it("leaves runs alone that other commands make at the same time", async () => {
    const input = await rig.file("data.bin", new Uint8Array(5_000));
    const made = await Promise.all(Array.from({ length: 4 }, () => tiny(input)));
    assert.equal(new Set(made).size, 4);
    await rack("runs", "prune", "--runs", "1", "--size", "none");
    assert.equal((await kept()).length, 1);
    await refused(
      /--runs is "few": expected a whole number, or none/,
      "runs",
      "prune",
      "--runs",
      "few",
    );
  });
});
