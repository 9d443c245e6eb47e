/**
 * A job that brings a rack of processes up as it stood at an instant of a run; at its end the page
 * shows the rack.
 */
import { effect } from "@preact/signals";
import type { Time } from "../../../fabric/base/time.ts";
import { api } from "../data/api.ts";
import { jobs, variant } from "../data/rack.ts";
import { go, instant, run } from "../state.ts";
import { order, refuse } from "./notice.tsx";

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
