/**
 * The command's end of a process with own programs; `answer.ts` is the other. The programs' output
 * goes to the command's stderr.
 */
import { PATIENCE_MS } from "../../../fabric/base/patience.ts";
import { sleep } from "../../../fabric/bus/wall_time.ts";
import { fromFileUrl, projectFile } from "../../base/paths.ts";
import { LARGE_HEAP, v8Flags } from "../../base/v8_flags.ts";
import { processorMs } from "../../base/process_stat.ts";
import { RackError } from "../../base/rack_error.ts";
import { framed, framesOf, isSaid, STOP } from "./frames.ts";
import { WATCH_MODULE } from "./loop_watch.ts";

export interface Confined {
  readonly module: string;
  readonly programs: readonly string[];
  /** Paths below `directory`; `"all"`: it may read any. */
  readonly reads?: readonly string[] | "all";
  readonly writes?: readonly string[];
  /** Flags for further rights. */
  readonly more?: readonly string[];
  /** Flags of a process that loads no own program itself; default: the rights of `reads` and `writes`. */
  readonly flags?: readonly string[];
  /** It waits at its start for a debugger at this port of loopback; 0: any port. */
  readonly inspect?: number | undefined;
  readonly directory?: string;
  /** Identifies the process; default: the folder in which it runs. */
  readonly runDirectory?: string;
  /** Ends the process; the work then rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined;
}

export interface Asked<Progress> extends Confined {
  readonly job: unknown;
  readonly onProgress?: ((progress: Progress) => void) | undefined;
  readonly stopped?: (() => boolean) | undefined;
}

/** For several jobs, one after the other: it loads and compiles its code once. */
export interface ConfinedWorker {
  /**
   * A job begins when earlier ones have ended; resolves to its answer.
   * @throws RackError where the work fails, or the process ends without an answer.
   */
  ask<Answer, Progress = never>(
    job: unknown,
    onProgress?: (progress: Progress) => void,
  ): Promise<Answer>;
  /** Processor time; undefined where the process has ended. */
  usedMs(): number | undefined;
  /** It accepts no more: it has ended, or failed otherwise than in a job. */
  readonly isOver: boolean;
  /** All of its jobs shall end early, with an answer. */
  stop(): void;
  /** Unanswered jobs reject. */
  end(): Promise<void>;
}

/** Processor time between the request to stop and the answer. */
const STOP_MS = 3_000;
const LOOK_MS = 100;
/** A terminal interrupts both processes at once. */
const INTERRUPT_MS = 1_000;

/** @throws RackError where the work fails, or the process ends without an answer. */
export async function askConfined<Answer, Progress = never>(
  { job, onProgress, stopped, ...confined }: Asked<Progress>,
): Promise<Answer> {
  const worker = startConfined(confined), { programs } = confined;
  const work = worker.ask<Answer, Progress>(job, onProgress);
  try {
    return await stoppable(work, { workers: () => [worker], stopped, programs });
  } finally {
    await worker.end();
  }
}

/**
 * Asks processes to end their work early as soon as `stopped` says so, and ends those that do not
 * answer.
 * @throws RackError where they were ended.
 */
export async function stoppable<Result>(
  work: Promise<Result>,
  { workers, stopped, programs }: Pick<Confined, "programs"> & Pick<Asked<never>, "stopped"> & {
    /** Now: one that has ended may have been replaced. */
    readonly workers: () => readonly ConfinedWorker[];
  },
): Promise<Result> {
  if (stopped === undefined) return await work;
  const watch = watchStop(stopped, workers);
  try {
    return await work;
  } catch (error) {
    if (watch.lateBy === undefined) throw error;
    throw new RackError(
      `Found ${programs.join(", ")} still running ${watch.lateBy} later: ended it`,
    );
  } finally {
    clearInterval(watch.timer);
  }
}

interface Pending {
  readonly onProgress: ((progress: never) => void) | undefined;
  readonly answered: PromiseWithResolvers<unknown>;
}

/** @throws the signal's reason where it is aborted. */
export function startConfined(
  { module, programs, signal, flags, ...rights }: Confined,
): ConfinedWorker {
  signal?.throwIfAborted();
  const { directory, runDirectory = directory, inspect } = rights;
  // The last word identifies the process's run.
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
  const kill = killerOf(child);
  signal?.addEventListener("abort", kill);
  const input = child.stdin.getWriter();
  // A process that has ended does not read: its end is reported instead.
  const send = (frame: unknown) => void input.write(framed(frame)).catch(() => {});
  const pending: Pending[] = [];
  let failure: unknown;
  const isOver = listen(child, { programs, signal, pending }).catch((error) => {
    failure = error;
    for (const { answered } of pending.splice(0)) answered.reject(error);
  });
  return {
    async ask<Answer, Progress>(job: unknown, onProgress?: (progress: Progress) => void) {
      if (failure !== undefined) throw failure;
      const answered = Promise.withResolvers<unknown>();
      pending.push({ onProgress, answered });
      send(job);
      return await answered.promise as Answer;
    },
    get isOver() {
      return failure !== undefined;
    },
    usedMs: () => processorMs(child.pid),
    stop: () => send(STOP),
    async end() {
      signal?.removeEventListener("abort", kill);
      kill();
      await child.status;
      await isOver;
      await input.abort().catch(() => {});
    },
  };
}

/** Returns a function that ends the process, unless it has ended. */
export function killerOf(child: Deno.ChildProcess): () => void {
  let isThere = true;
  void child.status.then(() => isThere = false);
  return () => {
    try {
      if (isThere) child.kill("SIGKILL");
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
    }
  };
}

async function listen(
  child: Deno.ChildProcess,
  { programs, signal, pending }: Pick<Confined, "programs" | "signal"> & {
    readonly pending: Pending[];
  },
): Promise<never> {
  const who = programs.join(", ");
  for await (const frame of framesOf(child.stdout)) {
    const [first] = pending;
    if (!isSaid(frame) || first === undefined) {
      throw new RackError(`Found that ${who} wrote on stdout: expected an answer`);
    }
    if (frame[0] === "progress") {
      first.onProgress?.(frame[1] as never);
      continue;
    }
    pending.shift();
    if (frame[0] === "answer") first.answered.resolve(frame[1]);
    else first.answered.reject(new RackError(frame[1].message, frame[1].code));
  }
  const { code, signal: by } = await child.status;
  if (signal !== undefined && by === "SIGINT") await sleep(INTERRUPT_MS);
  signal?.throwIfAborted();
  const how = by ?? `exit code ${code}`;
  const found = `Found that the process of ${who} ended by itself (${how})`;
  throw new RackError(`${found}: expected it to answer`);
}

function withInspector(flags: readonly string[], port: number | undefined): readonly string[] {
  if (port === undefined) return flags;
  return [`--inspect-wait=127.0.0.1:${port}`, ...flags.filter((flag) => flag !== "--quiet")];
}

interface StopWatch {
  readonly timer: ReturnType<typeof setInterval>;
  readonly lateBy: string | undefined;
}

function watchStop(stopped: () => boolean, workers: () => readonly ConfinedWorker[]): StopWatch {
  let askedAt: number | undefined, lateBy: string | undefined;
  const usedBefore = new Map<ConfinedWorker, number>();
  const hasTooMuch = () =>
    [...usedBefore].some(([worker, before]) => (worker.usedMs() ?? 0) - before > STOP_MS);
  const ask = () => {
    for (const worker of workers()) {
      if (usedBefore.has(worker)) continue;
      usedBefore.set(worker, worker.usedMs() ?? 0);
      worker.stop();
    }
  };
  const timer = setInterval(() => {
    if (lateBy !== undefined || !stopped()) return;
    askedAt ??= performance.now();
    ask();
    const isPatient = performance.now() - askedAt <= PATIENCE_MS;
    if (isPatient && !hasTooMuch()) return;
    lateBy = isPatient ? `${STOP_MS / 1_000} s of processor time` : `${PATIENCE_MS / 1_000} s`;
    for (const worker of workers()) void worker.end();
  }, LOOK_MS);
  return {
    timer,
    get lateBy() {
      return lateBy;
    },
  };
}

/** Flags of a process with no more rights than these. */
export function flagsOf(
  { reads = [], writes = [], more = [], heap = [] }: Pick<Confined, "reads" | "writes" | "more"> & {
    /** Flags of V8, beside those of a large heap. */
    readonly heap?: readonly string[];
  },
): string[] {
  const watch = fromFileUrl(projectFile(WATCH_MODULE)).replaceAll(",", ",,");
  return [
    ...["--quiet", "--no-prompt", "--cached-only", "--deny-import"],
    v8Flags(...LARGE_HEAP, ...heap),
    ...["--config", fromFileUrl(projectFile("deno.json"))],
    reads === "all" ? "--allow-read" : `--allow-read=${[watch, ...reads].join(",")}`,
    ...(writes.length > 0 ? [`--allow-write=${writes.join(",")}`] : []),
    ...more,
  ];
}
