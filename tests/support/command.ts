/**
 * The `rack` command as a person runs it: a process of its own with a cache of its own, and a look at
 * what is left of it. Every process of a run names its run's directory on its command line.
 */
import { statOf } from "../../console/base/process_stat.ts";
import assert from "node:assert/strict";
import { dirname } from "node:path";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { isOverWithin } from "../../scripts/check/bounded.ts";
import { ROOT } from "../../console/base/paths.ts";
import { v8Flags } from "../../console/base/v8_flags.ts";
import { eventually, TEST_PATIENCE_MS } from "./eventually.ts";
import { removeUnlessKept } from "./leavings.ts";

/** A command that has ended. */
export interface Ended {
  readonly code: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  /** What stdout is the text of. */
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly stderr: string;
  readonly wallMs: number;
}

/** What a command line has come to that was carried out with others. */
export type Said = Pick<Ended, "code" | "stdout" | "stderr">;

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Words before the command's: a program that runs it elsewhere, or with other rights. */
  readonly before?: readonly string[];
  /** In a session of its own, as from a terminal of its own: see {@link RunningCommand.interrupt}. */
  readonly detached?: boolean;
  /** A command that takes longer is ended, and the test fails with what it has said; default: the file's time. */
  readonly withinMs?: number;
}

/** For what a command has started to be gone when the command has ended. */
const GONE_MS = 5 * 60_000;
/** For a command to take its rack down when it is told to end. */
const END_MS = 10_000;

/** PATH of who has this Deno there, which `--allow-run=deno` needs: the test command has one of its own. */
export const WITH_DENO = `${dirname(Deno.execPath())}:${Deno.env.get("PATH") ?? ""}`;

/** Arguments of `deno` that run the command. @param tree the project, or a copy of it. */
export function rackArguments(args: readonly string[], tree: string = ROOT): string[] {
  return programArguments(`${tree}/scripts/rack.ts`, args, tree);
}

function programArguments(program: string, args: readonly string[], tree: string): string[] {
  const options = [
    "--quiet",
    "--no-prompt",
    "--no-check",
    "--cached-only",
    v8Flags(),
    "--allow-all",
  ];
  return ["run", ...options, "--config", `${tree}/deno.json`, program, ...args];
}

/** A cache directory for any number of commands. */
export class CommandRig {
  readonly cache: string;
  readonly #tree: string;

  private constructor(cache: string, tree: string) {
    this.cache = cache;
    this.#tree = tree;
  }

  /** @param tree whose command it is: the project's, or that of a copy (`tree_copy.ts`). */
  static async open(tree: string = ROOT): Promise<CommandRig> {
    return new CommandRig(await Deno.makeTempDir({ prefix: "rackmesh-command-" }), tree);
  }

  async close(): Promise<void> {
    await removeUnlessKept(this.cache);
  }

  start(args: readonly string[], options: StartOptions = {}): RunningCommand {
    const words = [...options.before ?? [], Deno.execPath(), ...rackArguments(args, this.#tree)];
    return this.#spawn(words[0]!, words.slice(1), { title: `rack ${args.join(" ")}`, ...options });
  }

  /** Runs a shell script in the cache directory to its end, in which `rack` is the command. */
  shell(script: string, options: StartOptions = {}) {
    const [program, ...args] = [...options.before ?? [], "bash", "-c"];
    const words = [Deno.execPath(), ...rackArguments([], this.#tree)].map((word) => `'${word}'`)
      .join(" ");
    const text = `rack() { ${words} "$@"; }\n${script}`;
    const title = script.trim();
    return this.#spawn(program!, [...args, text], { title, cwd: this.cache, ...options }).ended;
  }

  #spawn(
    program: string,
    args: readonly string[],
    options: StartOptions & { readonly title: string },
  ): RunningCommand {
    const { env, cwd, detached = false, withinMs = TEST_PATIENCE_MS, title } = options;
    const command = new Deno.Command(program, {
      args: [...args],
      // Each rig has a cache of its own: types would be checked anew for each. A process beside the command's
      // takes longer to load its code than what tests give it to do.
      env: { RACKMESH_CACHE: this.cache, RACKMESH_NO_CHECK: "1", RACKMESH_JOBS: "1", ...env },
      ...(cwd !== undefined && { cwd }),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      detached,
    });
    return new RunningCommand(command.spawn(), { rig: this, title, withinMs });
  }

  /** Runs a command to its end. */
  run(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
    return this.start(args, options).ended;
  }

  /**
   * Carries out command lines one after the other in one process, so that each costs no start of its own: for lines
   * that start nothing themselves, such as those that are refused and orders to a rack that is up.
   */
  async each(
    lines: readonly (readonly string[])[],
    options: StartOptions = {},
  ): Promise<Said[]> {
    const program = `${this.#tree}/tests/support/command_lines.ts`;
    const words = programArguments(program, [JSON.stringify(lines)], this.#tree);
    const title = lines.map((line) => `rack ${line.join(" ")}`).join("; ");
    const { code, stdout, stderr } = await this.#spawn(Deno.execPath(), words, {
      title,
      ...options,
    })
      .ended;
    assert.equal(code, 0, `${title}: ${stderr}`);
    const said: Said[] = JSON.parse(stdout);
    assert.equal(said.length, lines.length);
    return said;
  }

  /** As {@link each}, of lines that have to succeed. @returns what each printed. */
  async mustEach(lines: readonly (readonly string[])[]): Promise<string[]> {
    const said = await this.each(lines);
    for (const [i, { code, stdout, stderr }] of said.entries()) {
      assert.equal(code, 0, `rack ${lines[i]!.join(" ")}: ${stdout}${stderr}`);
    }
    return said.map(({ stdout }) => stdout);
  }

  /** Runs a command that has to succeed. @returns what it printed. */
  async must(args: readonly string[], options: StartOptions = {}): Promise<string> {
    const { code, stdout, stderr } = await this.run(args, options);
    assert.equal(code, 0, `rack ${args.join(" ")}: ${stdout}${stderr}`);
    return stdout;
  }

  /** Takes down what is up, sees that nothing is left, and removes the directory. */
  async closeDown(): Promise<void> {
    if (this.processes().length > 0) await this.run(["down", "--all"]);
    await this.gone();
    await this.close();
  }

  /** Writes a file into the cache directory: its path. */
  async file(name: string, content: string | Uint8Array): Promise<string> {
    const path = `${this.cache}/${name}`;
    if (typeof content === "string") await Deno.writeTextFile(path, content);
    else await Deno.writeFile(path, content);
    return path;
  }

  /** Directories of the runs that were begun. */
  runs(): string[] {
    try {
      return [...Deno.readDirSync(`${this.cache}/runs`)].map(({ name }) =>
        `${this.cache}/runs/${name}`
      );
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  /** What is alive of all runs, nats-server included. */
  processes(): string[] {
    return processesNaming(`${this.cache}/runs/`);
  }

  /** Their ids. */
  pids(): number[] {
    return this.processes().map((line) => parseInt(line));
  }

  /** What each is doing: its state as the kernel names it, and its processor time. */
  states(): string[] {
    return this.processes().map((line) => {
      const fields = statOf(parseInt(line));
      if (fields === undefined) return `ended: ${line}`;
      const [user, system] = [fields[11], fields[12]].map(Number);
      return `${fields[0]}, ${(user! + system!) / 100} s of processor time: ${line}`;
    });
  }

  /** Waits until so many processes of a run are there. */
  async up(count: number): Promise<void> {
    await eventually(`${count} processes`, () => this.processes().length >= count);
  }

  /** Waits until a run is in the middle of something: host `b` has made something persistent. */
  async moving(): Promise<void> {
    const isMoving = () => this.runs().some((run) => sizeOf(`${run}/scm/b.scm.log`) > 0);
    await eventually("something is persistent on b", isMoving);
  }

  /** Waits until nothing of any run is alive: what is left after so long stays. */
  async gone(withinMs = GONE_MS): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (this.processes().length > 0 && performance.now() < deadline) await sleep(50);
    assert.deepEqual(this.processes(), []);
  }
}

export class RunningCommand {
  readonly pid: number;
  /** Rejects where the command takes too long: it is ended then, with what is left of its runs. */
  readonly ended: Promise<Ended>;
  readonly #process: Deno.ChildProcess;
  readonly #stdout: Stream;
  readonly #stderr: Stream;

  constructor(
    process: Deno.ChildProcess,
    options: { readonly rig: CommandRig; readonly title: string; readonly withinMs: number },
  ) {
    this.#process = process;
    this.pid = process.pid;
    this.#stdout = new Stream(process.stdout);
    this.#stderr = new Stream(process.stderr);
    this.ended = this.#endedWithin(options);
  }

  /** What it has said so far. */
  get stderr(): string {
    return this.#stderr.text();
  }

  /** What it has printed so far. */
  get stdout(): string {
    return this.#stdout.text();
  }

  async #endedWithin(
    { rig, title, withinMs }: {
      readonly rig: CommandRig;
      readonly title: string;
      readonly withinMs: number;
    },
  ): Promise<Ended> {
    const began = performance.now();
    const ended = Promise.all([this.#process.status, this.#stdout.whole, this.#stderr.whole]);
    if (!await isOverWithin(ended, withinMs)) {
      const state = rig.states();
      const said = this.stderr;
      this.#killIfThere("SIGTERM");
      if (!await isOverWithin(this.#process.status, END_MS)) {
        this.#killIfThere("SIGKILL");
        for (const pid of rig.pids()) killIfThere(pid);
        await isOverWithin(this.#process.status, END_MS);
      }
      throw new Error(
        `${title} has not ended within ${withinMs} ms. On stderr it has said:\n${said}\n` +
          `Processes of its runs:\n${state.join("\n") || "none"}`,
      );
    }
    const [{ code, signal }, stdout, stderr] = await ended;
    const decoder = new TextDecoder();
    return {
      code,
      signal,
      stdout: decoder.decode(stdout),
      bytes: stdout,
      stderr: decoder.decode(stderr),
      wallMs: performance.now() - began,
    };
  }

  #killIfThere(signal: Deno.Signal): void {
    try {
      this.kill(signal);
    } catch (error) {
      // It has ended meanwhile.
      if (!(error instanceof TypeError)) throw error;
    }
  }

  kill(signal: Deno.Signal): void {
    this.#process.kill(signal);
  }

  /** Ctrl-C in a terminal: every process of the session gets it. The command must be `detached`. */
  interrupt(): void {
    Deno.kill(-this.pid, "SIGINT");
  }
}

/** What a process writes to one of its outputs. */
class Stream {
  readonly whole: Promise<Uint8Array<ArrayBuffer>>;
  readonly #parts: Uint8Array[] = [];

  constructor(output: ReadableStream<Uint8Array>) {
    this.whole = this.#read(output);
  }

  /** So far. */
  text(): string {
    return new TextDecoder().decode(this.#bytes());
  }

  async #read(output: ReadableStream<Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
    for await (const part of output) this.#parts.push(part);
    return this.#bytes();
  }

  #bytes(): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(this.#parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of this.#parts) {
      bytes.set(part, at);
      at += part.length;
    }
    return bytes;
  }
}

function killIfThere(pid: number): void {
  try {
    Deno.kill(pid, "SIGKILL");
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}

/** Command lines that contain `text`, of processes that run. */
export function processesNaming(text: string): string[] {
  const found: string[] = [];
  for (const { name } of Deno.readDirSync("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    try {
      const line = Deno.readTextFileSync(`/proc/${name}/cmdline`).replaceAll("\0", " ");
      if (line.includes(text)) found.push(`${name}: ${line}`);
    } catch (error) {
      // It ended meanwhile; reading then fails in more than one way.
      if (!(error instanceof Error)) throw error;
    }
  }
  return found;
}
