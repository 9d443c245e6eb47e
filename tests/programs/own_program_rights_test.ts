/**
 * What a program may do that has found a way around the globals that are refused: nothing, wherever
 * it is run. As processes: `tests/rig/device_rights_test.ts`.
 */
import assert from "node:assert/strict";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { explorePrepared } from "../../console/explore/explore_scenario.ts";
import { EXPLORE_DEFAULTS } from "../../console/explore/types.ts";
import { isThere } from "../../console/base/files.ts";
import { NO_CHECK } from "../../console/base/no_check.ts";
import { checkProtocols } from "../../console/reports/protocol_checks.ts";
import { prepare } from "../../console/rack/prepare.ts";
import { runSimulated } from "../../console/rack/run_variant.ts";
import { eventually, TEST_PATIENCE_MS } from "../support/eventually.ts";
import { CommandRig, rackArguments } from "../support/command.ts";
import { allRefused, triesAll } from "../support/tries_all.ts";
import { readScenario } from "../../console/scenarios/scenario_source.ts";

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
});

afterAll(() => rig.close());

/** b recovers in the run, and a when it is over. */
const CUT = "faults: [{ at: 20us, kill: b }, { at: 30us, start: b }, { at: 100us, kill: a }]\n";

async function own(name: string, text: string, faults = ""): Promise<string> {
  await rig.file(`${name}.ts`, text);
  return await rig.file(
    `${name}.yaml`,
    `name: own\nhosts: { a: {}, b: { ddio: off } }\nprograms:\n` +
      `  - { on: [a, b], program: ./${name}.ts, restart: true }\n${faults}`,
  );
}

describe("a program that reaches the real globals", () => {
  /** With the raw text in the place of a bundle. */
  async function prepared(directory: string, faults: string) {
    const scenario = await own("raw", "export default function* () {}\n", faults);
    const [one] = await prepare(await readScenario(scenario), { packing: "all" });
    return { ...one!, programs: { "./raw.ts": triesAll(directory) }, hooked: ["./raw.ts"] };
  }

  it("is refused all in a run with --pack all, as `rack trace` has it, recoveries and checks", async () => {
    const directory = `${rig.cache}/with, a comma`;
    const one = await prepared(directory, CUT);
    const outcome = await runSimulated(one, { run: "x", directory, check: "wire", trace: true });
    const refused = allRefused();
    const { reports } = outcome.finals[0]!;
    const results = reports.filter(({ topic }) => topic === "result");
    assert.ok(results.length >= 2, JSON.stringify(reports));
    for (const { value } of results) assert.deepEqual(value, refused);
    const [verdict] = await checkProtocols(one, { ...outcome, record: outcome.record! });
    const told = JSON.parse(verdict!.findings[0]!);
    assert.deepEqual(told, { checked: refused, recovered: [refused, refused] });
  });

  it("is refused all in `rack explore`", async () => {
    const one = await prepared(rig.cache, "");
    const options = { ...EXPLORE_DEFAULTS, cut: { host: "b" } };
    const { counterexample } = await explorePrepared(one, options, () => {});
    const refused = allRefused();
    const told = JSON.parse(counterexample!.found);
    assert.deepEqual(told, { checked: refused, recovered: [refused] });
  });
});

describe("a program that changes what is built into JavaScript", () => {
  it("writes no file beside outputs/", async () => {
    const taken = `${rig.cache}/taken`;
    const scenario = await own(
      "writes",
      `export default function* ({ cpu }) {
        String.prototype.replaceAll = () => ${JSON.stringify(`${"../".repeat(20)}${taken}`)};
        cpu.report("output", { path: "x", bytes: new Uint8Array(8) });
        yield* cpu.sleep(1);
      }\n`,
    );
    const { code, stdout } = await rig.run(["run", scenario, "--pack", "all"]);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /Cannot write .*taken: Requires write access/);
    await rig.run(["trace", scenario]);
    assert.ok(!isThere(taken));
  });

  it("fails by that where the rack itself calls what it has changed, and is named", async () => {
    const scenario = await own(
      "maps",
      `export default function* ({ cpu }) {
        Map.prototype.get = () => { throw new Error("mine"); };
        yield* cpu.sleep(1);
      }\n`,
    );
    const { code, stderr } = await rig.run(["run", scenario, "--pack", "all"]);
    assert.equal(code, 1, stderr);
    assert.match(
      stderr,
      /maps\.ts:2 runs within the rack, in the place of a function of JavaScript: mine/,
    );
    assert.doesNotMatch(stderr, /\n {4}at /);
  });

  it("has no other text loaded for its check", async () => {
    const taken = `${rig.cache}/checked`;
    const evil = `Deno.writeTextFileSync(${JSON.stringify(taken)}, "");\n` +
      "export default (module) => module.exports.default = function* () {};";
    const scenario = await own(
      "loads",
      `export default function* ({ cpu }) {
        Uint8Array.prototype.toBase64 = () => ${JSON.stringify(btoa(evil))};
        yield* cpu.sleep(1);
      }
      export const check = () => "it was asked";\n`,
    );
    const { code, stdout } = await rig.run(["run", scenario, "--pack", "all"]);
    assert.equal(code, 1, stdout);
    assert.match(stdout, /FAIL protocol-holds.*it was asked/);
    assert.ok(!isThere(taken));
  });
});

/** A command that does not end by itself. */
class Endless {
  readonly #child: Deno.ChildProcess;
  #said = "";
  #hasEnded = false;

  constructor(args: readonly string[]) {
    this.#child = new Deno.Command(Deno.execPath(), {
      args: rackArguments(args),
      env: { RACKMESH_CACHE: rig.cache, [NO_CHECK]: "1" },
      detached: true,
      stdout: "null",
      stderr: "piped",
    }).spawn();
    void this.#listen();
  }

  async #listen(): Promise<void> {
    const texts = this.#child.stderr.pipeThrough(new TextDecoderStream());
    for await (const text of texts) this.#said += text;
    this.#hasEnded = true;
  }

  /** Waits for it on stderr. */
  async says(expected: RegExp): Promise<void> {
    await eventually(`${expected} is said`, () => {
      if (expected.test(this.#said)) return true;
      assert.ok(!this.#hasEnded, `${expected} is not said`);
      return false;
    })
      .catch((cause) => assert.fail(`${cause.message}, but: ${this.#said}`));
  }

  /** Ends the command alone, or as a terminal does. @returns its exit code. */
  async end(signal: "SIGINT" | "SIGKILL"): Promise<number> {
    const { pid, status } = this.#child;
    const timer = setTimeout(() => Deno.kill(-pid, "SIGKILL"), TEST_PATIENCE_MS);
    Deno.kill(signal === "SIGINT" ? -pid : pid, signal);
    const { code } = await status;
    clearTimeout(timer);
    return code;
  }
}

describe("what never ends", () => {
  it("is named with its file after seconds, and goes with the command", async () => {
    const idle =
      "export default function* ({ cpu }) { cpu.report('is', {}); yield* cpu.sleep(1000); }\n";
    const loop = await own(
      "loops",
      "export default function* ({ cpu }) { yield* cpu.sleep(1000); for (;;); }\n",
    );
    const check = await own("checks", `${idle}export const check = () => { for (;;); };\n`);
    const recover = await own(
      "recovers",
      `${idle}export function* recover() { for (;;); }\nexport const check = () => undefined;\n`,
    );
    const processes = new Endless(["run", loop]);
    const packed = new Endless(["run", loop, "--pack", "all"]);
    const checking = new Endless(["run", check, "--pack", "all"]);
    const recovering = new Endless(["explore", recover]);
    await Promise.all([
      processes.says(/waits for a, busy for .* \(it runs \.\/loops\.ts on a, which has to wait/),
      packed.says(/Found \.\/loops\.ts on a running for 5 s: expected a wait \(yield\*\)/),
      checking.says(/Found check of \.\/checks\.ts running for 5 s: expected it to return/),
      recovering.says(/Found recover of \.\/recovers\.ts on a running for 5 s: expected it to ret/),
    ]);
    const codes = await Promise.all([
      processes.end("SIGINT"),
      packed.end("SIGINT"),
      checking.end("SIGKILL"),
      recovering.end("SIGINT"),
    ]);
    assert.deepEqual(codes, [130, 130, 137, 2]);
    await rig.gone();
  });
});
