/**
 * The `rack` command as a person runs it: a process of its own with a cache of its own, and a look at
 * what is left of it. Every process of a run names its run's directory on its command line.
 */
import assert from "node:assert/strict";
import { sleep } from "../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../console/base/paths.ts";
import { eventually } from "./eventually.ts";
import { removeUnlessKept } from "./leavings.ts";

/** A command that has ended. */
export interface Ended {
  readonly code: number;
  readonly signal: Deno.Signal | null;
  readonly stdout: string;
  readonly stderr: string;
  readonly wallMs: number;
}

export interface StartOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** In a session of its own, as from a terminal of its own: see {@link RunningCommand.interrupt}. */
  readonly detached?: boolean;
}

/** Arguments of `deno` that run the command. */
export function rackArguments(args: readonly string[]): string[] {
  const flags = "--v8-flags=--disallow-code-generation-from-strings";
  const options = ["--quiet", "--no-prompt", "--no-check", "--cached-only", flags, "--allow-all"];
  const config = ["--config", fromFileUrl(projectFile("deno.json"))];
  return ["run", ...options, ...config, fromFileUrl(projectFile("scripts/rack.ts")), ...args];
}

/** A cache directory for any number of commands. */
export class CommandRig {
  readonly cache: string;

  private constructor(cache: string) {
    this.cache = cache;
  }

  static async open(): Promise<CommandRig> {
    return new CommandRig(await Deno.makeTempDir({ prefix: "rackmesh-command-" }));
  }

  async close(): Promise<void> {
    await removeUnlessKept(this.cache);
  }

  start(args: readonly string[], options: StartOptions = {}): RunningCommand {
    const command = new Deno.Command(Deno.execPath(), {
      args: rackArguments(args),
      env: { RACKMESH_CACHE: this.cache, ...options.env },
      ...(options.cwd !== undefined && { cwd: options.cwd }),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
      detached: options.detached === true,
    });
    return new RunningCommand(command.spawn());
  }

  /** Runs a command to its end. */
  run(args: readonly string[], options: StartOptions = {}): Promise<Ended> {
    return this.start(args, options).ended;
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

  /** Waits until so many processes of a run are there. */
  async up(count: number): Promise<void> {
    await eventually(`${count} processes`, () => this.processes().length >= count, {
      withinMs: 15_000,
    });
  }

  /** Waits until a run is in the middle of something: host `b` has made something persistent. */
  async moving(): Promise<void> {
    const isMoving = () => this.runs().some((run) => sizeOf(`${run}/scm/b.scm.log`) > 0);
    await eventually("something is persistent on b", isMoving, { withinMs: 15_000 });
  }

  /** Waits until nothing of any run is alive. */
  async gone(withinMs: number): Promise<void> {
    const deadline = performance.now() + withinMs;
    while (this.processes().length > 0 && performance.now() < deadline) await sleep(50);
    assert.deepEqual(this.processes(), []);
  }
}

/** Does something with each, as many at a time as there are cores. */
export async function forEachAtOnce<T>(
  items: readonly T[],
  act: (item: T, place: number) => Promise<void>,
): Promise<void> {
  const left = items.entries();
  async function work(): Promise<void> {
    for (const [place, item] of left) await act(item, place);
  }
  await Promise.all(Array.from({ length: navigator.hardwareConcurrency }, work));
}

export class RunningCommand {
  readonly pid: number;
  readonly ended: Promise<Ended>;
  readonly #process: Deno.ChildProcess;

  constructor(process: Deno.ChildProcess) {
    const began = performance.now();
    this.#process = process;
    this.pid = process.pid;
    this.ended = process.output().then(({ code, signal, stdout, stderr }) => ({
      code,
      signal,
      stdout: new TextDecoder().decode(stdout),
      stderr: new TextDecoder().decode(stderr),
      wallMs: performance.now() - began,
    }));
  }

  kill(signal: Deno.Signal): void {
    this.#process.kill(signal);
  }

  /** Ctrl-C in a terminal: every process of the session gets it. The command must be `detached`. */
  interrupt(): void {
    Deno.kill(-this.pid, "SIGINT");
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
