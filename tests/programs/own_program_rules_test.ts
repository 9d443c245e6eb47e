/** What a protocol of one's own may do and may not: the same verdict in every packing. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { PACKINGS } from "../../fabric/rack/build/topology.ts";
import { CommandRig, type Ended } from "../support/command.ts";

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

/** A scenario in which `hosts` run the program, and host b loses its power where there are faults. */
async function own(
  name: string,
  text: string,
  { hosts = "a", faults = "" }: { readonly hosts?: string; readonly faults?: string } = {},
): Promise<string> {
  await rig.file(`${name}.ts`, text);
  return await rig.file(
    `${name}.yaml`,
    `name: own\nhosts: { a: {}, b: { ddio: off } }\nprograms:\n` +
      `  - { on: [${hosts}], program: ./${name}.ts, restart: true }\n${faults}`,
  );
}

/** Runs it in each packing. */
async function everywhere(
  scenario: string,
  packings: readonly string[] = PACKINGS,
  ...options: string[]
): Promise<Ended[]> {
  const ended: Ended[] = [];
  for (const pack of packings) {
    ended.push(await rig.run(["run", scenario, "--pack", pack, ...options]));
  }
  return ended;
}

/** The program fails with this text, word for word the same in every packing. */
async function failsAlike(name: string, text: string, said: RegExp, options = {}): Promise<void> {
  const found = new Set<string>();
  for (
    const { code, stdout, stderr } of await everywhere(await own(name, text, options), [
      "node",
      "all",
    ])
  ) {
    assert.equal(code, 1, stdout + stderr);
    assert.match(stdout, said);
    found.add(stdout.split("\n").find((line) => line.startsWith("FAIL"))!);
  }
  assert.equal(found.size, 1, [...found].join("\n"));
}

const CUT = "faults: [{ at: 200us, kill: b }, { at: 300us, start: b }]\n";

describe("a module's variables", () => {
  it("are a host's own, and new in each of its lives, in every packing", async () => {
    await rig.file("part.ts", "let calls = 0;\nexport const count = () => ++calls;\n");
    const text = "import { count } from './part.ts';\nlet runs = 0;\n" +
      "export default function* ({ cpu }) {\n" +
      "  cpu.report('result', { counted: [++runs, count(), globalThis.seen = (globalThis.seen ?? 0) + 1] });\n" +
      "  yield* cpu.sleep(cpu.random() < runs ? 1000 : 2000);\n}\n";
    const scenario = await own("counting", text, { hosts: "a, b", faults: CUT });
    const digests = new Set<string>();
    for (const { code, stdout, stderr } of await everywhere(scenario, PACKINGS, "--json")) {
      assert.equal(code, 0, stdout + stderr);
      const { digest, results } = JSON.parse(stdout);
      digests.add(digest);
      const counted = results.map(({ value }: { value: { counted: unknown } }) => value.counted);
      // As processes, the first life of host b takes its report with it.
      assert.ok(counted.length >= 2);
      for (const each of counted) assert.deepEqual(each, [1, 1, 1]);
    }
    assert.equal(digests.size, 1);
  });
});

describe("a global that depends on the machine", () => {
  const uses: readonly (readonly [name: string, use: string, said: RegExp])[] = [
    [
      "timer",
      "setTimeout(() => { throw new Error('late'); }, 1)",
      /found setTimeout: .*cpu\.sleep/,
    ],
    ["rejection", "Promise.reject(new Error('x'))", /found Promise: .*yield\*/],
    ["chance", "Math.random()", /found Math\.random: .*cpu\.random/],
    ["clock", "new Date()", /found Date: .*cpu\.now/],
    ["files", "Deno.readTextFileSync('/etc/passwd')", /found Deno: /],
    ["process", "process.exit(0)", /found process: /],
    ["closing", "globalThis.close()", /found close: /],
    [
      "hidden",
      "Object.getPrototypeOf(globalThis).Deno.exit(0)",
      /Cannot read properties of undefined/,
    ],
    [
      "made",
      "(function* () {}).constructor('return Deno')()",
      /Code generation from strings disallowed/,
    ],
    ["asynchronous", "(async () => 1)()", /found Promise: .*without async/],
  ];
  for (const [name, use, said] of uses) {
    it(`fails the program with one sentence: ${use}`, async () => {
      const text =
        `export default function* ({ cpu }) {\n  yield* cpu.sleep(1000);\n  ${use};\n}\n`;
      await failsAlike(name, text, said);
      const ended = await rig.run(["explore", `${rig.cache}/${name}.yaml`]);
      assert.match(ended.stderr + ended.stdout, said);
      assert.notEqual(ended.code, 0);
    });
  }

  it("is shown with the place in the user's file that is not bundled", async () => {
    await rig.file(
      "deep.ts",
      "\n\nexport function wait(): void {\n  setTimeout(() => {}, 1);\n}\n",
    );
    const text =
      "import { wait } from './deep.ts';\n\nexport default function* () {\n  wait();\n}\n";
    const [ended] = await everywhere(await own("shown", text));
    assert.match(ended!.stdout, /at wait \(file:.*\/deep\.ts:4:3\)\n.*\/shown\.ts:4:3\)/);
    assert.doesNotMatch(ended!.stdout, /data:|own_programs/);
  });

  it("is refused before anything starts where the top level uses it", async () => {
    const whole = "export default function* () {}\n";
    const before = rig.runs().length;
    for (
      const [name, top, said] of [
        ["exits", "Deno.exit(0);", /Cannot load .*exits\.ts: found Deno: /],
        ["awaits", "await 1;", /Cannot load .*awaits\.ts: found await at its top level.* at 1:1$/m],
        ["throws", "throw new Error('mine');", /Cannot load .*throws\.ts: mine/],
      ] as const
    ) {
      const scenario = await own(name, `${top}\n${whole}`);
      for (const command of ["run", "up", "explore", "validate"]) {
        const { code, stdout, stderr } = await rig.run([command, scenario]);
        assert.equal(code, 64, stdout + stderr);
        if (command !== "validate") assert.match(stderr, said);
      }
    }
    assert.equal(rig.runs().length, before);
  });
});

describe("a top level that does not end", () => {
  it("is refused after seconds", async () => {
    const scenario = await own("loops", "for (;;);\nexport default function* () {}\n");
    const { code, stderr, wallMs } = await rig.run(["run", scenario]);
    assert.equal(code, 64, stderr);
    assert.match(stderr, /Cannot load .*loops\.ts: its top level has not ended after 10 s/);
    assert.ok(wallMs < 20_000, `${wallMs} ms`);
  });
});

describe("a program that never waits", () => {
  it("is named after seconds, where it holds up the command, and Ctrl-C ends it", async () => {
    const text =
      "export default function* ({ cpu }) {\n  yield* cpu.sleep(1000);\n  for (;;);\n}\n";
    const scenario = await own("endless", text);
    for (const args of [["run", scenario, "--pack", "all"], ["explore", scenario]]) {
      const command = rig.start(args, { detached: true });
      setTimeout(() => command.interrupt(), 12_000);
      const { stderr, wallMs } = await command.ended;
      assert.match(
        stderr,
        /Found \.\/endless\.ts on a running for 5 s: expected a wait \(yield\*\)/,
      );
      assert.ok(wallMs < 20_000, `${wallMs} ms`);
    }
  });
});

describe("a function that is async", () => {
  it("is no program", async () => {
    const said = /found Promise: a program is a function\*, without async/;
    await failsAlike("later", "export default async function () {}\n", said);
    await failsAlike(
      "steps",
      "export default async function* () {}\n",
      /must be a generator function/,
    );
  });

  it("is no recovery and no check", async () => {
    const whole = "export default function* () {}\n";
    const said = /found Promise: /;
    const recover = `${whole}export async function recover() {}\n`;
    await failsAlike("recovers", recover, said, { hosts: "b", faults: CUT });
    await failsAlike("checks", `${whole}export const check = async () => undefined;\n`, said);
  });
});

describe("what a program prints", () => {
  it("does not stand in front of --json", async () => {
    const text = "console.log('at the top');\n" +
      "export default function* () { console.log('inside'); console.table([1]); }\n";
    for (
      const { code, stdout, stderr } of await everywhere(
        await own("prints", text),
        PACKINGS,
        "--json",
      )
    ) {
      assert.equal(code, 0, stderr);
      assert.equal(JSON.parse(stdout).scenario, "own");
    }
  });
});

describe("the path of a program", () => {
  for (const name of ["a#b", "a?b", "a%41", "a\\b", "a'\"b", "a b"]) {
    it(`may have any character: ${name}`, async () => {
      await rig.file(`part ${name}.ts`, `export const text = ${JSON.stringify(name)};\n`);
      await rig.file(
        `${name}.ts`,
        `import { text } from ${JSON.stringify(`./part ${name}.ts`)};\n` +
          "export default function* ({ cpu }) { cpu.report('result', { text }); }\n",
      );
      const scenario = await rig.file(
        "path.yaml",
        `name: path\nhosts: { a: {} }\nprograms:\n  - on: a\n    program: ${
          JSON.stringify(`./${name}.ts`)
        }\n`,
      );
      for (const { code, stdout, stderr } of await everywhere(scenario, PACKINGS, "--json")) {
        assert.equal(code, 0, stderr);
        assert.equal(JSON.parse(stdout).results[0].value.text, name);
      }
    });
  }
});

describe("a rack that stays up with own programs", () => {
  it("takes orders, and goes on when its broker and a host have died", async () => {
    const text =
      "export default function* ({ cpu }) { yield* cpu.waitSignal('never', Infinity); }\n";
    const scenario = await own("lasting", text, { hosts: "a, b" });
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
