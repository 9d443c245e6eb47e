import type { ComponentChildren } from "preact";
import type { Job } from "../../api/jobs.ts";
import { api } from "../data/api.ts";
import { isOperator } from "../data/session.ts";
import { chooseJob, isRunning, jobNow, jobsOf, type Kind, refused } from "./jobs.ts";

export function JobBar(
  { kinds, children }: {
    readonly kinds: readonly Kind[];
    /** In figures, in place of words. */
    readonly children?: ComponentChildren;
  },
) {
  const all = jobsOf(kinds), job = jobNow(kinds);
  return (
    <>
      {refused.value !== undefined && <p class="note refused" role="alert">{refused.value}</p>}
      {job !== undefined && (
        <div class="row apart">
          <div class="row">
            {all.length > 1 && (
              <select
                aria-label="Which one"
                value={job.id}
                onChange={({ currentTarget }) => chooseJob(currentTarget.value)}
              >
                {all.map((each) => (
                  <option key={each.id} value={each.id}>
                    {each.id}: {each.scenario}, {each.verdict || each.state}
                  </option>
                ))}
              </select>
            )}
            <JobState job={job} figures={children} />
          </div>
          {isRunning(job) && isOperator.value && (
            <button
              type="button"
              disabled={job.state === "ending"}
              onClick={() => void api.cancel(job.id)}
            >
              {job.state === "ending" ? "Ending …" : "Stop it"}
            </button>
          )}
        </div>
      )}
    </>
  );
}

function JobState(
  { job, figures }: { readonly job: Job; readonly figures: ComponentChildren },
) {
  const { state, share, title, verdict, error, scenario } = job;
  if (isRunning(job)) {
    return (
      <>
        <progress max={1} value={share} aria-label={`${scenario}: how much is done`} />
        <span class="num">{Math.floor(share * 100)} %</span>
        {figures ?? <span class="quiet">{title}</span>}
      </>
    );
  }
  if (state === "failed" && error !== "") {
    return (
      <span>
        <strong class="is-lost">Failed</strong>: {error}
      </span>
    );
  }
  const end = state === "cancelled" ? "stopped" : figures === undefined ? verdict : "";
  return (
    <span>
      {scenario}: {end !== "" && <strong>{end}</strong>}
      {end !== "" && figures !== undefined && ", "}
      {figures}
    </span>
  );
}
