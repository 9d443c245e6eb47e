/**
 * An option stands once: a new row of a table appears by that alone wherever options are said, and no two places
 * take different values for one option.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { Command } from "commander";
import {
  fromOrder,
  type OptionRow,
  type OptionTable,
  ORDER_NAMES,
  orderName,
  TEST_NAMES,
} from "../../fabric/rack/plan/option_rows.ts";
import { FAULT_TERMS, IMPAIRMENTS } from "../../fabric/rack/plan/link_plan.ts";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { CHOICES, TRANSFER_CHOICES } from "../../fabric/rack/plan/vocabulary.ts";
import { linkFaultSchema } from "../../fabric/rack/scenario/fault_schema.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { PACKINGS, PROCESS_PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { jobOrder } from "../../console/api/jobs.ts";
import {
  CHAOS_OPTIONS,
  CLAIMS,
  EXPLORE_OPTIONS,
  STEP_OPTIONS,
  SWEEP_OPTIONS,
} from "../../console/api/options.ts";
import { getQuery, linkOrder, putQuery, timeOrder } from "../../console/api/orders.ts";
import { ROOT } from "../../console/base/paths.ts";
import { workersFor } from "../../console/base/workers.ts";
import { exploreScenario } from "../../console/explore/explore_scenario.ts";
import { exploreOptions } from "../../console/explore/options.ts";
import { prepare } from "../../console/rack/prepare.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";
import { placesOf } from "../../console/sweep/places.ts";
import { readQuestion } from "../../console/testing/question.ts";
import { commandsFor } from "../../scripts/command_files.ts";
import { type FlagsOf, readTable } from "../../scripts/commands/options.ts";
import { jobsOf } from "../../scripts/commands/rack_options.ts";
import { optionsOf, type PerftestFlags } from "../../scripts/commands/perftest/options.ts";
import { Problems } from "../../scripts/commands/perftest/line.ts";

/** What a place makes of a value: it, or what it expected instead. */
type Taken = { readonly value: unknown } | { readonly expected: string };

function takenBy(work: () => unknown): Taken {
  try {
    return { value: work() };
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    return { expected: error.problems[0]!.expected };
  }
}

/** A value in each form, and whether it is one. */
interface Sample {
  readonly typed: string;
  /** As JSON of an order has it. */
  readonly sent: unknown;
  /** As a scenario or a test writes it. */
  readonly written: unknown;
}

function number(value: number): Sample {
  return { typed: String(value), sent: value, written: value };
}

function samplesOf(row: OptionRow): Sample[] {
  switch (row.type) {
    case "whole":
    case "size": {
      const { least, most, multipleOf = 1 } = row;
      const many = most < Number.MAX_SAFE_INTEGER ? [most + 1, most + multipleOf] : [];
      const inside = [least, least + multipleOf, most - most % multipleOf];
      return [least - multipleOf, least - 1, ...inside, least + 1, ...many, 0, 1].map(number);
    }
    case "time":
      return [
        { typed: "40us", sent: 40_000_000, written: "40us" },
        { typed: "0ps", sent: 0, written: "0ps" },
        { typed: "-1us", sent: -1_000_000, written: "-1us" },
        { typed: "0.5ps", sent: 0.5, written: "0.5ps" },
      ];
    case "wall-time":
      return [
        { typed: "90s", sent: 90_000, written: "90s" },
        { typed: "0s", sent: 0, written: "0s" },
        { typed: "1ms", sent: 1, written: "1ms" },
      ];
    case "word":
      return [...row.words, "", "all of them"].map((word) => {
        return { typed: word, sent: word, written: word };
      });
    case "host":
      return [
        ...row.words.map((word) => ({ typed: word, sent: word, written: word })),
        ...["b", "", "x".repeat(201)].map((name) => {
          return { typed: name, sent: { host: name }, written: name };
        }),
      ];
    case "switch":
      return [];
  }
}

function commandTakes(table: OptionTable, name: string, { typed }: Sample): Taken {
  const flags = { [name]: typed } as FlagsOf<OptionTable>;
  return takenBy(() => (readTable(table, flags) as Readonly<Record<string, unknown>>)[name]);
}

/** Orders say no words that a test could compare: they tell a program, by code and path. */
function orderTakes(
  kind: string,
  { table, name, sent }: { table: OptionTable; name: string; sent: unknown },
): unknown {
  const scenario = { shipped: "persist_pair" };
  const order = { kind, scenario, vary: ["x=1"], [orderName(name, table[name]!)]: sent };
  if (kind !== "sweep") delete (order as { vary?: unknown }).vary;
  const { success, data } = jobOrder.safeParse(order);
  return success ? (fromOrder(table, data as never) as Record<string, unknown>)[name] : undefined;
}

function testTakes(kind: "run" | "explore", name: string, { written }: Sample): Taken {
  const options = { scenario: "x.yaml", [name]: written };
  // Of what leaves nothing to explore the window's end is told.
  const more = name === "cut" && written === "none" ? { preemptions: 1 } : {};
  return takenBy(() => {
    const { options: read } = readQuestion({ kind, options: { ...options, ...more } });
    return (read as Readonly<Record<string, unknown>>)[name];
  });
}

/** A choice where a scenario says it itself. */
function scenarioTakes(name: string, { written }: Sample): Taken {
  const isProgram = !["seed", "ddio"].includes(name);
  const text = JSON.stringify({
    name: "x",
    ...(name === "seed" && { seed: written }),
    hosts: { a: {}, b: name === "ddio" ? { ddio: written } : {} },
    programs: [{ on: "a", run: "put", to: "b", bytes: 64, ...(isProgram && { [name]: written }) }],
  });
  return takenBy(() => {
    const { seed, hosts, programs } = parseScenario(text, "x.yaml");
    const { [name]: option } = programs[0]!.options;
    if (name === "seed") return seed;
    return name === "ddio" ? hosts[1]!.ddio : name === "method" ? (option as string[])[0] : option;
  });
}

describe("every option", () => {
  const places = {
    explore: { table: { ...CHOICES, ...EXPLORE_OPTIONS }, test: "explore" },
    run: { table: { ...CHOICES, claims: CLAIMS }, test: "run" },
    up: { table: CHOICES },
    chaos: { table: { ...CHOICES, ...CHAOS_OPTIONS } },
    sweep: { table: { jobs: SWEEP_OPTIONS.jobs } },
  } as const;
  for (const [kind, { table, ...of }] of Object.entries(places)) {
    for (const [name, row] of Object.entries(table as OptionTable)) {
      it(`of ${kind}: --${name} takes the same in the command, an order and a test`, () => {
        if (row.type === "switch") {
          assert.equal(orderTakes(kind, { table, name, sent: true }), true);
          assert.equal(orderTakes(kind, { table, name, sent: "yes" }), undefined);
        }
        for (const sample of samplesOf(row)) {
          const command = commandTakes(table, name, sample);
          const value = "value" in command ? command.value : undefined;
          const about = `${name} ${sample.typed}`;
          const sent = orderTakes(kind, { table, name, sent: sample.sent });
          assert.deepEqual(sent, value, `an order: ${about}`);
          if (!("test" in of) || row.type === "wall-time") continue;
          assert.deepEqual(testTakes(of.test, name, sample), command, `a test: ${about}`);
        }
      });
    }
    it(`of ${kind} is one of the command's`, async () => {
      const program = new Command();
      for (const add of await commandsFor([kind])) add(program);
      const { options } = program.commands.find((each) => each.name() === kind)!;
      const known = options.map(({ long }) => long);
      for (const name of Object.keys(table)) assert.ok(known.includes(`--${name}`), name);
    });
  }

  for (const [name, row] of Object.entries(CHOICES as OptionTable)) {
    it(`${name} takes the same where a scenario says it itself`, () => {
      for (const sample of samplesOf(row)) {
        const command = commandTakes(CHOICES, name, sample), own = scenarioTakes(name, sample);
        const about = `${name}: ${sample.typed}`;
        // Of words a scenario may have several: what it expects has more of them.
        if (row.type !== "word") assert.deepEqual(own, command, about);
        else assert.deepEqual("value" in own && own.value, "value" in command && command.value);
      }
    });
  }

  for (const [name, row] of Object.entries(TRANSFER_CHOICES as OptionTable)) {
    it(`${name} of put and get takes the same in the command and in the query of an address`, () => {
      for (const sample of samplesOf(row)) {
        const command = commandTakes(TRANSFER_CHOICES, name, sample);
        const value = "value" in command ? command.value : undefined;
        for (const query of [putQuery, getQuery]) {
          const { data } = query.safeParse({ [name]: sample.typed });
          assert.equal((data as Record<string, unknown> | undefined)?.[name], value, sample.typed);
        }
      }
    });
  }

  it("--events of step takes the same in an order", () => {
    for (const sample of samplesOf(STEP_OPTIONS.events)) {
      const command = commandTakes(STEP_OPTIONS, "events", sample);
      const { success } = timeOrder.safeParse({ order: "step", events: sample.sent });
      assert.equal(success, "value" in command, sample.typed);
    }
  });

  it("--limit of sweep is limitMs of an order, in seconds", () => {
    for (const sample of samplesOf(SWEEP_OPTIONS.limit)) {
      const command = commandTakes(SWEEP_OPTIONS, "limit", sample);
      const order = { kind: "sweep", scenario: { shipped: "x" }, vary: ["x=1"] };
      const limitMs = Number(sample.sent) * 1_000;
      const { success } = jobOrder.safeParse({ ...order, limitMs });
      assert.equal(success, "value" in command, sample.typed);
    }
  });

  it("--jobs that is not typed is RACKMESH_JOBS, within the same limits, and else the cores", () => {
    const variable = "RACKMESH_JOBS", before = Deno.env.get(variable);
    const jobsWith = (text: string, flags: { readonly jobs?: string } = {}) => {
      Deno.env.set(variable, text);
      return jobsOf(flags);
    };
    try {
      for (const jobs of [1, 2]) assert.equal(jobsWith(`${jobs}`), workersFor({ jobs }));
      assert.equal(jobsWith("2", { jobs: "1" }), 1);
      assert.equal(jobsWith(""), workersFor({}));
      for (const wrong of ["0", "1025", "all"]) {
        assert.throws(() => jobsWith(wrong), /^Refusal: RACKMESH_JOBS is ".+": expected a whole/);
      }
    } finally {
      if (before === undefined) Deno.env.delete(variable);
      else Deno.env.set(variable, before);
    }
  });

  it("of perftest takes the same in an order", () => {
    const names = { size: "size", iters: "iterations", txDepth: "depth", qp: "qps" } as const;
    const takes = (flags: Partial<PerftestFlags>) => {
      const problems = new Problems();
      optionsOf("ib_write_bw", { atomic_type: "", memory: "dram", ...flags } as never, problems);
      return "value" in takenBy(() => problems.refuse());
    };
    const numbers = [0, 1, 2, 128, 129, 8192, 8193, 16_384, 16_385, 1e7, 1e7 + 1];
    for (const [flag, member] of Object.entries(names)) {
      for (const value of [...numbers, 8 * 2 ** 20, 8 * 2 ** 20 + 1]) {
        const order = { kind: "perftest", scenario: { shipped: "x" }, test: "ib_write_bw" };
        const { success } = jobOrder.safeParse({ ...order, [member]: value });
        assert.equal(success, takes({ [flag]: String(value) }), `${flag} ${value}`);
      }
    }
  });

  it("rules between members of an order are checked when it is posted, in an order's words", () => {
    const explore = { kind: "explore" }, sweep = { kind: "sweep" };
    const perftest = { kind: "perftest", test: "ib_write_lat" };
    const cases: readonly (readonly [order: object, path: string, found: RegExp])[] = [
      [{ ...explore, fromPs: 5e6, untilPs: 5e6 }, "fromPs", /^5us: expected .* untilPs \(5us\)$/],
      [{ ...explore, cut: "none", preemptions: 0 }, "cut", /^"none" with preemptions 0, /],
      [{ ...explore, cut: "none", untilPs: 1 }, "cut", /^"none" with untilPs, /],
      [{ ...sweep, vary: ["x=1", "x=2"] }, "vary", /^x a second time/],
      [{ ...sweep, vary: ["x"] }, "vary", /^"x": expected NAME=VALUE/],
      [{ ...sweep, vary: ["x=1,1"] }, "vary x", /^1 twice/],
      [{ ...perftest, from: "a", to: "a" }, "to", /^"a", as is from: expected another host/],
      [{ ...perftest, qps: 2 }, "qps", /^2 of ib_write_lat: expected at most 1$/],
      [{ ...perftest, iterations: 1 }, "iterations", /^1 of ib_write_lat: expected at least 2$/],
      [{ ...perftest, depth: 2 }, "depth", /^2 of ib_write_lat/],
      [{ ...perftest, test: "ib_atomic_bw", size: 16 }, "size", /^16 of ib_atomic_bw: expected 8/],
      [{ ...perftest, test: "ib_atomic_bw", all: true }, "all", /^true of ib_atomic_bw/],
    ];
    for (const [order, path, text] of cases) {
      const { error } = jobOrder.safeParse({ scenario: { shipped: "x" }, ...order });
      assert.deepEqual(error?.issues.map((issue) => issue.path.join(".")), [path]);
      assert.match(error!.issues[0]!.message, text);
    }
    const fitting = {
      ...perftest,
      test: "ib_atomic_lat",
      size: 8,
      from: "a",
      to: "b",
      iterations: 2,
    };
    assert.ok(jobOrder.safeParse({ scenario: { shipped: "x" }, ...fitting }).success);
  });

  it("a refused option has the name that it has where it was given", async () => {
    const refused = async (work: Promise<unknown>) => {
      const error: unknown = await work.then(() => assert.fail("it is taken"), (error) => error);
      assert.ok(error instanceof Refusal);
      return [error, error.inNames(ORDER_NAMES), error.inNames(TEST_NAMES)].map((each) =>
        each.message.replace(/:? .*/s, "")
      );
    };
    const own = await readScenario(`${ROOT}/scripts/scenarios/two_queues.yaml`);
    const pair = await readScenario(`${ROOT}/scripts/scenarios/persist_pair.yaml`);
    const prepared = { packing: "all", isTyped: true } as const;
    const cut = { host: "nobody" };
    assert.deepEqual(
      await Promise.all([
        refused(prepare(own, { ...prepared, method: "write-flush" })),
        refused(exploreScenario(pair, {
          prepare: { ...prepared, method: "write-read", ddio: "on" },
          explore: { ...exploreOptions({}), cut },
        })),
      ]),
      [["--method", "method", "method"], ["--cut", "cut", "cut"]],
    );
    const swept = Promise.resolve().then(() => placesOf("nowhere", { name: "x", hosts: {} }));
    assert.deepEqual(await refused(swept), ["--vary", "vary", "set"]);
  });

  it("of a cable's fault is a key of scenarios, of orders and of the command, and no other is", async () => {
    const program = new Command();
    for (const add of await commandsFor(["link"])) add(program);
    const { commands } = program.commands.find((each) => each.name() === "link")!;
    for (const action of IMPAIRMENTS) {
      const own = Object.entries(FAULT_TERMS as Readonly<Record<string, { of?: string }>>)
        .flatMap(([name, { of = action }]) => of === action ? [name] : []);
      const { options } = commands.find((each) => each.name() === action)!;
      const typed = options.map(({ long }) => long!.slice(2));
      const live = ["run", "json", "override-lock", "at", "for"];
      assert.deepEqual(typed.filter((name) => !live.includes(name)).sort(), own.sort(), action);
    }
    const terms = Object.keys(FAULT_TERMS), keys = Object.keys(linkOrder.shape);
    const around = ["target", "action", "value", "atPs", "forPs", "untilPs"];
    assert.deepEqual(
      keys.filter((key) => !around.includes(key)).sort(),
      terms.filter((term) => term !== "until").sort(),
    );
    const section = Object.keys(linkFaultSchema.shape);
    const written = ["link", "from", ...IMPAIRMENTS, ...terms];
    assert.deepEqual(section.sort(), written.sort());
  });

  it("--pack takes the words that `packing` of an order takes", async () => {
    const kinds = { run: PACKINGS, up: PACKINGS, chaos: PROCESS_PACKINGS } as const;
    for (const [kind, words] of Object.entries(kinds)) {
      for (const packing of [...PACKINGS, "pod"]) {
        const { success } = jobOrder.safeParse({ kind, scenario: { shipped: "x" }, packing });
        assert.equal(success, (words as readonly string[]).includes(packing), `${kind} ${packing}`);
      }
      const program = new Command();
      for (const add of await commandsFor([kind])) add(program);
      const command = program.commands.find((each) => each.name() === kind)!;
      const { description } = command.options.find(({ long }) => long === "--pack")!;
      assert.equal(/: ([\w, ]+)/.exec(description)?.[1], words.join(", "), kind);
    }
  });
});

const BURST = 'burst: { kind: "depth", what: "messages of a burst" },';
const PATIENCE =
  'patience: { type: "whole", least: 1, most: 9, normal: 3, what: "rounds of patience" },';

/** A copy of what a command and the console are made of. */
async function copyTree(to: string): Promise<void> {
  const copy = async (path: string) => {
    for await (const { name, isDirectory } of Deno.readDir(`${ROOT}/${path}`)) {
      const below = `${path}/${name}`;
      if (isDirectory) await copy(below);
      else {
        await Deno.mkdir(`${to}/${path}`, { recursive: true });
        await Deno.copyFile(`${ROOT}/${below}`, `${to}/${below}`);
      }
    }
  };
  for (const folder of ["console", "fabric", "nodes", "scripts", "tests/support"]) {
    await copy(folder);
  }
  for (const file of ["deno.json", "deno.lock"]) {
    await Deno.copyFile(`${ROOT}/${file}`, `${to}/${file}`);
  }
}

describe("a row that is added", () => {
  let tree: string;

  async function addBelow(path: string, line: string, added: string): Promise<void> {
    const text = await Deno.readTextFile(`${tree}/${path}`);
    const [before, after, more] = text.split(`${line}\n`);
    assert.ok(after !== undefined && more === undefined, `${path} has one line ${line}`);
    await Deno.writeTextFile(`${tree}/${path}`, `${before}${line}\n  ${added}\n${after}`);
  }

  async function deno(...args: string[]) {
    const { code, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args,
      cwd: tree,
      env: { NO_COLOR: "1" },
    }).output();
    const decoder = new TextDecoder();
    return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  }

  async function rack(...args: string[]): Promise<string> {
    const { stdout, stderr } = await deno("run", "-A", "--no-check", "scripts/rack.ts", ...args);
    return `${stdout}${stderr}`.replaceAll(/\s+/g, " ");
  }

  interface Probed {
    readonly ordered: readonly object[];
    readonly refusedOrders: readonly boolean[];
    readonly tested: readonly object[];
    readonly refusedTests: readonly string[];
    readonly forms: readonly (readonly string[])[];
  }
  let probed: Probed;

  beforeAll(async () => {
    tree = await Deno.makeTempDir({ prefix: "rackmesh-options-" });
    await copyTree(tree);
    await addBelow("fabric/rack/plan/vocabulary.ts", "const TRANSFER = {", BURST);
    await addBelow("console/api/options.ts", "export const EXPLORE_OPTIONS = {", PATIENCE);
    const { stdout, stderr } = await deno(
      ...["run", "-A", "--quiet", "--no-check", "tests/support/option_probe.ts"],
    );
    probed = JSON.parse(stdout || assert.fail(stderr));
  });

  afterAll(() => Deno.remove(tree, { recursive: true }));

  it("is in the types, too: nothing else has to be written", async () => {
    // What reads the tables by the names of their rows. A check of the whole tree takes half a minute of a processor.
    const files = [
      "console/api/jobs.ts",
      "console/explore/options.ts",
      "console/testing/question.ts",
      "scripts/commands/rack_options.ts",
      "scripts/commands/transfer.ts",
    ];
    const { code, stderr } = await deno("check", "--quiet", ...files);
    assert.equal(code, 0, stderr);
  });

  it("to a scenario's options, is in its checks", async () => {
    const validated = async (burst: number) => {
      const program = `{ on: a, run: put, to: b, bytes: 64, burst: ${burst} }`;
      await Deno.writeTextFile(
        `${tree}/x.yaml`,
        `name: x\nhosts: { a: {}, b: {} }\nprograms:\n  - ${program}\n`,
      );
      return await rack("validate", "x.yaml");
    };
    assert.match(await validated(3), /ok/);
    assert.match(
      await validated(257),
      /x\.yaml:4: programs\[0\]\.burst: found 257, expected a whole number from 1 to 256/,
    );
  });

  it("to a scenario's options, is in the JSON schema", async () => {
    const { stdout } = await deno("run", "-A", "--no-check", "scripts/rack.ts", "schema");
    assert.match(stdout, /"burst": \{\s+"description": "a whole number from 1 to 256"/);
  });

  it("is in the help of commands, and in what a shell completes", async () => {
    for (const command of ["run", "put"]) {
      assert.match(await rack(command, "--help"), /--burst <n> messages of a burst \(1 to 256\)/);
    }
    const help = await rack("explore", "--help");
    assert.match(help, /--patience <n> rounds of patience \(1 to 9; 3 unless given\)/);
    const script = await rack("completion", "fish");
    for (const name of ["burst", "patience"]) assert.match(script, new RegExp(`-l ${name}\\b`));
  });

  it("is refused by the command with the limits that it says", async () => {
    const run = ["explore", "x.yaml", "--burst", "257"];
    assert.match(await rack(...run), /--burst is "257": expected a whole number from 1 to 256/);
    const explore = ["explore", "x.yaml", "--patience", "10"];
    assert.match(await rack(...explore), /--patience is "10": expected a whole number from 1 to 9/);
  });

  it("is in orders of the API, and comes from there into programs and the exploration", () => {
    const [options, exploration] = probed.ordered;
    assert.deepEqual(options, { to: "b", bytes: 64, burst: 3 });
    assert.equal((exploration as { patience?: number }).patience, 4);
    assert.deepEqual(probed.refusedOrders, [false, false]);
  });

  it("is in the options of a test", () => {
    assert.deepEqual(probed.tested, [
      { packing: "all", isTyped: true, burst: 3 },
      { patience: 4 },
    ]);
    assert.deepEqual(probed.refusedTests, [
      "burst is 999: expected a whole number from 1 to 256",
      "patience is 10: expected a whole number from 1 to 9",
    ]);
  });

  it("is in the forms of the page", () => {
    const [explore, chaos] = probed.forms;
    assert.ok(explore!.includes("Burst") && explore!.includes("Patience"), `${explore}`);
    assert.ok(chaos!.includes("Burst") && !chaos!.includes("Patience"), `${chaos}`);
  });

  it("is in the tables of READMEs", async () => {
    await deno("task", "tables");
    const choices = await Deno.readTextFile(`${tree}/scripts/scenarios/SCENARIO.md`);
    assert.match(choices, /\| `--burst` +\| `burst` +\| messages of a burst \(1 to 256\)/);
    const explore = await Deno.readTextFile(`${tree}/console/explore/README.md`);
    assert.match(explore, /\| `--patience` +\| `patience` +\| rounds of patience/);
  });
});
