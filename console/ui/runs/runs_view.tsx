import { useSignal } from "@preact/signals";
import { runs } from "../data/rack.ts";
import { bytes, plural } from "../figures.ts";
import { Empty, Loading } from "../frame/empty.tsx";
import { go, hrefOf, place } from "../state.ts";
import type { View } from "../view.ts";
import { Compared } from "./compared.tsx";
import { OneRun } from "./one_run.tsx";
import { Verdict } from "./verdict.tsx";

function when(text: string): string {
  const date = new Date(text);
  return text === "" || isNaN(date.getTime())
    ? "unknown"
    : date.toLocaleString(undefined, { dateStyle: "short", timeStyle: "short" });
}

function All() {
  const chosen = useSignal<readonly string[]>([]);
  const all = runs.value;
  if (all === undefined) return <Loading what="the list of runs" />;
  if (all.runs.length === 0) {
    return (
      <Empty
        title="No runs yet"
        act={<a class="button" href={hrefOf({ view: "scenario" })}>Choose a scenario</a>}
      >
        This view lists what runs have left: verdict, report, plots, captures. Run a scenario, and
        it is here.
      </Empty>
    );
  }
  const [first, second] = chosen.value;
  const toggle = (id: string) =>
    chosen.value = chosen.value.includes(id)
      ? chosen.value.filter((each) => each !== id)
      : [...chosen.value.slice(-1), id];
  return (
    <>
      <div class="row apart">
        <h1>
          Runs
          <small>
            {plural(all.runs.length, "run")},{" "}
            {bytes(all.runs.reduce((sum, { bytes }) => sum + bytes, 0))}
          </small>
        </h1>
        <button
          type="button"
          disabled={second === undefined}
          title={second === undefined ? "Tick two runs" : ""}
          onClick={() => go({ more: { show: first!, with: second! } })}
        >
          Compare two
        </button>
      </div>
      <div class="scroll" tabIndex={0} role="region" aria-label="List of runs">
        <table class="wide list">
          <thead>
            <tr>
              <th>
                <span class="visually-hidden">chosen</span>
              </th>
              <th>run</th>
              <th>state</th>
              <th>verdict</th>
              <th class="num">seed</th>
              <th>digest</th>
              <th class="num">size</th>
              <th>started</th>
              <th>checkpoints</th>
            </tr>
          </thead>
          <tbody>
            {all.runs.map((
              {
                id,
                state,
                scenario,
                verdict,
                seed,
                digest,
                bytes: size,
                started,
                mark,
                checkpoints,
              },
            ) => (
              <tr key={id}>
                <td>
                  <input
                    type="checkbox"
                    aria-label={`Compare ${id}`}
                    checked={chosen.value.includes(id)}
                    onChange={() => toggle(id)}
                  />
                </td>
                <td>
                  <a href={hrefOf({ more: { show: id } })} title={id}>{scenario ?? id}</a>
                  {id.startsWith("chaos-") && <small class="quiet">campaign</small>}
                  {mark !== undefined && <small class="quiet">{mark === "" ? "kept" : mark}</small>}
                </td>
                <td>{state}</td>
                <td>
                  <Verdict verdict={verdict} />
                </td>
                <td class="num">{seed ?? ""}</td>
                <td class="num left">{digest?.slice(0, 12) ?? ""}</td>
                <td class="num">{bytes(size)}</td>
                <td>{when(started)}</td>
                <td>{checkpoints.join(" ")}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function Page() {
  const { show, with: other } = place.value.more;
  if (show === undefined) return <All />;
  return other === undefined
    ? <OneRun key={show} id={show} />
    : <Compared one={show} other={other} />;
}

export const RUNS: View = {
  title: "Runs",
  icon: "M4 5h12M4 10h12M4 15h8",
  Page,
  isApart: true,
};
