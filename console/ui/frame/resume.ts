/**
 * Jobs that bring a rack of processes up, anew or as it stood at an instant of a run; at their end
 * the page shows the rack.
 */
import { effect } from "@preact/signals";
import type { Time } from "../../../fabric/base/time.ts";
import { api } from "../data/api.ts";
import type { JobOrderInput } from "../../api/jobs.ts";
import { jobs, takeJob, variant } from "../data/rack.ts";
import { go, instant, run } from "../state.ts";
import { order, refuse } from "./notice.tsx";

/**
 * Brings a rack up; the page goes to it as soon as it is there.
 * @param onStart is told the job before the page shows it.
 */
export function bringUp(what: JobOrderInput, onStart: (job: string) => void): void {
  const started = api.start(what).then((job) => {
    onStart(job.id);
    takeJob(job);
    follow(job.id);
  });
  void order(started, () => "");
}

/** @param to.at an instant, or the name of a checkpoint of the run. */
export function bringUpAt(
  run: string,
  { at, variant }: { readonly at: Time | string; readonly variant?: string | undefined },
): void {
  const what = { kind: "resume", run, at, ...(variant !== undefined && { variant }) } as const;
  const started = api.start(what).then((job) => {
    follow(job.id);
    return job;
  });
  void order(started, () => "A rack comes up there: every device repeats the run up to it");
}

export function bringUpHere(): void {
  if (run.value === undefined || instant.value === undefined) return;
  bringUpAt(run.value, { at: instant.value, variant: variant.value });
}

function follow(id: string): void {
  const stop = effect(() => {
    const job = jobs.value.find((each) => each.id === id);
    if (job === undefined || job.state === "running" || job.state === "ending") return;
    queueMicrotask(() => {
      stop();
      if (job.state === "failed") return refuse(job.error);
      if (job.state === "done" && job.run !== null) go({ view: "rack", run: job.run });
    });
  });
}
