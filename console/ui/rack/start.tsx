/** Where no rack is chosen: what one can see here, one click each, and the latest runs. */
import type { JobOrderInput } from "../../api/jobs.ts";
import type { Run } from "../../api/runs.ts";
import { api } from "../data/api.ts";
import { jobs, runs } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { useFetched } from "../frame/fetched.ts";
import { bringUp } from "../frame/resume.ts";
import { plural, when } from "../figures.ts";
import { startJob } from "../explore/jobs.ts";
import { Verdict } from "../runs/verdict.tsx";
import { type Mark, MatrixSketch, shapeOf, Sketch } from "../scenario/sketch.tsx";
import { go, hrefOf } from "../state.ts";

interface Tour {
  readonly title: string;
  /** One sentence. */
  readonly what: string;
  /** To look at, once its rack is up: a rack of a few hosts comes up within seconds. */
  readonly minutes: number;
  readonly scenario: string;
  readonly choices?: Pick<Extract<JobOrderInput, { kind: "up" }>, "method" | "ddio">;
  readonly mark?: Mark;
}

const TOURS: readonly Tour[] = [
  {
    title: "What a power cut loses",
    what: "A host writes 256 KiB to another, which keeps it in its cache: kill it, and see.",
    minutes: 1,
    scenario: "persist_pair",
    choices: { method: "write-read", ddio: "on" },
    mark: { host: 1, as: "lost" },
  },
  {
    title: "The same, made persistent",
    what: "The same write by a method whose confirmation is a promise: kill it at any instant.",
    minutes: 1,
    scenario: "persist_pair",
    choices: { method: "persist-opcode", ddio: "on" },
    mark: { host: 1, as: "kept" },
  },
  {
    title: "Eight writers, one reader",
    what: "Queues fill, the switch marks and pauses, and a bystander is slowed down with them.",
    minutes: 2,
    scenario: "incast",
    mark: { host: 8, as: "busy" },
  },
  {
    title: "A cable that loses frames",
    what: "Frames are lost, damaged, held back and sent again, and all that is promised is kept.",
    minutes: 2,
    scenario: "lossy_pair",
    choices: { method: "persist-opcode", ddio: "on" },
    mark: { host: 1, as: "faulty" },
  },
  {
    title: "One of three copies fails",
    what: "A log on three hosts goes on while one of them is without power, and then catches up.",
    minutes: 2,
    scenario: "replicated_log",
    mark: { host: 2, as: "lost" },
  },
  {
    title: "A way around a cut",
    what: "A cable between leaf and spine is cut in the run: flows find another way.",
    minutes: 2,
    scenario: "leaf_spine",
    mark: { host: 0, as: "busy" },
  },
  {
    title: "Thirty-two hosts at once",
    what: "Each host makes 64 KiB persistent on the next, over one switch.",
    minutes: 2,
    scenario: "rack_32",
  },
];

export function Start() {
  const up = runs.value?.runs.filter(({ state }) => state === "up") ?? [];
  return (
    <div class="scroll page" tabIndex={0} role="region" aria-label="Start">
      <div class="row apart">
        <h1>
          What one can see here
          <small>
            {up.length > 0 ? `${plural(up.length, "rack is", "racks are")} up` : "no rack is up"}
            {isOperator.value && ": a card brings one up, paused at 0"}
          </small>
        </h1>
        <a class="button" href={hrefOf({ view: "scenario" })}>All scenarios</a>
      </div>
      {up.length > 0 && (
        <div class="acts">
          {up.map(({ id, scenario }) => (
            <a key={id} class="button" href={hrefOf({ run: id })} title={id}>
              Look at {scenario ?? id}
            </a>
          ))}
        </div>
      )}
      <ul class="gallery of-tours">
        {TOURS.map((tour) => <Card key={tour.title} tour={tour} />)}
        <MatrixCard />
      </ul>
      <Latest />
    </div>
  );
}

function Card({ tour }: { readonly tour: Tour }) {
  const { title, what, minutes, scenario, choices, mark } = tour;
  const text = useFetched(scenario, () => api.scenario(scenario)).value.value?.text;
  const started = jobs.value.find(({ id }) => id === startedBy.get(title));
  const inside = (
    <>
      <Sketch shape={text === undefined ? undefined : shapeOf(text)} mark={mark} />
      <strong>{title}</strong>
      <span class="quiet">{what}</span>
      <span class="takes quiet">
        {started?.state === "running"
          ? <progress value={started.share} max={1} aria-label={`${title}: ${started.title}`} />
          : `${plural(minutes, "minute")} · ${scenario}`}
      </span>
    </>
  );
  // A viewer may read what the card would bring up.
  if (!isOperator.value) {
    return (
      <li>
        <a class="card" href={hrefOf({ view: "scenario", more: { edit: scenario } })}>{inside}</a>
      </li>
    );
  }
  return (
    <li>
      <button
        type="button"
        class="card"
        disabled={started?.state === "running"}
        onClick={() =>
          bringUp(
            { kind: "up", scenario: { shipped: scenario }, ...choices, paused: true },
            (id) => startedBy.set(title, id),
          )}
      >
        {inside}
      </button>
    </li>
  );
}

/** Jobs by the title of the card that has started them. */
const startedBy = new Map<string, string>();

function MatrixCard() {
  const inside = (
    <>
      <MatrixSketch />
      <strong>Which method survives where</strong>
      <span class="quiet">
        Every method on every kind of machine, its power cut at every instant: safe, or what is
        lost.
      </span>
      <span class="takes quiet">3 minutes · no rack is needed</span>
    </>
  );
  if (!isOperator.value) {
    return (
      <li>
        <a class="card" href={hrefOf({ view: "explore" })}>{inside}</a>
      </li>
    );
  }
  return (
    <li>
      <button
        type="button"
        class="card"
        onClick={() => {
          go({ view: "explore" });
          void startJob({ kind: "matrix" });
        }}
      >
        {inside}
      </button>
    </li>
  );
}

const LATEST = 6;

function Latest() {
  const all = runs.value?.runs.filter(({ state }) => state !== "another user's") ?? [];
  if (all.length === 0) return null;
  return (
    <section>
      <div class="row apart">
        <h2>Latest runs</h2>
        <a class="button" href={hrefOf({ view: "runs", more: {} })}>
          {all.length > LATEST ? `All ${all.length} runs` : "All runs"}
        </a>
      </div>
      <table class="wide list" aria-label="Latest runs">
        <tbody>
          {all.slice(0, LATEST).map((each) => <LatestRun key={each.id} run={each} />)}
        </tbody>
      </table>
    </section>
  );
}

function LatestRun({ run: { id, scenario, state, verdict, methods, ddio, started } }: {
  readonly run: Run;
}) {
  const choices = [...methods.slice(0, 2), ...methods.length > 2 ? ["…"] : []].join(", ");
  return (
    <tr>
      <td>
        {state === "up"
          ? <a href={hrefOf({ run: id })} title={id}>{scenario ?? id}</a>
          : (
            <a href={hrefOf({ view: "runs", more: { show: id } })} title={id}>
              {scenario ?? id}
            </a>
          )}
      </td>
      <td class="quiet">
        {choices}
        {ddio.length > 0 && `, DDIO ${ddio.join(" and ")}`}
      </td>
      <td>{state}</td>
      <td>
        <Verdict verdict={verdict} />
      </td>
      <td class="num">{when(started)}</td>
    </tr>
  );
}
