/**
 * `rack run --pack all --inspect-brk`, driven by the inspector's protocol as DevTools and VS Code do: the
 * run stops in the user's file, and a breakpoint of a line of TypeScript is hit at that line.
 */
import assert from "node:assert/strict";
import { SourceMap, type SourceMapPayload } from "node:module";
import { afterAll, beforeAll, describe, it } from "@std/testing/bdd";
import { CommandRig, type RunningCommand } from "../support/command.ts";
import { eventually } from "../support/eventually.ts";

const PROTOCOL = `import type { CrashView, ProgramContext, RecoveryContext, Steps } from "rackmesh";
import { doubled } from "./inspected_help.ts";

interface Found {
  readonly sum: number;
}

export default function* inspected({ cpu }: ProgramContext): Steps<void> {
  const found: Found = { sum: doubled(21) };
  yield* cpu.sleep(1_000);
  cpu.report("result", found);
  yield* cpu.ntStore(cpu.scm.address, Uint8Array.of(found.sum));
}

export function* recover({ cpu, host }: RecoveryContext): Steps<number> {
  const first = cpu.load(cpu.scm.address, 1)[0]!;
  yield* cpu.settle();
  return first;
}

export function check({ hosts }: CrashView): string {
  const { recovered } = hosts["b"]!;
  return \`b recovers \${recovered}\`;
}
`;
const SCENARIO = `name: inspected
seed: 7
profile: clx-optane-cx5
hosts: { a: {}, b: {} }
programs: [{ on: a, program: ./inspected.ts }, { on: b, program: ./inspected.ts }]
faults: [{ at: 90us, kill: b }]
`;
/** Lines of the program, of its recovery and of its check. */
const BREAK_AT = 10, RECOVERS_AT = 17, CHECKS_AT = 23;

interface Message {
  readonly id?: number;
  readonly result?: unknown;
  readonly method?: string;
  readonly params?: Record<string, unknown>;
}

interface Place {
  readonly scriptId: string;
  readonly lineNumber: number;
  readonly columnNumber: number;
}

/** A debugger: questions with their answers, and events in the order in which they come. */
class Debugger {
  readonly #socket: WebSocket;
  readonly #answers = new Map<number, (result: unknown) => void>();
  readonly #events: Message[] = [];
  #count = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.addEventListener("message", ({ data }) => {
      const message = JSON.parse(data) as Message;
      if (message.id === undefined) this.#events.push(message);
      else this.#answers.get(message.id)?.(message.result);
    });
  }

  static async attach(url: string): Promise<Debugger> {
    const socket = new WebSocket(url);
    await new Promise((resolve, reject) => {
      socket.addEventListener("open", resolve);
      socket.addEventListener("error", reject);
    });
    return new Debugger(socket);
  }

  ask<Result>(method: string, params: object = {}): Promise<Result> {
    const id = ++this.#count;
    const answer = new Promise<Result>((resolve) =>
      this.#answers.set(id, (result) => resolve(result as Result))
    );
    this.#socket.send(JSON.stringify({ id, method, params }));
    return answer;
  }

  /** The next event of this kind, of which earlier ones are forgotten. */
  async next(
    method: string,
    is: (params: Record<string, unknown>) => boolean = () => true,
  ): Promise<Record<string, unknown>> {
    let at = -1;
    await eventually(method, () => {
      at = this.#events.findIndex((each) => each.method === method && is(each.params!));
      return at >= 0;
    });
    return this.#events.splice(at, 1)[0]!.params!;
  }

  close(): void {
    this.#socket.close();
  }
}

let rig: CommandRig;

beforeAll(async () => {
  rig = await CommandRig.open();
  await rig.file("inspected.ts", PROTOCOL);
  const help = "export function doubled(x: number): number {\n  return 2 * x;\n}\n";
  await rig.file("inspected_help.ts", help);
  await rig.file("inspected.yaml", SCENARIO);
});

afterAll(() => rig.closeDown());

/** The address that the run says, as a person reads it. */
async function addressOf(command: RunningCommand): Promise<string> {
  const pattern = /ws:\/\/127\.0\.0\.1:\d+\/\S+/;
  await eventually("a debugger is waited for", () => pattern.test(command.stderr));
  return pattern.exec(command.stderr)![0];
}

function mapOf(script: Record<string, unknown>): SourceMap {
  const encoded = String(script["sourceMapURL"]).replace(/^.*;base64,/, "");
  const text = new TextDecoder().decode(Uint8Array.fromBase64(encoded));
  return new SourceMap(JSON.parse(text) as SourceMapPayload);
}

/** The user's file and its line, from 1, of a place in the program that runs. */
function userPlace(map: SourceMap, { lineNumber, columnNumber }: Place): string {
  const found = map.findEntry(lineNumber, columnNumber);
  if (!("originalSource" in found)) return "";
  return `${found.originalSource}:${found.originalLine + 1}`;
}

/** Where a line of the user's file begins in the program that runs. */
function placeOf(map: SourceMap, file: string, line: number): Omit<Place, "scriptId"> {
  for (let lineNumber = 0; lineNumber < 2_000; lineNumber++) {
    for (let columnNumber = 0; columnNumber < 200; columnNumber++) {
      const found = map.findEntry(lineNumber, columnNumber);
      if (!("originalSource" in found) || found.generatedLine !== lineNumber) continue;
      if (found.originalSource === file && found.originalLine === line - 1) {
        return { lineNumber, columnNumber: found.generatedColumn };
      }
    }
  }
  throw new Error(`line ${line} of ${file} is not in the map`);
}

describe("rack run --inspect-brk", () => {
  it("stops in the user's file, and at a breakpoint of a line of TypeScript", async () => {
    const scenario = `${rig.cache}/inspected.yaml`;
    const command = rig.start(["run", scenario, "--pack", "all", "--inspect-brk", "0", "--json"]);
    const tool = await Debugger.attach(await addressOf(command));
    await tool.ask("Runtime.enable");
    await tool.ask("Debugger.enable");
    await tool.ask("Runtime.runIfWaitingForDebugger");

    const isProgram = ({ url, sourceMapURL }: Record<string, unknown>) =>
      String(url).startsWith("data:application/javascript") && sourceMapURL !== "";
    const script = await tool.next("Debugger.scriptParsed", isProgram);
    const map = mapOf(script);
    const file = `file://${rig.cache}/inspected.ts`;
    const { sources, sourcesContent } = map.payload as SourceMapPayload;
    assert.equal(sourcesContent[sources.indexOf(file)], PROTOCOL);

    type Frames = { readonly location: Place; readonly callFrameId: string }[];
    const pausedAt = async () => (await tool.next("Debugger.paused"))["callFrames"] as Frames;
    const [first] = await pausedAt();
    assert.equal(userPlace(map, first!.location), `${file}:1`);

    const { scriptId } = first!.location;
    for (const line of [BREAK_AT, RECOVERS_AT, CHECKS_AT]) {
      const location = { scriptId, ...placeOf(map, file, line) };
      await tool.ask("Debugger.setBreakpoint", { location });
    }
    await tool.ask("Debugger.resume");
    // Once for each host: the first stop was once for the file. At the run's end, b has no power.
    const stops = [
      [BREAK_AT, "`${cpu.host} ${found.sum}`", "a 42"],
      [BREAK_AT, "`${cpu.host} ${found.sum}`", "b 42"],
      [RECOVERS_AT, "`${host} ${first}`", "b 42"],
      [CHECKS_AT, "recovered", 42],
    ] as const;
    for (const [line, expression, value] of stops) {
      const [frame] = await pausedAt();
      assert.equal(userPlace(map, frame!.location), `${file}:${line}`);
      const { callFrameId } = frame!;
      const { result } = await tool.ask<{ result: { value: unknown } }>(
        "Debugger.evaluateOnCallFrame",
        { callFrameId, expression },
      );
      assert.equal(result.value, value);
      await tool.ask("Debugger.resume");
    }
    const { code, stdout, stderr } = await command.ended;
    tool.close();
    assert.equal(code, 1, stdout + stderr);
    // The run and its verdict are the same as without a debugger.
    const plain = await rig.run(["run", scenario, "--pack", "all", "--json"]);
    const { digest, checks } = JSON.parse(stdout), other = JSON.parse(plain.stdout);
    assert.equal(digest, other.digest);
    assert.deepEqual(checks, other.checks);
    assert.match(JSON.stringify(checks), /b recovers 42/);
  });

  it("is refused where there is no one process, program or port for it", async () => {
    const scenario = `${rig.cache}/inspected.yaml`;
    const shipped = new URL("../../scripts/scenarios/incast.yaml", import.meta.url).pathname;
    const taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    const { port } = taken.addr;
    const said = await rig.each([
      ["run", scenario, "--inspect-brk"],
      ["run", shipped, "--pack", "all", "--inspect-brk", "0"],
      ["run", scenario, "--pack", "all", "--inspect-brk", String(port)],
      ["run", scenario, "--pack", "all", "--inspect-brk", "x"],
    ]);
    taken.close();
    const expected = [
      /--inspect-brk is together with --pack node: expected --pack all/,
      /--inspect-brk is .*incast\.yaml, which runs no program of your own: expected a scenario/,
      /--inspect-brk is \d+, at which nothing can listen .*: expected a free port, or 0 for any/,
      /--inspect-brk is "x": expected a whole number from 0 to 65535/,
    ];
    for (const [i, { code, stderr }] of said.entries()) {
      assert.equal(code, 64, stderr);
      assert.match(stderr, expected[i]!);
    }
  });
});
