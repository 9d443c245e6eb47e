/** Child processes of a run: started with their output in a log file, watched, ended by id. */
import { PARENT_VARIABLE } from "../../fabric/process.ts";
import { SMALL_HEAP } from "./device_rights.ts";
import { fromFileUrl, projectFile } from "../base/paths.ts";
import { v8Flags } from "../base/v8_flags.ts";

export interface ChildOptions {
  readonly name: string;
  readonly module: string;
  readonly args: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** Absent: output goes where this process's does, and is not kept. */
  readonly logFile?: string;
  /** Of output that is kept. */
  readonly onOutput?: ((bytes: Uint8Array) => void) | undefined;
  /** Flags of Deno; default: {@link TRUSTED}. */
  readonly rights?: readonly string[];
  /** Relative paths of `rights` begin here: a folder's own path may have a comma in it. */
  readonly cwd?: string;
}

/** It runs no code but this project's. */
const TRUSTED: readonly string[] = [
  v8Flags(SMALL_HEAP),
  "--allow-net",
  "--allow-read",
  "--allow-write",
  "--allow-env",
  "--allow-sys",
];

const LAST_WORDS = 12, LAST_PIECES = 48;

export interface Child {
  readonly name: string;
  readonly pid: number;
  readonly exited: Promise<Deno.CommandStatus>;
  /** Also those for which the log had no room. */
  lastWords(): string;
  kill(signal: Deno.Signal): void;
}

/** Starts a module of the project in a Deno process of its own. */
export function startChild(options: ChildOptions): Child {
  const { name, module, args, env, logFile, onOutput, rights = TRUSTED, cwd } = options;
  const command = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--no-prompt",
      "--config",
      fromFileUrl(projectFile("deno.json")),
      ...rights,
      fromFileUrl(projectFile(module)),
      ...args,
    ],
    env: { ...env, [PARENT_VARIABLE]: String(Deno.pid) },
    ...(cwd !== undefined && { cwd }),
    stdin: "null",
    stdout: logFile === undefined ? "inherit" : "piped",
    stderr: logFile === undefined ? "inherit" : "piped",
  });
  const child = command.spawn();
  const words: string[] = [];
  const logged = logFile === undefined ? Promise.resolve() : Promise.all([
    keepLog(child.stdout, { path: logFile, words, onOutput }),
    keepLog(child.stderr, { path: logFile, words, onOutput }),
  ]);
  const exited = child.status.then(async (status) => {
    await logged;
    return status;
  });
  return {
    name,
    pid: child.pid,
    exited,
    lastWords: () => words.join("").trimEnd().split("\n").slice(-LAST_WORDS).join("\n"),
    kill(signal) {
      try {
        child.kill(signal);
      } catch (error) {
        // The process has already ended.
        if (!(error instanceof TypeError || error instanceof Deno.errors.NotFound)) throw error;
      }
    },
  };
}

export function statusText({ code, signal }: Deno.CommandStatus): string {
  return signal === null ? `exit code ${code}` : signal;
}

/** A full disk ends the copying only. */
async function keepLog(
  stream: ReadableStream<Uint8Array<ArrayBuffer>>,
  { path, words, onOutput }: Pick<ChildOptions, "onOutput"> & {
    readonly path: string;
    readonly words: string[];
  },
): Promise<void> {
  const encoder = new TextEncoder();
  let file = await Deno.open(path, { create: true, append: true, mode: 0o600 }).catch(() =>
    undefined
  );
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    words.push(text);
    words.splice(0, words.length - LAST_PIECES);
    const bytes = encoder.encode(text);
    onOutput?.(bytes);
    try {
      file?.writeSync(bytes);
    } catch {
      file?.close();
      file = undefined;
    }
  }
  file?.close();
}

/** SIGTERM, then SIGKILL after `graceMs`. Reaches stopped processes, too. */
export async function endChildren(children: readonly Child[], graceMs: number): Promise<void> {
  for (const child of children) {
    child.kill("SIGTERM");
    child.kill("SIGCONT");
  }
  const all = Promise.all(children.map((child) => child.exited));
  let timer: ReturnType<typeof setTimeout> | undefined;
  const grace = new Promise<void>((resolve) => timer = setTimeout(resolve, graceMs));
  await Promise.race([all, grace]);
  clearTimeout(timer);
  for (const child of children) child.kill("SIGKILL");
  await all;
}
