/** Verdicts on a rack that is worked by hand, or that went down before its end: as far as it got. */
import { useSignal } from "@preact/signals";
import type { VerdictSoFar } from "../../api/replay.ts";
import type { RunDetail } from "../../api/runs.ts";
import { api } from "../data/api.ts";
import { time } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { Findings } from "./findings.tsx";

const STATES = {
  "holds": <span class="is-durable">✓ holds so far</span>,
  "fails": <span class="is-lost">✗ fails</span>,
  "nothing yet": <span class="quiet">nothing to judge yet</span>,
} as const satisfies Record<VerdictSoFar["state"], unknown>;

export function SoFar({ run }: { readonly run: RunDetail }) {
  const again = useSignal(0), claims = useSignal(false);
  const { value, trouble } = useFetched(
    run.id,
    () => api.verdicts(run.id, { claims: claims.value ? "true" : "false" }),
    `${run.state} ${again} ${claims}`,
  ).value;
  return (
    <section data-testid="so far">
      <div class="row apart">
        <h2>Checks, so far</h2>
        <div class="acts">
          <label class="check" title="Not only what a method promises, also what it claims">
            <input
              type="checkbox"
              checked={claims.value}
              onChange={({ currentTarget }) => claims.value = currentTarget.checked}
            />
            judge claims
          </label>
          <button type="button" onClick={() => again.value++}>Judge again</button>
        </div>
      </div>
      {trouble !== undefined && (
        <p class="note refused">What the checks say so far is not known: {trouble}</p>
      )}
      {value === undefined ? trouble === undefined && <Loading what="the verdicts" /> : (
        <>
          <p class="quiet">
            Of what happened before{" "}
            {time(value.at)}, SCM as a power failure of every host at that instant leaves it. What
            comes later is not judged, nor whether programs come to their end.
          </p>
          {value.unproved !== undefined && (
            <p class="note would-lose">
              What was judged is a replay that is not proved to be the run: {value.unproved}
            </p>
          )}
          <table class="wide list">
            <tbody>
              {value.checks.map(({ name, promise, looked, state, findings, mayBeMore }) => (
                <tr key={name}>
                  <td class="name">{STATES[state]}</td>
                  <td class="name">{name}</td>
                  <td class={state === "fails" ? "" : "quiet"}>
                    {state !== "fails" ? `${promise} (${looked})` : (
                      <Findings
                        check={{
                          ...{ name, promise, looked: [looked], holds: false, detail: "" },
                          findings: findings.map((each) => ({ variant: "", ...each })),
                          ...(mayBeMore && { mayBeMore }),
                        }}
                        detail={run}
                      />
                    )}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </section>
  );
}
