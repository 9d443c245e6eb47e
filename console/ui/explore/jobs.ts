import { effect, signal } from "@preact/signals";
import type { Job, JobDetail, JobOrderInput } from "../../api/jobs.ts";
import { api } from "../data/api.ts";
import { jobs, takeJob } from "../data/rack.ts";
import { session } from "../data/session.ts";
import { go, place } from "../state.ts";

export type Kind = Job["kind"];

export function isRunning({ state }: Pick<Job, "state">): boolean {
  return state === "running" || state === "ending";
}

/** Newest first. */
export function jobsOf(kinds: readonly Kind[]): readonly Job[] {
  return jobs.value.filter(({ kind }) => kinds.includes(kind));
}

/** The job that the address names, else the latest. */
export function jobNow(kinds: readonly Kind[]): Job | undefined {
  const all = jobsOf(kinds), { job } = place.value.more;
  return all.find(({ id }) => id === job) ?? all[0];
}

export function chooseJob(id: string): void {
  const { cell: _, round: __, ...rest } = place.value.more;
  go({ more: { ...rest, job: id } });
}

export function showPart(part: Readonly<Record<string, string | undefined>>): void {
  const given = Object.entries({ ...place.value.more, ...part }).filter(
    (each): each is [string, string] => each[1] !== undefined,
  );
  go({ more: Object.fromEntries(given) });
}

export const refused = signal<string | undefined>(undefined);

/** Starts a job and looks at it; undefined where it is refused. */
export async function startJob(order: JobOrderInput): Promise<Job | undefined> {
  refused.value = undefined;
  try {
    const job = await api.start(order);
    takeJob(job);
    chooseJob(job.id);
    return job;
  } catch (error) {
    refused.value = (error as Error).message;
    return undefined;
  }
}

export const details = signal<ReadonlyMap<string, JobDetail>>(new Map());

const READ_MS = 500;

/** Reads the results again while the job runs. */
export function followDetail(kinds: readonly Kind[]): () => void {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const end = effect(() => {
    if (session.value === undefined) return;
    const job = jobNow(kinds);
    if (job === undefined) return;
    const known = details.peek().get(job.id);
    if (known !== undefined && !isRunning(known.job) && !isRunning(job)) return;
    if (timer !== undefined) return;
    timer = setTimeout(() => {
      timer = undefined;
      const now = jobNow(kinds);
      if (now !== undefined) void readDetail(now.id);
    }, known === undefined ? 0 : READ_MS);
  });
  return () => {
    end();
    clearTimeout(timer);
  };
}

async function readDetail(id: string): Promise<void> {
  try {
    const detail = await api.job(id);
    details.value = new Map([...details.value, [id, detail]]);
    // Jobs that the feed has not reported yet.
    const listed = jobs.value.find((each) => each.id === id);
    if (listed !== undefined && isRunning(listed)) {
      jobs.value = jobs.value.map((each) => each.id === id ? detail.job : each);
    }
  } catch (error) {
    refused.value = (error as Error).message;
  }
}
