import { useSignal } from "@preact/signals";
import {
  NOTE_LETTERS_MAX,
  RUN_SORTS,
  type RunFilter,
  runsIn,
  VERDICTS,
} from "../../api/run_filter.ts";
import type { Run } from "../../api/runs.ts";
import { api } from "../data/api.ts";
import { runs } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { bytes, count, plural, when } from "../figures.ts";
import { Empty, Loading } from "../frame/empty.tsx";
import { Choice, SearchField } from "../frame/filters.tsx";
import { changeMore, go, hrefOf, place } from "../state.ts";
import type { View } from "../view.ts";
import { Compared } from "./compared.tsx";
import { OneRun } from "./one_run.tsx";
import { Verdict } from "./verdict.tsx";

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
  const listed = runsIn(all.runs, filterNow());
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
            {listed.length < all.runs.length && `${count(listed.length)} of `}
            {plural(all.runs.length, "run")},{" "}
            {bytes(listed.reduce((sum, { bytes }) => sum + bytes, 0))}
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
      <Filters all={all.runs} />
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
              <th>methods</th>
              <th>DDIO</th>
              <th>note</th>
              <th class="num">seed</th>
              <th>digest</th>
              <th class="num">size</th>
              <th>started</th>
              <th>checkpoints</th>
            </tr>
          </thead>
          <tbody>
            {listed.map((
              {
                id,
                state,
                scenario,
                verdict,
                methods,
                ddio,
                note,
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
                <td title={methods.join(", ")}>
                  {methods.length > 2 ? `${count(methods.length)} methods` : methods.join(", ")}
                </td>
                <td>{ddio.join(", ")}</td>
                <td>
                  {isOperator.value && state !== "another user's"
                    ? <Note id={id} note={note ?? ""} />
                    : note}
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

function filterNow(): RunFilter {
  const { text, method, ddio, verdict, state, sort } = place.value.more;
  const known = RUN_SORTS.find((each) => each === sort);
  return { text, method, ddio, verdict, state, ...(known !== undefined && { sort: known }) };
}

const SORTS = {
  newest: "newest first",
  oldest: "oldest first",
  name: "by name",
  largest: "largest",
};

function Filters({ all }: { readonly all: readonly Run[] }) {
  const { text, method, ddio, verdict, state, sort } = filterNow();
  const valuesOf = (values: readonly string[]) => [...new Set(values)].sort();
  return (
    <div class="row end" role="search" aria-label="Runs">
      <SearchField label="Text" value={text} onChange={(text) => changeMore({ text })} />
      <Choice
        label="Method"
        value={method}
        all={valuesOf(all.flatMap(({ methods }) => methods))}
        onChoose={(method) => changeMore({ method })}
      />
      <Choice
        label="DDIO"
        value={ddio}
        all={valuesOf(all.flatMap(({ ddio }) => ddio))}
        onChoose={(ddio) => changeMore({ ddio })}
      />
      <Choice
        label="Verdict"
        value={verdict}
        all={VERDICTS}
        onChoose={(verdict) => changeMore({ verdict })}
      />
      <Choice
        label="State"
        value={state}
        all={valuesOf(all.map(({ state }) => state))}
        onChoose={(state) => changeMore({ state })}
      />
      <Choice
        label="Order"
        value={sort === "newest" ? "" : sort}
        all={RUN_SORTS.filter((each) => each !== "newest")}
        words={SORTS}
        none={SORTS.newest}
        onChoose={(sort) => changeMore({ sort })}
      />
    </div>
  );
}

function Note({ id, note }: { readonly id: string; readonly note: string }) {
  const trouble = useSignal("");
  return (
    <>
      <input
        aria-label={`Note on ${id}`}
        maxLength={NOTE_LETTERS_MAX}
        value={note}
        placeholder="a note"
        onChange={({ currentTarget: { value } }) => {
          trouble.value = "";
          api.note(id, value).catch((error) => trouble.value = (error as Error).message);
        }}
      />
      {trouble.value !== "" && <small class="refused" role="alert">{trouble.value}</small>}
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
