/** A process that replays rounds one after the other; its jobs come from `replays.ts`. */
import { answerConfined } from "../rack/own/answer.ts";
import { type ReplayJob, replayRound } from "./replay.ts";

if (import.meta.main) {
  // With a signal the rack lets the event loop run, in which this process hears that the command
  // has ended.
  const { signal } = new AbortController();
  await answerConfined((job: ReplayJob) => replayRound(job, { signal }));
}
