/** What a user's first protocol does wrong, and what the command says of it: never a stack trace of ours. */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { CommandRig, type Said } from "../support/command.ts";

const SCENARIO = `
name: own
hosts: { a: {}, b: { scm: { size: 64KiB } } }
programs:
  - { on: b, program: ./PROGRAM }
`;

const WHOLE = "export default function* ({ cpu }) { cpu.report('result', { now: cpu.now }); }\n";

const TWO_QUEUES = new URL("../../scripts/scenarios/two_queues.yaml", import.meta.url).pathname;
const MY_PROTOCOL = new URL("../../scripts/scenarios/my_protocol.yaml", import.meta.url).pathname;

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

/** A scenario with one program, of this text. */
async function own(name: string, text: string): Promise<string> {
  await rig.file(`${name}.ts`, text);
  return await rig.file(`${name}.yaml`, SCENARIO.replace("PROGRAM", `${name}.ts`));
}

function assertNoTrace({ stdout, stderr }: Pick<Said, "stdout" | "stderr">): void {
  assert.doesNotMatch(stdout + stderr, /\/(scripts|fabric|tests)\/[\w/]+\.ts:\d/);
}

async function runOf(name: string, text: string, code: number): Promise<Said> {
  const ended = await rig.run(["run", await own(name, text), "--pack", "all"]);
  assertNoTrace(ended);
  assert.equal(ended.code, code, ended.stdout + ended.stderr);
  return ended;
}

async function refused(
  cases: readonly (readonly [args: readonly string[], said: RegExp])[],
): Promise<void> {
  const refusals = await rig.each(cases.map(([args]) => args));
  for (const [i, ended] of refusals.entries()) {
    assertNoTrace(ended);
    assert.equal(ended.code, 64, ended.stdout + ended.stderr);
    assert.match(ended.stderr, cases[i]![1]);
  }
}

describe("a protocol of one's own: what it reports", () => {
  it("may be of any form under any topic that is a program's own", async () => {
    const topics = ["result", "served", "recovered", "progress", "output", "mine"];
    const text = `export default function* ({ cpu }) {
  for (const topic of ${JSON.stringify(topics)}) {
    for (const value of [null, 7, "x", [null]]) cpu.report(topic, value);
  }
}\n`;
    await runOf("forms", text, 0);
  });

  it("is refused under a topic by which the run is judged", async () => {
    const text = "export default function* ({ cpu }) { cpu.report('held', null); }\n";
    const { stdout } = await runOf("judged", text, 1);
    assert.match(stdout, /own: b: Cannot report: found topic "held", expected another topic/);
  });

  it("is shown and kept where it has bytes and bigints in it", async () => {
    const text = "export default function* ({ cpu }) {\n" +
      "  cpu.report('result', { va: 2n ** 40n, bytes: Uint8Array.of(1, 255) });\n}\n";
    const { stdout } = await runOf("bigint", text, 0);
    assert.match(stdout, /own: b: \{"va":1099511627776,"bytes":"01ff"\}/);
    const scenario = `${rig.cache}/bigint.yaml`;
    const ended = await rig.run(["run", scenario, "--pack", "all", "--json"]);
    assert.equal(JSON.parse(ended.stdout).results[0].value.va, 2 ** 40);
  });

  it("is refused, with its place, where another process could not read it", async () => {
    const text = "export default function* ({ cpu }) {\n" +
      "  cpu.report('result', { found: new Map() });\n}\n";
    const { stdout } = await runOf("map", text, 1);
    assert.match(stdout, /Cannot report "result": found a Map at \.found, expected plain data/);
    assert.match(stdout, /at default.* \(.*\/map\.ts:2:7\)|at .*\/map\.ts:2:7/);
  });

  it("is why it failed, also where it has no `error`", async () => {
    const text = "export default function* ({ cpu }) {\n" +
      "  cpu.report('result', { status: 'failed', reason: 'gone' });\n}\n";
    const { stdout } = await runOf("refusal", text, 1);
    assert.match(stdout, /FAIL programs-run-through: own: b: gone/);
  });
});

describe("a protocol of one's own: a file that cannot be loaded", () => {
  it("is refused before anything is started", async () => {
    const scenario = await own("torn", "export default function* (");
    const before = rig.runs().length;
    const said = /^Cannot load .*torn\.ts: Expected identifier .* at 1:27$/m;
    await refused(["run", "up", "explore"].map((command) => [[command, scenario], said] as const));
    assert.equal(rig.runs().length, before);
  });
});

describe("a protocol of one's own: recover and check", () => {
  it("are told what a check is to answer, in a run and in the explorer", async () => {
    const scenario = await own("boolean", WHOLE + "export const check = () => true;\n");
    const answers = /check answers true: expected what is wrong, in words/;
    const ended = await rig.run(["run", scenario, "--pack", "all"]);
    assertNoTrace(ended);
    assert.equal(ended.code, 1);
    assert.match(ended.stdout, answers);
    const explored = await rig.run(["explore", scenario]);
    assert.equal(explored.code, 1);
    assert.match(explored.stdout, answers);
  });

  it("end where a recovery waits for ever", async () => {
    const text = WHOLE +
      "export function* recover({ cpu }) { for (;;) yield* cpu.sleep(1000); }\n";
    const ended = await rig.run(["explore", await own("patient", text), "--cut", "b"]);
    assert.equal(ended.code, 1, ended.stderr);
    assert.match(ended.stdout, /recover failed on b: The recovery of b waits without end/);
  });

  it("are missed where nothing else says what has to hold", async () => {
    const { code, stdout, stderr } = await rig.run(["explore", MY_PROTOCOL]);
    assert.equal(code, 2, stderr);
    assert.match(stdout, /^unchecked/);
    assert.match(stderr, /my-protocol: nothing was promised or checked: .*cpu\.note.*check/);
    const checked = await rig.run(["explore", TWO_QUEUES, "--until", "10us"]);
    assert.doesNotMatch(checked.stderr, /nothing was promised/);
  });
});

describe("a command line that would be passed over", () => {
  it("is refused: what no program takes, what the matrix does not, a span without an instant", async () => {
    const nobody = /--method is "write-flush", and no program of .*two_queues\.yaml has a method/;
    await refused([
      [["run", TWO_QUEUES, "--pack", "all", "--method", "write-flush"], nobody],
      [["explore", TWO_QUEUES, "--depth", "2"], /no program of .* has a depth/],
      [["explore", "--matrix", "--cuts", "2"], /--cuts and --matrix stand together/],
      [
        ["explore", TWO_QUEUES, "--from", "2us", "--until", "1us"],
        /--from is 2us: expected a time before --until \(1us\)/,
      ],
      [["trace", TWO_QUEUES, "--on", "c"], /--on is "c": expected one of a, b/],
    ]);
  });

  it("is refused before the run where its captures cannot be written, and leaves nothing of it", async () => {
    const file = await rig.file("file", ""), before = rig.runs();
    const pair = fromFileUrl(projectFile("scripts/scenarios/persist_pair.yaml"));
    const written = /Cannot write what (pcap|perfetto) asks for to .*file\/in/;
    await refused([
      ...["--pcap", "--perfetto"].flatMap((option) =>
        ["run", "up"].map((command) =>
          [[command, TWO_QUEUES, "--pack", "all", option, `${file}/in/it`], written] as const
        )
      ),
      [["explore", pair, "--cut", "c"], /--cut is "c": expected a, b, each, all or none/],
    ]);
    assert.deepEqual(rig.runs().filter((run) => !before.includes(run)), []);
  });

  it("says which runs have logs, and what a name was taken for", async () => {
    const alone = await CommandRig.open();
    try {
      await alone.run(["run", TWO_QUEUES, "--pack", "all"]);
      const { code, stderr } = await alone.run(["logs"]);
      assert.equal(code, 64);
      assert.match(stderr, /^two-queues-.* has no logs: expected --run with a run as processes/);
      const rm = await alone.run(["runs", "rm", "x"]);
      assert.match(
        rm.stderr,
        /^The run is "x": 0 runs have that name: expected one of two-queues-/,
      );
    } finally {
      await alone.close();
    }
  });
});
