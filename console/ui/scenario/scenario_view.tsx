import { signal, useComputed, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { readTyped, valuesIn } from "../../../fabric/rack/plan/option_rows.ts";
import { CHOICES } from "../../../fabric/rack/plan/vocabulary.ts";
import type { Validation } from "../../api/scenarios.ts";
import { api, type Shipped } from "../data/api.ts";
import { variant } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { cut, plural } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { useFetched } from "../frame/fetched.ts";
import { Choice, SearchField } from "../frame/filters.tsx";
import { refuse, say } from "../frame/notice.tsx";
import { saveAs } from "../frame/save.ts";
import { PACES } from "../frame/time.ts";
import { changeMore, go, hrefOf, place, run } from "../state.ts";
import type { View } from "../view.ts";
import { Files, filesVersion, project } from "./files.tsx";
import { Jobs } from "./jobs.tsx";
import { changeEdit, edits, keepEdits } from "./edits.ts";
import { changedLines } from "./lines.ts";
import { OF_RUN, SaveAsScenario } from "./save_run.tsx";
import { bySubject, withText } from "./subjects.ts";
import { shapeOf, Sketch } from "./sketch.tsx";
import { LINE_PX, Text } from "./text.tsx";

function Gallery() {
  const { value, trouble } = useFetched("all", api.scenarios).value;
  if (trouble !== undefined) return <p class="note refused">{trouble}</p>;
  if (value === undefined) return <Loading what="the scenarios" />;
  const { text, sort } = place.value.more, found = withText(value.scenarios, text ?? "");
  const groups = sort === undefined
    ? bySubject(found)
    : [{ title: "By name", about: "", scenarios: found }];
  return (
    <div class="scroll page" tabIndex={0} role="region" aria-label="Scenarios">
      <div class="row apart">
        <h1>
          Scenarios
          <small>{value.scenarios.length} are shipped</small>
        </h1>
        <a class="button" href={hrefOf({ more: { edit: "new" } })}>Begin a new one</a>
      </div>
      <Jobs />
      <OfThisRun />
      <div class="row end" role="search" aria-label="Scenarios">
        <SearchField label="Text" value={text} onChange={(text) => changeMore({ text })} />
        <Choice
          label="Order"
          value={sort}
          all={["name"]}
          words={{ name: "by name" }}
          none="by subject"
          onChoose={(sort) => changeMore({ sort })}
        />
      </div>
      {found.length === 0 && <p class="quiet">No scenario has {text}.</p>}
      {groups.map(({ title, about, scenarios }) => (
        <section key={title} aria-label={title}>
          {sort === undefined && (
            <h2>
              {title}
              <small>{about}</small>
            </h2>
          )}
          <ul class="gallery">
            {scenarios.map((each) => <Card key={each.name} shipped={each} />)}
          </ul>
        </section>
      ))}
    </div>
  );
}

function OfThisRun() {
  const id = run.value;
  if (id === undefined) return null;
  return (
    <div class="note row apart">
      <p>
        <strong>{id}</strong> as a scenario: what was done to it by hand becomes its{" "}
        <code>faults:</code>, and a run of it repeats the same.
      </p>
      <div class="acts">
        <a class="button" href={hrefOf({ more: { edit: `${OF_RUN}${id}` } })}>Open it</a>
        <SaveAsScenario />
      </div>
    </div>
  );
}

function Card({ shipped: { name, about } }: { readonly shipped: Shipped }) {
  const text = useFetched(name, () => api.scenario(name)).value.value?.text;
  return (
    <li>
      <a href={hrefOf({ more: { edit: name } })}>
        <Sketch shape={text === undefined ? undefined : shapeOf(text)} />
        <strong>{name}</strong>
        <span class="quiet">{about}</span>
      </a>
    </li>
  );
}

const PAUSE_MS = 250;

function useValidation(text: string, like: string | undefined) {
  const own = project.value, files = filesVersion.value;
  const valid = useSignal<Validation | undefined>(undefined), trouble = useSignal("");
  useEffect(() => {
    if (text === "") return;
    let isOver = false;
    const timer = setTimeout(async () => {
      try {
        const found = await api.validate(text, { like, project: own });
        if (isOver) return;
        valid.value = found;
        trouble.value = "";
      } catch (error) {
        if (!isOver) trouble.value = (error as Error).message;
      }
    }, PAUSE_MS);
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [text, like, own, files]);
  return { valid: valid.value, trouble: trouble.value };
}

function Problems(
  { valid, onGo }: {
    readonly valid: Validation | undefined;
    readonly onGo: (line: number) => void;
  },
) {
  if (valid === undefined) return <p class="quiet">Looking …</p>;
  if (valid.scenario !== null) {
    const { name, hosts, nodes, runs, programs, faults, needsInput } = valid.scenario;
    return (
      <div class="note is-safe">
        <strong>It can be run.</strong> {name}: {plural(hosts, "host")}, {plural(nodes, "device")},
        {" "}
        {plural(runs.length, "variant")}, {plural(faults, "fault")}; programs{" "}
        {programs.join(", ") || "none"}
        {needsInput.length > 0 &&
          `; without a file, a message of the page's own is put from ${needsInput.join(", ")}`}
      </div>
    );
  }
  return (
    <ul class="plain problems" aria-live="polite">
      {valid.problems.map(({ line, path, found, expected }, i) => (
        <li key={i} class="note refused">
          {line !== undefined && (
            <button type="button" class="link num" onClick={() => onGo(line)}>line {line}</button>
          )} {path !== "" && <code>{path}</code>} {found}
          {expected !== "" && <span class="quiet">: expected {expected}</span>}
        </li>
      ))}
    </ul>
  );
}

interface Source {
  readonly text: string;
  readonly like?: string;
  readonly title: string;
  readonly about: string;
  readonly notes: readonly string[];
}

async function sourceOf(name: string): Promise<Source> {
  if (!name.startsWith(OF_RUN)) {
    const { text } = await api.scenario(name), isNew = name === "new";
    const title = isNew ? "A new scenario" : name;
    return { text, title, about: "as it is shipped", notes: [], ...(!isNew && { like: name }) };
  }
  const id = name.slice(OF_RUN.length);
  const { text, faults, notes, project: read } = await api.scenarioOf(id, variant.peek());
  if (read !== undefined) project.value = read;
  const about = `as it was run, ${plural(faults, "fault")} by hand`;
  return { text, title: id, about, notes };
}

/** In the name of a run: `write-read, ddio on`. */
function choicesIn(label: string) {
  const parts = label.split(", "), ddio = parts.find((part) => part.startsWith("ddio "));
  return valuesIn(CHOICES, {
    method: readTyped(CHOICES.method, parts.find((part) => part !== ddio) ?? ""),
    ddio: readTyped(CHOICES.ddio, ddio?.slice("ddio ".length) ?? ""),
  });
}

/** What time does when a rack is up. */
const BEGINS = new Map<string, { readonly paused?: boolean; readonly psPerSecond?: number }>([
  ["paused at 0", { paused: true }],
  ["runs at once", {}],
  ...PACES.filter(([, psPerSecond]) => psPerSecond > 0).map(([name, psPerSecond]) =>
    [`runs at ${name}`, { psPerSecond }] as const
  ),
]);
const begins = signal([...BEGINS.keys()][0]!);

function edit(name: string, text: string | undefined): void {
  changeEdit(name, text);
  isKeptInBrowser.value = keepEdits();
}

/** A text that is too large for the browser's storage is lost with the page, which says so. */
const isKeptInBrowser = signal(true);

function Editor({ name }: { readonly name: string }) {
  const { value: file, trouble } = useFetched(name, () => sourceOf(name)).value;
  const shown = edits.value.get(name) ?? file?.text ?? "";
  const { valid, trouble: notValidated } = useValidation(shown, file?.like);
  const isBusy = useSignal(false), claims = useSignal(false), chosen = useSignal("");
  const wrong = useComputed(() => new Set<number>());
  wrong.value.clear();
  for (const { line } of valid?.problems ?? []) if (line !== undefined) wrong.value.add(line);
  if (trouble !== undefined) return <p class="note refused">{trouble}</p>;
  if (file === undefined) return <Loading what="the scenario" />;
  const changes = changedLines(file.text, shown);
  const { like } = file;
  const source = changes.size === 0 && like !== undefined
    ? { shipped: like }
    : { text: shown, project: project.value, ...(like !== undefined && { like }) };

  const runs = valid?.scenario?.runs ?? [];
  const one = runs.length > 1 ? runs.find((label) => label === chosen.value) : undefined;

  async function start(kind: "up" | "run"): Promise<void> {
    isBusy.value = true;
    const what = { scenario: source, ...(one !== undefined && choicesIn(one)) };
    try {
      const job = kind === "up"
        ? await api.start({ kind, ...what, ...BEGINS.get(begins.value)! })
        : await api.start({
          ...{ kind, ...what, packing: "all", captures: true },
          claims: claims.value,
        });
      say(kind === "up" ? "The rack is coming up" : "The run has begun");
      go({ more: { job: job.id } });
    } catch (error) {
      refuse(error);
    }
    isBusy.value = false;
  }

  function goToLine(line: number): void {
    const area = document.querySelector<HTMLTextAreaElement>("#scenario-text")!;
    const before = shown.split("\n").slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0);
    area.focus();
    area.setSelectionRange(before, before + (shown.split("\n")[line - 1]?.length ?? 0));
    area.scrollTop = Math.max(0, (line - 6) * LINE_PX);
  }

  const cannot = valid?.scenario === null || valid === undefined || isBusy.value;
  return (
    <>
      <div class="row apart">
        <h1>
          {cut(file.title, 40)}
          <small>
            {changes.size === 0
              ? file.about
              : `${plural(changes.size, "line")} changed, ${
                isKeptInBrowser.value
                  ? "kept in this browser until they are undone"
                  : "too long to be kept in this browser: save it"
              }`}
            {" · "}
            <a href={hrefOf({ more: {} })}>all scenarios</a>
          </small>
        </h1>
        <div class="row">
          {isOperator.value && (
            <>
              {runs.length > 1 && (
                <select
                  aria-label="Which of its runs"
                  value={one ?? ""}
                  onChange={({ currentTarget }) => chosen.value = currentTarget.value}
                >
                  <option value="">all {runs.length} runs</option>
                  {runs.map((label) => <option key={label} value={label}>{label}</option>)}
                </select>
              )}
              <button
                type="button"
                class="go"
                disabled={cannot || (runs.length > 1 && one === undefined)}
                title={runs.length > 1 && one === undefined ? "Choose one of its runs first" : ""}
                onClick={() => void start("up")}
              >
                Bring it up
              </button>
              <select
                aria-label="Then time"
                title="What time does when the rack is up"
                value={begins.value}
                onChange={({ currentTarget }) => begins.value = currentTarget.value}
              >
                {[...BEGINS.keys()].map((each) => <option key={each} value={each}>{each}</option>)}
              </select>
              <label
                class="check"
                title="The run fails where what a method claims is lost, not only what it promises"
              >
                <input
                  type="checkbox"
                  checked={claims.value}
                  onChange={({ currentTarget }) => claims.value = currentTarget.checked}
                />
                judge claims
              </label>
              <button type="button" disabled={cannot} onClick={() => void start("run")}>
                Run to its end
              </button>
            </>
          )}
          <button
            type="button"
            disabled={changes.size === 0}
            onClick={() => edit(name, undefined)}
          >
            Undo changes
          </button>
          <button
            type="button"
            onClick={() =>
              saveAs(
                `${valid?.scenario?.name ?? name}.yaml`,
                new Blob([shown], { type: "application/yaml" }),
              )}
          >
            Save
          </button>
        </div>
      </div>
      <Text
        text={shown}
        changes={changes}
        wrong={wrong.value}
        onChange={(next) => edit(name, next)}
      />
      <div class="scroll below" tabIndex={0} role="region" aria-label="What is wrong">
        {file.notes.map((note) => <p key={note} class="note would-lose">{note}</p>)}
        {notValidated !== "" && <p class="note refused">{notValidated}</p>}
        <Problems valid={valid} onGo={goToLine} />
        <Files />
      </div>
    </>
  );
}

function Page() {
  const { edit } = place.value.more;
  return edit === undefined ? <Gallery /> : <Editor key={edit} name={edit} />;
}

export const SCENARIO: View = {
  title: "Scenario",
  icon: "M5 2h7l3 3v13H5zM12 2v3h3",
  Page,
  isApart: true,
};
