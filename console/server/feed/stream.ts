import { sleep } from "../../../fabric/bus/wall_time.ts";
import type { Batch, Message } from "../../api/feed.ts";
import { FEED_ALIVE_MS } from "../../api/page_terms.ts";
import type { Console } from "../context.ts";

const BATCH_MS = 25;

export interface FeedOptions extends Pick<Console, "watchers" | "jobs"> {
  readonly run: string | undefined;
  readonly after: number | undefined;
  readonly isAborted: () => boolean;
  /** Resolves when the reader has taken the line, or there is room for it. */
  readonly write: (line: string) => Promise<unknown>;
  readonly onEnd: (end: () => void) => void;
}

/** Until the reader has gone. A reader that does not read holds up this function alone. */
export async function feed(options: FeedOptions): Promise<void> {
  const { watchers, jobs, run, isAborted, write } = options;
  let wake = () => {};
  let isOver = false, isAwake = false;
  const changedJobs = new Set(jobs.list().map(({ id }) => id));
  let runsSeen = jobs.runsVersion;
  const onChange = () => {
    isAwake = true;
    wake();
  };
  options.onEnd(() => {
    isOver = true;
    onChange();
  });
  const leaveJobs = jobs.join((id) => {
    if (id !== undefined) changedJobs.add(id);
    onChange();
  });
  const joined = run === undefined ? undefined : watchers.join(run, onChange);
  let seq = options.after ?? -1;
  try {
    const watcher = joined?.watcher;
    // The route has waited for the first state: a rack that cannot be looked at is its error.
    while (!isOver && !isAborted()) {
      const messages: Message[] = [];
      if (watcher !== undefined) {
        const read = watcher.ring.after(seq);
        if ("changes" in read) messages.push(...read.changes);
        else {
          if (seq >= 0) messages.push({ type: "dropped", count: read.missed });
          messages.push(await watcher.state());
        }
        // The state is at least as new as the number: a repeated change has no effect.
        seq = read.seq;
      } else seq = Math.max(seq, 0);
      for (const id of changedJobs) {
        const job = jobs.find(id)?.job;
        if (job !== undefined) messages.push({ type: "job", job });
      }
      changedJobs.clear();
      if (runsSeen !== jobs.runsVersion) messages.push({ type: "runs" });
      runsSeen = jobs.runsVersion;
      isAwake = false;
      await write(`${JSON.stringify({ seq, messages } satisfies Batch)}\n`);
      await sleep(BATCH_MS);
      if (!isAwake) await woken((resolve) => wake = resolve);
    }
  } finally {
    joined?.leave();
    leaveJobs();
  }
}

async function woken(give: (resolve: () => void) => void): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  give(resolve);
  const timer = setTimeout(resolve, FEED_ALIVE_MS);
  await promise;
  clearTimeout(timer);
}
