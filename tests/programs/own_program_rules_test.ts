/** What a protocol of one's own may do and may not: the same verdict in every packing. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { Refusal } from "../../fabric/rack/plan/problem.ts";
import { PACKINGS } from "../../fabric/rack/assembly/topology.ts";
import { bundleProgram } from "../../console/rack/own/bundle.ts";
import { reachOfProgram } from "../../console/rack/prepare.ts";
import { probeProgram } from "../../console/rack/own/probe.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { isAlive } from "../../console/base/process_stat.ts";
import { RackError } from "../../console/base/rack_error.ts";
import { forEachAtOnce } from "../../console/base/at_once.ts";
import { CommandRig, type Ended } from "../support/command.ts";
import { atSomePace } from "../support/eventually.ts";

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

/** A line of a scenario's programs: host `on` runs the program of the name. */
async function program(name: string, text: string, on = "a"): Promise<string> {
  await rig.file(`${name}.ts`, text);
  return `  - { on: [${on}], program: ${JSON.stringify(`./${name}.ts`)}, restart: true }\n`;
}

/** A scenario of these programs, in which host b loses its power where there are faults. */
async function own(name: string, programs: readonly string[], faults = ""): Promise<string> {
  return await rig.file(
    `${name}.yaml`,
    `name: own\nhosts: { a: {}, b: { ddio: off } }\nprograms:\n${programs.join("")}${faults}`,
  );
}

const WHOLE = "export default function* () {}\n";
const CUT = "faults: [{ at: 200us, kill: b }, { at: 300us, start: b }]\n";

describe("programs that do what they may", () => {
  const NAMES = ["a#b", "a?b", "a%41", "a\\b", "a'\"b", "a b"];
  /** The document of a run in each packing. */
  const documents: { digest: string; scenario: string; results: { value: Said }[] }[] = [];

  interface Said {
    readonly counted?: unknown;
    readonly text?: string;
    readonly units?: unknown;
  }

  beforeAll(async () => {
    await rig.file("part.ts", "let calls = 0;\nexport const count = () => ++calls;\n");
    const counting = "import { count } from './part.ts';\nlet runs = 0;\n" +
      "export default function* ({ cpu }) {\n" +
      "  cpu.report('result', { counted: [++runs, count(), globalThis.seen = (globalThis.seen ?? 0) + 1] });\n" +
      "  yield* cpu.sleep(cpu.random() < runs ? 1000 : 2000);\n}\n";
    const prints = "console.log('at the top');\n" +
      "export default function* () { console.log('inside'); console.table([1]); }\n";
    const programs = [
      await program("counting", counting, "a, b"),
      await program("prints", prints),
    ];
    for (const name of NAMES) {
      await rig.file(`part ${name}.ts`, `export const text = ${JSON.stringify(name)};\n`);
      const text = `import { text } from ${JSON.stringify(`./part ${name}.ts`)};\n` +
        "export default function* ({ cpu }) { cpu.report('result', { text }); }\n";
      programs.push(await program(name, text));
    }
    const units = JSON.stringify(fromFileUrl(projectFile("nodes/host/own_options.ts")));
    await rig.file(
      "units.ts",
      `import { sizeOption, timeOption } from ${units};\n` +
        "export default function* ({ cpu, options }) {\n" +
        "  const units = [sizeOption(options, 'size'), timeOption(options, 'every')];\n" +
        "  cpu.report('result', { units });\n}\n",
    );
    programs.push("  - { on: [a], program: ./units.ts, size: 64KiB, every: 10us }\n");
    const scenario = await own("may", programs, CUT);
    await forEachAtOnce(PACKINGS, async (pack) => {
      const { code, stdout, stderr } = await rig.run(["run", scenario, "--pack", pack, "--json"]);
      assert.equal(code, 0, stdout + stderr);
      documents.push(JSON.parse(stdout));
    });
  });

  it("read sizes and times with their units, by a module of the project that is bundled with them", () => {
    for (const { results } of documents) {
      const units = results.flatMap(({ value }) => value.units === undefined ? [] : [value.units]);
      assert.deepEqual(units, [[65_536, 10_000_000]]);
    }
  });

  it("have module variables of their host, new in each of its lives, in every packing", () => {
    for (const { results } of documents) {
      const counted = results.flatMap(({ value }) => value.counted === undefined ? [] : [value]);
      // As processes, the first life of host b takes its report with it.
      assert.ok(counted.length >= 2);
      for (const { counted: each } of counted) assert.deepEqual(each, [1, 1, 1]);
    }
    assert.equal(new Set(documents.map(({ digest }) => digest)).size, 1);
  });

  it("print, and that does not stand in front of --json", () => {
    assert.deepEqual(documents.map(({ scenario }) => scenario), PACKINGS.map(() => "own"));
  });

  it(`may have any character in their paths: ${NAMES.join(" ")}`, () => {
    for (const { results } of documents) {
      const texts = results.flatMap(({ value }) => value.text ?? []);
      assert.deepEqual(texts.sort(), NAMES.toSorted());
    }
  });
});

describe("a rule of the judge of placements", () => {
  it("C-04: decides in every packing alike, and a run needs its file", async () => {
    await rig.file(
      "rule.ts",
      "let windows = 0;\nexport default () => ++windows % 2 === 1 ? 'local' : 'remote';\n",
    );
    await rig.file(
      "loads.ts",
      "export default function* ({ cpu }) {\n  const region = yield* cpu.region('s');\n" +
        "  for (let i = 0; i < 30; i++) { yield* region.load(0, 8); yield* cpu.sleep(10e6); }\n}\n",
    );
    const scenario = (rule: string) =>
      "name: ruled\ndefaults: { attach: coherent, services: none }\nhosts: { a: {}, b: {} }\n" +
      `shared: [{ name: s, home: a, far: [b], bytes: 64, judge: { rule: ${rule}, window: 40us } }]\n` +
      "programs: [{ on: all, program: ./loads.ts }]\n";
    const file = await rig.file("ruled.yaml", scenario("./rule.ts"));
    const digests = new Set<string>();
    for (const pack of PACKINGS) {
      const { code, stdout, stderr } = await rig.run(["run", file, "--pack", pack, "--json"]);
      assert.equal(code, 0, stdout + stderr);
      const { digest, shared: { placements: [row] } } = JSON.parse(stdout);
      digests.add(digest);
      assert.ok(row.moves.length >= 2, stdout);
      assert.deepEqual(row.moves.slice(0, 2).map(({ place }: { place: string }) => place), [
        "local",
        "remote",
      ]);
    }
    assert.equal(digests.size, 1);
    const missing = await rig.file("missing.yaml", scenario("./none.ts"));
    const { code, stderr } = await rig.run(["validate", missing]);
    assert.notEqual(code, 0);
    assert.match(stderr, /none\.ts/);
  });
});

describe("programs that do what they may not", () => {
  /** Each use, and what its program fails with. */
  const uses: Readonly<Record<string, readonly [use: string, said: RegExp]>> = {
    timer: [
      "setTimeout(() => { throw new Error('late'); }, 1)",
      /found setTimeout: .*cpu\.sleep/,
    ],
    rejection: ["Promise.reject(new Error('x'))", /found Promise: .*yield\*/],
    chance: ["Math.random()", /found Math\.random: .*cpu\.random/],
    clock: ["new Date()", /found Date: .*cpu\.now/],
    files: ["Deno.readTextFileSync('/etc/passwd')", /found Deno: /],
    process: ["process.exit(0)", /found process: /],
    closing: ["globalThis.close()", /found close: /],
    hidden: [
      "Object.getPrototypeOf(globalThis).Deno.exit(0)",
      /Cannot read properties of undefined/,
    ],
    made: [
      "(function* () {}).constructor('return Deno')()",
      /Code generation from strings disallowed/,
    ],
    asynchronous: ["(async () => 1)()", /found Promise: .*without async/],
  };
  /** Whole files, and what their program fails with. */
  const files: Readonly<Record<string, readonly [text: string, said: RegExp, on?: string]>> = {
    later: [
      "export default async function () {}\n",
      /found Promise: a program is a function\*, without async.*\n.*\/later\.ts:1:/,
    ],
    steps: ["export default async function* () {}\n", /must be a generator function/],
    recovers: [
      `${WHOLE}export async function recover() {}\n`,
      /found Promise: .*\n.*\/recovers\.ts:2:/,
      "b",
    ],
    checks: [
      `${WHOLE}export const check = async () => undefined;\n`,
      /checks\.ts: check throws found Promise: /,
    ],
  };
  let scenario: string;
  let ended: readonly Ended[];

  beforeAll(async () => {
    await rig.file("deep.ts", "\n\nexport function wait() {\n  setTimeout(() => {}, 1);\n}\n");
    const programs = [
      await program(
        "shown",
        "import { wait } from './deep.ts';\n\nexport default function* () {\n  wait();\n}\n",
      ),
    ];
    for (const [name, [use]] of Object.entries(uses)) {
      const text =
        `export default function* ({ cpu }) {\n  yield* cpu.sleep(1000);\n  ${use};\n}\n`;
      programs.push(await program(name, text));
    }
    for (const [name, [text, , on]] of Object.entries(files)) {
      programs.push(await program(name, text, on));
    }
    scenario = await own("may_not", programs, CUT);
    ended = await Promise.all(
      ["node", "all"].map((pack) => rig.run(["run", scenario, "--pack", pack])),
    );
  });

  for (const [name, [use, said]] of Object.entries(uses)) {
    it(`fail with one sentence and its place: ${use}`, () => {
      const found = new RegExp(`: a: ${said.source}.*\\n(?: {4}at .*\\n)*? {4}at .*/${name}\\.ts:`);
      for (const { stdout, stderr } of ended) assert.match(stdout + stderr, found);
    });
  }

  it("are async: a program, its recovery, its check", () => {
    for (const [, said] of Object.values(files)) {
      for (const { stdout, stderr } of ended) assert.match(stdout + stderr, said);
    }
  });

  it("fail the run, word for word the same in every packing", () => {
    const failures = ended.map(({ code, stdout }) => {
      assert.equal(code, 1, stdout);
      return stdout.split("\n").filter((line) => line.startsWith("FAIL"));
    });
    assert.ok(failures[0]!.length > 0);
    assert.deepEqual(failures[0], failures[1]);
  });

  it("are shown with the place in the user's file that is not bundled", () => {
    for (const { stdout, stderr } of ended) {
      const text = stdout + stderr;
      assert.match(text, /at wait \(file:.*\/deep\.ts:4:3\)\n.*\/shown\.ts:4:3\)/);
      assert.doesNotMatch(text, /data:|own_programs/);
    }
  });

  it("fail the explorer's plain run", async () => {
    const explored = await own("explored", ["  - { on: a, program: ./timer.ts }\n"]);
    const { code, stdout, stderr } = await rig.run(["explore", explored]);
    assert.equal(code, 1, stderr);
    assert.match(stdout, /^failed .*the plain run failed: a: found setTimeout: .*cpu\.sleep/);
  });
});

describe("a program whose top level does what it may not", () => {
  const tops = [
    ["exits", "Deno.exit(0);", /Cannot load .*exits\.ts: found Deno: /],
    ["awaits", "await 1;", /Cannot load .*awaits\.ts: found await at its top level.* at 1:1/],
    ["throws", "throw new Error('mine');", /Cannot load .*throws\.ts: mine/],
  ] as const;

  it("is refused by each command before anything starts", async () => {
    const before = rig.runs().length;
    const lines: string[] = [];
    for (const [name, top] of tops) lines.push(await program(name, `${top}\n${WHOLE}`));
    await forEachAtOnce(["run", "up", "explore"], async (command, i) => {
      const [name, , said] = tops[i]!;
      const { code, stdout, stderr } = await rig.run([command, await own(name, [lines[i]!])]);
      assert.equal(code, 64, stdout + stderr);
      assert.match(stderr, said);
    });
    const { code, stdout, stderr } = await rig.run(["validate", await own("all_tops", lines)]);
    assert.equal(code, 64, stdout + stderr);
    for (const [, , said] of tops) assert.match(stderr, said);
    assert.equal(rig.runs().length, before);
  });
});

describe("a top level without an end", () => {
  it("is refused when it has used so much of a processor", async () => {
    const path = await rig.file("loops.ts", `for (;;);\n${WHOLE}`);
    const text = await bundleProgram(path, { reach: reachOfProgram(path) });
    await assert.rejects(probeProgram(text, { path, processorMs: 700 }), (error) => {
      assert.ok(error instanceof Refusal);
      assert.match(
        error.message,
        /Cannot load .*loops\.ts: its top level has not ended after 0\.7 s of processor time/,
      );
      return true;
    });
  });
});

describe("a top level that waits", () => {
  const WAITS = "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);\n";
  let path: string, text: string;

  beforeAll(async () => {
    path = await rig.file("waits.ts", `${WAITS}${WHOLE}`);
    text = await bundleProgram(path, { reach: reachOfProgram(path) });
  });

  it("is refused, though it uses no processor", async () => {
    // On a busy machine the process has not slept for half of a short patience.
    await atSomePace(async (slower) => {
      const patienceMs = 1_000 * slower;
      await assert.rejects(probeProgram(text, { path, patienceMs }), (error) => {
        assert.ok(error instanceof Refusal, String(error));
        const said = `its top level waits: .* after ${slower} s`;
        assert.match(error.message, new RegExp(`Cannot load .*waits\\.ts: ${said}`));
        return true;
      });
    });
  });

  it("is refused, too, where it computes between its waits", async () => {
    const turns = "for (;;) { for (let i = 0; i < 1e8; i++); " +
      "Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 800); }\n";
    const own = await rig.file("turns.ts", `${turns}${WHOLE}`),
      bundled = await bundleProgram(own, { reach: reachOfProgram(own) });
    await atSomePace(async (slower) => {
      const limits = { patienceMs: 2_000 * slower, processorMs: 60_000 };
      await assert.rejects(probeProgram(bundled, { path: own, ...limits }), (error) => {
        assert.ok(error instanceof Refusal, String(error));
        assert.match(error.message, /Cannot load .*turns\.ts: its top level waits: /);
        return true;
      });
    });
  });

  it("is given up when the signal is aborted", async () => {
    const ending = new AbortController();
    const reason = new Error("interrupted");
    let pid = 0;
    const probing = probeProgram(text, {
      path,
      signal: ending.signal,
      onStart(started) {
        pid = started;
        setTimeout(() => ending.abort(reason), 300);
      },
    });
    await assert.rejects(probing, (error) => error === reason);
    assert.ok(!isAlive(pid));
  });
});

describe("a top level that ends, on a machine that holds its process up", () => {
  let path: string, text: string;

  beforeAll(async () => {
    path = await rig.file("whole.ts", WHOLE);
    text = await bundleProgram(path, { reach: reachOfProgram(path) });
  });

  it("is loaded, however long that is", async () => {
    const probing = probeProgram(text, {
      path,
      processorMs: 1_000,
      onStart(pid) {
        Deno.kill(pid, "SIGSTOP");
        // Longer than its processor time.
        setTimeout(() => Deno.kill(pid, "SIGCONT"), 1_500);
      },
    });
    assert.equal((await probing).why, undefined);
  });

  it("is no mistake of the user's, though it never goes on", async () => {
    const onStart = (pid: number) => Deno.kill(pid, "SIGSTOP");
    await assert.rejects(probeProgram(text, { path, patienceMs: 300, onStart }), (error) => {
      assert.ok(error instanceof RackError && !(error instanceof Refusal));
      assert.match(
        error.message,
        /has not answered for 0\.3 s, .*the machine is stopped or overload/,
      );
      return true;
    });
  });
});

describe("a rack that stays up with own programs", () => {
  it("takes orders, and goes on when its broker and a host have died", async () => {
    const text =
      "export default function* ({ cpu }) { yield* cpu.waitSignal('never', Infinity); }\n";
    const scenario = await own("lasting", [await program("lasting", text, "a, b")]);
    const file = await rig.file("data.bin", Uint8Array.from({ length: 5000 }, (_, i) => i % 251));
    const rack = async (...args: string[]) => {
      const { code, stdout, stderr } = await rig.run(args);
      assert.equal(code, 0, `${args.join(" ")}: ${stdout}${stderr}`);
    };
    await rack("up", scenario);
    try {
      await rack("put", file, "--to", "b", "--method", "persist-opcode");
      await rack("kill", "nats");
      await rack("kill", "b");
      await rack("start", "b");
      await rack("get", "--from", "b", "data.bin", `${rig.cache}/copy.bin`);
      assert.deepEqual(await Deno.readFile(`${rig.cache}/copy.bin`), await Deno.readFile(file));
    } finally {
      await rig.run(["down"]);
    }
    assert.deepEqual(rig.processes(), []);
  });
});
