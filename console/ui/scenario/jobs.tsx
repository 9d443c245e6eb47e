import { jobs } from "../data/rack.ts";
import { api } from "../data/api.ts";
import { isOperator } from "../data/session.ts";
import { order } from "../frame/notice.tsx";
import { go, hrefOf } from "../state.ts";

const SHOWN_MAX = 4;
const RACKS: ReadonlySet<string> = new Set(["up", "resume"]);

/** Explorations and campaigns have views of their own. */
export function Jobs() {
  const own = jobs.value.filter(({ kind }) => kind === "run" || RACKS.has(kind))
    .slice(0, SHOWN_MAX);
  if (own.length === 0) return null;
  return (
    <table class="wide list" aria-label="Under way">
      <tbody>
        {own.map(({ id, kind, scenario, state, title, share, run, verdict, error }) => (
          <tr key={id}>
            <td>
              <strong>{scenario}</strong> {RACKS.has(kind) ? "comes up" : "runs"}
            </td>
            <td>
              {state === "running"
                ? <progress value={share} max={1} aria-label={`${scenario}: ${title}`} />
                : state === "failed"
                ? <span class="is-lost">✗ {error || verdict}</span>
                : verdict || state}
            </td>
            <td class="quiet">{state === "running" ? title : ""}</td>
            <td class="num">
              {state === "running" && isOperator.value && (
                <button
                  type="button"
                  onClick={() => void order(api.cancel(id), () => `${scenario} is ended`)}
                >
                  End
                </button>
              )}
              {(state === "done" || (state === "failed" && error === "")) && run !== null && (
                RACKS.has(kind)
                  ? (
                    <button type="button" onClick={() => go({ view: "rack", run })}>
                      Look at it
                    </button>
                  )
                  : (
                    <a class="button" href={hrefOf({ view: "runs", more: { show: run } })}>
                      Report
                    </a>
                  )
              )}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
