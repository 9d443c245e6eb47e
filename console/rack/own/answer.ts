/** The end of `confined.ts` in the process that does the work. */
import { EXIT } from "../../../fabric/base/exit.ts";
import { ROOT, toFileUrl } from "../../base/paths.ts";
import { explain } from "../failure.ts";
import { framed, framesOf, type Said, STOP } from "./frames.ts";

export interface Asker<Progress> {
  tell(progress: Progress): void;
  stopped(): boolean;
}

interface Job {
  readonly job: unknown;
  isStopped: boolean;
}

/** Does the command's jobs one after the other, until the command ends this process. */
export async function answerConfined<Progress = never>(
  work: (job: never, asker: Asker<Progress>) => Promise<unknown>,
): Promise<void> {
  // The command ends this process in order; a terminal sends SIGINT to both.
  Deno.addSignalListener("SIGINT", () => {});
  const jobs: Job[] = [];
  let arrived = Promise.withResolvers<void>();
  void (async () => {
    for await (const frame of framesOf(Deno.stdin.readable)) {
      if (frame === STOP) { for (const job of jobs) job.isStopped = true; }
      else jobs.push({ job: frame, isStopped: false });
      arrived.resolve();
    }
    Deno.exit(EXIT.unclear);
  })();
  for (;;) {
    const [job] = jobs;
    if (job === undefined) {
      arrived = Promise.withResolvers();
      await arrived.promise;
      continue;
    }
    say(await saidOf(work, job));
    jobs.shift();
  }
}

async function saidOf<Progress>(
  work: (job: never, asker: Asker<Progress>) => Promise<unknown>,
  job: Job,
): Promise<Said> {
  try {
    const asker: Asker<Progress> = {
      tell: (progress) => say(["progress", progress]),
      stopped: () => job.isStopped,
    };
    return ["answer", await work(job.job as never, asker)];
  } catch (error) {
    return ["failed", changedBuiltIn(error) ?? explain(error)];
  }
}

/**
 * A failure in a user's file though no program of theirs runs: it has replaced a function of
 * JavaScript's (`Map.prototype.get = …`), and ours has called it.
 */
function changedBuiltIn(error: unknown): { message: string; code: number } | undefined {
  if (!(error instanceof Error) || explain(error).code !== EXIT.internal) return undefined;
  const [, place] = /\n {4}at (?:.*\()?(file:\/\/.*?:\d+):\d+\)?\n/.exec(`${error.stack}\n`) ?? [];
  const first = /\n {4}at (.*)\n/.exec(`${error.stack}\n`)?.[1] ?? "";
  if (place === undefined || !first.includes(place) || place.startsWith(OURS)) return undefined;
  const found =
    `Found that ${place} runs within the rack, in the place of a function of JavaScript`;
  const message = `${found}: ${error.message}: expected a program that leaves these as they are`;
  return { message, code: EXIT.failed };
}

const OURS = toFileUrl(ROOT).href;

function say(said: Said): void {
  const frame = framed(said);
  try {
    for (let at = 0; at < frame.length;) at += Deno.stdout.writeSync(frame.subarray(at));
  } catch (error) {
    // The command has ended, for example by Ctrl-C, while the work kept this process from hearing
    // of it.
    if (error instanceof Deno.errors.BrokenPipe) Deno.exit(EXIT.unclear);
    throw error;
  }
}
