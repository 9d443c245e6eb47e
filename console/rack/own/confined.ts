/**
 * Work with own programs is done in a process with few rights, of which this is the command's end;
 * `answer.ts` is the other. What the programs print goes to the command's stderr.
 */
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../base/paths.ts";
import { LARGE_HEAP, v8Flags } from "../../base/v8_flags.ts";
import { RackError } from "../../base/rack_error.ts";
import { framed, framesOf, isSaid, STOP } from "./frames.ts";
import { WATCH_MODULE } from "./loop_watch.ts";

export interface Asked<Progress> {
  /** The entry point, a path in the project. */
  readonly module: string;
  readonly job: unknown;
  /** Its own programs, for people. */
  readonly programs: readonly string[];
  /** Paths below `directory` that the process may read and write; all may be read with `"all"`. */
  readonly reads?: readonly string[] | "all";
  readonly writes?: readonly string[];
  /** Flags of a process that loads no own program itself; default: what `reads` and `writes` allow. */
  readonly flags?: readonly string[];
  /** The port of loopback at which it waits for a debugger before it does anything; 0: any. */
  readonly inspect?: number | undefined;
  /** The folder in which it runs. */
  readonly directory?: string;
  /** The directory of its run, by which it is found; default: the folder in which it runs. */
  readonly runDirectory?: string;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  /** Ends the process; the work then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
  /** Becomes true when the work shall end early, with an answer. */
  readonly stopped?: (() => boolean) | undefined;
}

/** From the question whether to stop to the end of a process that does not answer it. */
const STOP_MS = 3_000;
const LOOK_MS = 100;
/** A terminal interrupts this process and the other at once. */
const INTERRUPT_MS = 1_000;

/** @throws RackError where the work fails, or the process ends without an answer. */
export async function askConfined<Answer, Progress = never>(
  { module, job, programs, onProgress, signal, stopped, flags, ...rights }: Asked<Progress>,
): Promise<Answer> {
  signal?.throwIfAborted();
  const { directory, runDirectory = directory, inspect } = rights;
  const who = programs.join(", ");
  // The last word says whose process it is.
  const words = runDirectory === undefined ? [] : [`${runDirectory}/run.json`];
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      ...withInspector(flags ?? flagsOf(rights), inspect),
      fromFileUrl(projectFile(module)),
      ...words,
    ],
    ...(directory !== undefined && { cwd: directory }),
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const ended = child.status;
  let isThere = true;
  void ended.then(() => isThere = false);
  const end = () => {
    try {
      if (isThere) child.kill("SIGKILL");
    } catch (error) {
      // It has ended, and the promise that tells of it is about to.
      if (!(error instanceof TypeError)) throw error;
    }
  };
  signal?.addEventListener("abort", end);
  const input = child.stdin.getWriter();
  // A process that has ended does not read: its end is what is reported.
  const send = (frame: unknown) => input.write(framed(frame)).catch(() => {});
  const watch = stopped && watchStop(stopped, { ask: () => void send(STOP), end });
  try {
    void send(job);
    for await (const frame of framesOf(child.stdout)) {
      if (!isSaid(frame)) {
        throw new RackError(`Found that ${who} wrote on stdout: expected an answer`);
      }
      if (frame[0] === "progress") onProgress?.(frame[1] as Progress);
      else if (frame[0] === "answer") return frame[1] as Answer;
      else throw new RackError(frame[1].message, frame[1].code);
    }
    const { code, signal: by } = await ended;
    if (signal !== undefined && by === "SIGINT") await sleep(INTERRUPT_MS);
    signal?.throwIfAborted();
    if (watch?.isLate) {
      throw new RackError(`Found ${who} still running ${STOP_MS / 1_000} s later: ended it`);
    }
    const how = by ?? `exit code ${code}`;
    const found = `Found that the process of ${who} ended by itself (${how})`;
    throw new RackError(`${found}: expected it to answer`);
  } finally {
    clearInterval(watch?.timer);
    signal?.removeEventListener("abort", end);
    end();
    await ended;
    await input.abort().catch(() => {});
  }
}

/** Deno says where it listens, but not where it is to be quiet. */
function withInspector(flags: readonly string[], port: number | undefined): readonly string[] {
  if (port === undefined) return flags;
  return [`--inspect-wait=127.0.0.1:${port}`, ...flags.filter((flag) => flag !== "--quiet")];
}

/** Asks a process to stop as soon as that is wanted, and ends it where it does not. */
function watchStop(
  stopped: () => boolean,
  { ask, end }: { readonly ask: () => void; readonly end: () => void },
): { readonly timer: ReturnType<typeof setInterval>; readonly isLate: boolean } {
  let askedAt: number | undefined, isLate = false;
  const timer = setInterval(() => {
    if (askedAt === undefined && stopped()) {
      askedAt = performance.now();
      ask();
    } else if (askedAt !== undefined && performance.now() - askedAt > STOP_MS && !isLate) {
      isLate = true;
      end();
    }
  }, LOOK_MS);
  return {
    timer,
    get isLate() {
      return isLate;
    },
  };
}

/** Flags of a process that may do no more than this. */
export function flagsOf(
  { reads = [], writes = [] }: Pick<Asked<never>, "reads" | "writes">,
): string[] {
  const watch = fromFileUrl(projectFile(WATCH_MODULE)).replaceAll(",", ",,");
  return [
    ...["--quiet", "--no-prompt", "--cached-only", "--deny-import"],
    v8Flags(...LARGE_HEAP),
    ...["--config", fromFileUrl(projectFile("deno.json"))],
    reads === "all" ? "--allow-read" : `--allow-read=${[watch, ...reads].join(",")}`,
    ...(writes.length > 0 ? [`--allow-write=${writes.join(",")}`] : []),
  ];
}
