/**
 * A program that exceeds its time is ended with all processes that it has started: each inherits a
 * mark in its environment.
 */
import { ROOT } from "../../console/base/paths.ts";

export interface Bounded {
  readonly success: boolean;
  readonly isLate: boolean;
  readonly text: string;
  /**
   * Of the program and of all children it waited for, without those that live on in a session of
   * their own (a rack's supervisor); undefined where it was ended.
   */
  readonly processorSeconds?: number;
}

const MARK = "RACKMESH_CHECK_RUN";
/** Keeps the arguments' processor time, which only a shell reports. */
const TIMED = `times=$1; shift; "$@"; code=$?; times >"$times"; exit $code`;
/**
 * For one file of tests; for several files the longest time in which no test ends and no file
 * begins: many times the usual time on a slow machine. The only limit of a test in wall time.
 */
export const FILE_LIMIT_MS = 20 * 60_000;

const GONE_MS = 10_000;
/** Processes may start others while they are being killed. */
const ROUNDS = 5;

export interface BoundedOptions {
  /** In wall ms. */
  readonly withinMs: number;
  /**
   * Without a word from it; default: `withinMs`. For many files of tests, each of which reports its
   * end.
   */
  readonly silentMs?: number;
  /**
   * A line of output is a word; the last may be a part of one. Default: any output is. A program
   * that hangs may still print the reason of its wait.
   */
  readonly isWord?: (line: string) => boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** With a signal, Ctrl-C in a terminal reaches this process alone. */
  readonly signal?: AbortSignal | undefined;
  readonly onOutput?: (part: Uint8Array) => void;
}

export async function runBounded(
  program: string,
  args: readonly string[],
  options: BoundedOptions,
): Promise<Bounded> {
  const mark = crypto.randomUUID();
  const times = await Deno.makeTempFile({ prefix: "rackmesh-times-" });
  try {
    const ended = await runMarked([times, program, ...args], { ...options, mark });
    return ended.isLate ? ended : { ...ended, ...processorTime(await Deno.readTextFile(times)) };
  } finally {
    await Deno.remove(times);
  }
}

function processorTime(text: string): Pick<Bounded, "processorSeconds"> {
  const parts = [...text.matchAll(/(\d+)m([\d.]+)s/g)];
  if (parts.length !== 4) return {};
  const seconds = parts.map(([, minutes, rest]) => 60 * Number(minutes) + Number(rest));
  return { processorSeconds: seconds.reduce((sum, each) => sum + each, 0) };
}

async function runMarked(
  args: readonly string[],
  { mark, env, signal, ...options }: BoundedOptions & { readonly mark: string },
): Promise<Bounded> {
  const process = new Deno.Command("sh", {
    args: ["-c", TIMED, "sh", ...args],
    cwd: ROOT,
    env: { ...env, [MARK]: mark },
    detached: signal !== undefined,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { isWord = () => true } = options;
  let text = "", saidAt = performance.now();
  const read = async (output: ReadableStream<Uint8Array>) => {
    const decoder = new TextDecoder();
    let lines = [""];
    for await (const part of output) {
      const more = decoder.decode(part, { stream: true });
      text += more;
      lines = (lines.at(-1)! + more).split("\n");
      if (lines.some(isWord)) saidAt = performance.now();
      options.onOutput?.(part);
    }
  };
  const ended = Promise.all([process.status, read(process.stdout), read(process.stderr)]);
  const { withinMs, silentMs = withinMs } = options, deadline = saidAt + withinMs;
  const leftMs = () => Math.min(deadline, saidAt + silentMs) - performance.now();
  let isOver = false;
  while (!isOver && leftMs() > 0 && !signal?.aborted) {
    isOver = await isOverWithin(ended, leftMs(), signal);
  }
  if (!isOver) {
    await killMarked(mark);
    await isOverWithin(ended, GONE_MS);
    return { success: false, isLate: true, text };
  }
  const { success } = await process.status;
  return { success, isLate: false, text };
}

async function killMarked(mark: string): Promise<void> {
  for (let round = 0; round < ROUNDS; round++) {
    // Deno reads other processes' environments only with all permissions, which the checks do not
    // have.
    const { stdout } = await new Deno.Command("sh", {
      args: ["-c", `grep -lsz '^${MARK}=${mark}$' /proc/[0-9]*/environ`],
    }).output();
    const paths = new TextDecoder().decode(stdout);
    const pids = [...paths.matchAll(/\/proc\/(\d+)\//g)].map(([, pid]) => Number(pid));
    if (pids.length === 0) return;
    for (const pid of pids) {
      try {
        Deno.kill(pid, "SIGKILL");
      } catch (error) {
        if (!(error instanceof Deno.errors.NotFound)) throw error;
      }
    }
  }
}

// deno-lint-ignore no-control-regex
const COLOURS = /\x1b\[[0-9;]*m/g;
const FILE_BEGINS = /^running \d+ tests? from (\S+)/;
const ENDED = /^ (ok|FAILED|ignored)/;

/** `deno test` reports so that a file begins, or that a test or a step of one has ended. */
export function tellsOfTest(line: string): boolean {
  const plain = line.replaceAll(COLOURS, "");
  return FILE_BEGINS.test(plain) || / \.\.\. (ok|FAILED|ignored) \(/.test(plain);
}

/**
 * That had begun last and has not ended: its file and the names around it; undefined where each
 * that began has ended.
 */
export function testUnderWay(output: string): string | undefined {
  let file = "";
  let names: string[] = [];
  for (const line of output.replaceAll(COLOURS, "").split("\n")) {
    const [, path] = FILE_BEGINS.exec(line) ?? [];
    if (path !== undefined) {
      file = path;
      names = [];
    }
    const [, indent, name, result] = /^( *)(\S.*?) \.\.\.(.*)$/.exec(line) ?? [];
    if (name === undefined) continue;
    names.length = Math.min(names.length, indent!.length / 2);
    if (!ENDED.test(result!)) names.push(name);
  }
  return names.length === 0 ? undefined : `${file}: ${names.join(" > ")}`;
}

/**
 * @returns true if the promise settles within the time and before the signal is aborted. Rejects if
 * it rejects in that time.
 */
export async function isOverWithin(
  work: Promise<unknown>,
  ms: number,
  signal?: AbortSignal,
): Promise<boolean> {
  const late = Promise.withResolvers<false>();
  const giveUp = () => late.resolve(false);
  const timer = setTimeout(giveUp, ms);
  signal?.addEventListener("abort", giveUp);
  if (signal?.aborted) giveUp();
  try {
    return await Promise.race([work.then(() => true), late.promise]);
  } finally {
    clearTimeout(timer);
    signal?.removeEventListener("abort", giveUp);
  }
}
