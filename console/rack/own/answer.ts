/** The end of `confined.ts` in the process that does the work: what its entry points share. */
import { EXIT } from "../../../fabric/rack/build/run_file.ts";
import { explain } from "../failure.ts";
import { framed, framesOf, type Said, STOP } from "./frames.ts";

/** What an entry point gets beside its job. */
export interface Asker<Progress> {
  tell(progress: Progress): void;
  /** Whether the work shall end early. */
  stopped(): boolean;
}

/** Does the one job that the command hands to this process, and ends the process. */
export async function answerConfined<Progress = never>(
  work: (job: never, asker: Asker<Progress>) => Promise<unknown>,
): Promise<void> {
  // The command ends this process in order; a terminal sends SIGINT to both.
  Deno.addSignalListener("SIGINT", () => {});
  const frames = framesOf(Deno.stdin.readable);
  const { value: job } = await frames.next();
  let isStopped = false;
  void (async () => {
    for await (const frame of frames) isStopped ||= frame === STOP;
    // The command has ended.
    Deno.exit(EXIT.unclear);
  })();
  let said: Said;
  try {
    const asker: Asker<Progress> = {
      tell: (progress) => say(["progress", progress]),
      stopped: () => isStopped,
    };
    said = ["answer", await work(job as never, asker)];
  } catch (error) {
    said = ["failed", explain(error)];
  }
  say(said);
  Deno.exit(EXIT.done);
}

function say(said: Said): void {
  const frame = framed(said);
  for (let at = 0; at < frame.length;) at += Deno.stdout.writeSync(frame.subarray(at));
}
