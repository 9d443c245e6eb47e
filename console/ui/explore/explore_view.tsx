import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { valuesIn } from "../../../fabric/rack/plan/option_rows.ts";
import { CHOICES } from "../../../fabric/rack/plan/vocabulary.ts";
import { EXPLORE_OPTIONS } from "../../api/options.ts";
import type {
  ExploreResult,
  JobDetail,
  JobOrderInput,
  MatrixCell,
  MatrixResult,
} from "../../api/jobs.ts";
import { api, type Protocol, type Shipped } from "../data/api.ts";
import { variant } from "../data/rack.ts";
import { isOperator } from "../data/session.ts";
import { Empty, Loading } from "../frame/empty.tsx";
import { OptionFields, type Typed, typedOrder } from "../frame/option_fields.tsx";
import { count, plural, sentence, time } from "../figures.ts";
import { verdictWords } from "../../api/explore_text.ts";
import { countsText, keptText } from "./verdict_text.ts";
import { go, hrefOf, place, run } from "../state.ts";
import type { View } from "../view.ts";
import { isLike, methodsOf, type Responder, responderAsked } from "./responder.ts";
import { CounterexampleDetail } from "./counterexample.tsx";
import { type GridCell, VerdictGrid } from "./grid.tsx";
import { JobBar } from "./job_bar.tsx";
import { details, followDetail, isRunning, jobNow, type Kind, showPart, startJob } from "./jobs.ts";

const KINDS: readonly Kind[] = ["explore", "cut", "matrix"];

const shipped = signal<readonly Shipped[]>([]), protocols = signal<readonly Protocol[]>([]);
const scenario = signal("persist_pair"), typed: Typed = signal({});

const OPTIONS = { ...CHOICES, ...EXPLORE_OPTIONS };

function orderOf(): JobOrderInput {
  return {
    kind: "explore",
    scenario: { shipped: scenario.value },
    ...typedOrder(OPTIONS, typed),
  };
}

async function readShipped(): Promise<void> {
  if (shipped.value.length > 0) return;
  const { scenarios, ...all } = await api.scenarios();
  shipped.value = scenarios;
  protocols.value = all.protocols;
  if (!scenarios.some(({ name }) => name === scenario.value)) {
    scenario.value = scenarios[0]?.name ?? "";
  }
}

function Page() {
  useEffect(() => {
    void readShipped();
    return followDetail(KINDS);
  }, []);
  const job = jobNow(KINDS);
  const detail = job === undefined ? undefined : details.value.get(job.id);
  return (
    <>
      <h1>
        Explore<small>the power is cut at every instant: is every promise kept?</small>
      </h1>
      <CutHere />
      {isOperator.value && (
        <>
          <Form isBusy={job !== undefined && isRunning(job)} />
          <AboutProtocol />
        </>
      )}
      <JobBar kinds={KINDS} />
      {job === undefined
        ? (
          <Empty isPart title="Nothing has been explored yet">
            Choose a scenario above and press Explore: a grid shows which method keeps its promises
            where, and a counterexample where one does not. The matrix has every method on every
            kind of responder.
          </Empty>
        )
        : detail === undefined
        ? <Loading what="what it has found" />
        : <Found detail={detail} />}
    </>
  );
}

function CutHere() {
  const { cut, atPs } = place.value.more, id = run.value, of = variant.value;
  if (cut === undefined || atPs === undefined || id === undefined) return null;
  const start = () =>
    void startJob({
      kind: "cut",
      run: id,
      host: cut,
      atPs: Number(atPs),
      ...(of !== undefined && { variant: of }),
    });
  return (
    <div class="note row apart">
      <p>
        Cut the power of <strong>{cut}</strong> at <span class="num">{time(Number(atPs))}</span> of
        {" "}
        {id}: with everything that its caches may have written back by then. The rack is not
        touched.
      </p>
      <div class="acts">
        {isOperator.value && <button type="button" onClick={start}>Cut here</button>}
        <a class="button" href={hrefOf({ view: "memory", at: Number(atPs), more: { host: cut } })}>
          Back to its memory
        </a>
      </div>
    </div>
  );
}

/** As one chooses: a scenario, or a protocol of the catalogue. */
function groups(): readonly { readonly label: string; readonly all: readonly Shipped[] }[] {
  const of = (wanted: Protocol["verdict"]) =>
    protocols.value.filter(({ verdict }) => verdict === wanted);
  return [
    { label: "Scenarios", all: shipped.value },
    { label: "Protocols that are right", all: of("safe") },
    { label: "Protocols that are wrong", all: of("unsafe") },
  ];
}

/** Of a protocol of the catalogue: what is known of it, and its text. */
function AboutProtocol() {
  const found = protocols.value.find(({ name }) => name === scenario.value);
  if (found === undefined) return null;
  const { name, verdict, about, source } = found;
  return (
    <p class="note" data-testid="protocol">
      <span class={verdict === "safe" ? "is-durable" : "is-lost"}>
        {verdict === "safe" ? "✓ right" : "✗ wrong"}
      </span>: {about}
      {source !== undefined && <span class="quiet">({source})</span>}{" "}
      <a href={hrefOf({ view: "scenario", more: { edit: name } })}>Its scenario</a>
    </p>
  );
}

function Form({ isBusy }: { readonly isBusy: boolean }) {
  return (
    <form
      class="row end"
      onSubmit={(event) => {
        event.preventDefault();
        void startJob(orderOf());
      }}
    >
      <label>
        Scenario
        <select
          value={scenario.value}
          onChange={({ currentTarget }) => scenario.value = currentTarget.value}
        >
          {groups().map(({ label, all }) => (
            <optgroup key={label} label={label}>
              {all.map(({ name, about }) => (
                <option key={name} value={name} title={about}>{name}</option>
              ))}
            </optgroup>
          ))}
        </select>
      </label>
      <OptionFields
        table={OPTIONS}
        first={[
          "method",
          "ddio",
          "claims",
          "robust",
          "cut",
          "preemptions",
          "stall",
          "interleavings",
        ]}
        typed={typed}
      />
      <button type="submit" disabled={isBusy || scenario.value === ""}>Explore</button>
      <button
        type="button"
        disabled={isBusy}
        onClick={() =>
          void startJob({ kind: "matrix", ...typedOrder({ jobs: EXPLORE_OPTIONS.jobs }, typed) })}
      >
        Explore the matrix
      </button>
    </form>
  );
}

function Found({ detail }: { readonly detail: JobDetail }) {
  const { result, job } = detail;
  if (result === null) {
    return isRunning(job)
      ? <p class="quiet">Nothing is known yet: the first variant is being explored.</p>
      : null;
  }
  switch (result.kind) {
    case "explore":
    case "cut":
      return <Explored explored={result.explored} detail={detail} />;
    case "matrix":
      return <Matrix matrix={result.matrix} />;
    default:
      return null;
  }
}

type Explored = ExploreResult["runs"][number];

function Explored(
  { explored, detail }: { readonly explored: ExploreResult; readonly detail: JobDetail },
) {
  const { runs } = explored, { cell } = place.value.more;
  const shown = runs.find(({ variant }) => variant === cell) ??
    runs.find(({ counterexample }) => counterexample !== null) ?? runs[0];
  const cells = runs.map((each): GridCell => {
    const { method, ddio, variant, verdict } = each;
    return {
      row: method ?? variant,
      column: ddio === null ? "verdict" : `DDIO ${ddio}`,
      verdict,
      title: sentence(countsText(each)),
      key: variant,
    };
  });
  return (
    <>
      {runs.length > 1 && (
        <VerdictGrid
          cells={cells}
          rowTitle="method"
          selected={shown?.variant}
          onSelect={(key) => showPart({ cell: key })}
        />
      )}
      {shown !== undefined && (
        <>
          {runs.length === 1 ? <h2>{sentence(countsText(shown))}</h2> : (
            <h2>
              {shown.variant}: {verdictWords(shown)}
              <small>{sentence(countsText(shown))}</small>
            </h2>
          )}
          {shown.counterexample === null ? <Kept explored={shown} /> : (
            <CounterexampleDetail
              found={shown.counterexample}
              command={shown.command}
              onOpen={openOf(shown, explored, detail)}
            />
          )}
        </>
      )}
    </>
  );
}

function Kept({ explored }: { readonly explored: Explored }) {
  const { verdict, why, promises, writes } = explored;
  // An asked instant is judged as far as it goes.
  const isKept = verdict === "safe" || verdict === "partial";
  return (
    <p class={`note ${isKept ? "is-safe" : "would-lose"}`}>
      {isKept ? keptText(explored) : "This says nothing of promises."} {plural(writes, "write")},
      {" "}
      {count(promises)} of them promised.{why !== undefined && ` Not all was seen: ${why}.`}
    </p>
  );
}

function openOf(
  shown: Explored,
  explored: ExploreResult,
  { job, order }: JobDetail,
): (() => void) | undefined {
  const { counterexample, method, ddio, variant, faults } = shown;
  if (counterexample === null || faults === null || !counterexample.isReplayable) return undefined;
  // An interleaving has no instant of a power failure to go to: its command shows it.
  if (counterexample.hosts.length === 0) return undefined;
  if (order.kind !== "explore" || !isOperator.value) return undefined;
  return () => void open();

  async function open(): Promise<void> {
    const asked = order as Extract<JobDetail["order"], { kind: "explore" }>;
    const started = await startJob({
      kind: "run",
      scenario: asked.scenario,
      ...valuesIn(CHOICES, asked),
      ...(method !== null && { method }),
      ...(ddio !== null && { ddio }),
      seed: explored.seed,
      packing: "all",
      counterexample: { job: job.id, variant },
    });
    if (started === undefined) return;
    const made = await runOf(started.id);
    if (made !== undefined) {
      go({
        view: "memory",
        run: made,
        at: counterexample!.atPs,
        more: { host: counterexample!.hosts[0]! },
      });
    }
  }
}

const WAIT_MS = 200, WAITS = 300;

async function runOf(id: string): Promise<string | undefined> {
  for (let i = 0; i < WAITS; i++) {
    const { job } = await api.job(id);
    if (!isRunning(job)) return job.run ?? undefined;
    await new Promise((resolve) => setTimeout(resolve, WAIT_MS));
  }
  return undefined;
}

const UPDATES: Readonly<Record<string, string>> = {
  single: "one record",
  compound: "a record, and the tail that counts it",
  mixed: "plain WRITEs, and one message by the method",
  replaced: "an object that replaces another",
};

function keyOf({ method, update, arch, ddio, domain, receiveBuffer }: MatrixCell): string {
  return [method, update, domain, arch, ddio, receiveBuffer].join(" ");
}

function Matrix({ matrix }: { readonly matrix: MatrixResult }) {
  const { cells } = matrix, { cell, update: wanted } = place.value.more;
  const updates = [...new Set(cells.map(({ update }) => update))];
  const update = updates.find((each) => each === wanted) ?? updates[0];
  const asked = responderAsked();
  const of = cells.filter((each) => each.update === update);
  // The machine that is asked about comes first.
  const own = asked === undefined
    ? of
    : of.toSorted((x, y) => Number(isLike(y, asked)) - Number(isLike(x, asked)));
  const shown = own.find((each) => keyOf(each) === cell);
  return (
    <>
      {asked !== undefined && (
        <Asked responder={asked} cells={of} isWhole={cells.length === matrix.count} />
      )}
      <div class="row" role="group" aria-label="What is written">
        {updates.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === update}
            onClick={() => showPart({ update: each, cell: undefined })}
          >
            {UPDATES[each] ?? each}
          </button>
        ))}
        <span class="quiet">
          <span class="num">{count(cells.length)}</span> of {count(matrix.count)} cells
        </span>
      </div>
      <div class={shown === undefined ? "scroll" : "scroll matrix-half"} tabIndex={0}>
        <VerdictGrid
          cells={own.map((each) => ({
            row:
              `${each.domain}, ${each.arch}, DDIO ${each.ddio}, receive in ${each.receiveBuffer}`,
            column: each.method,
            verdict: each.safe ? "safe" : "unsafe",
            title: plural(each.crashPoints, "crash point"),
            key: keyOf(each),
            ...(asked !== undefined && isLike(each, asked) && { isMeant: true }),
          }))}
          rowTitle="responder"
          selected={cell}
          onSelect={(key) => showPart({ cell: key })}
        />
      </div>
      {shown !== undefined && (shown.counterexample === null
        ? (
          <p class={`note ${shown.safe ? "is-safe" : ""}`}>
            {shown.safe
              ? `${
                plural(shown.crashPoints, "crash point")
              }: what the method claims is there at every instant.`
              : "It has no counterexample."}
          </p>
        )
        : (
          <>
            <h2>
              {shown.method}
              <small>
                {shown.domain}, {shown.arch}, DDIO {shown.ddio}, receive buffers in{" "}
                {shown.receiveBuffer}
              </small>
            </h2>
            <CounterexampleDetail found={shown.counterexample} command={null} onOpen={undefined} />
          </>
        ))}
    </>
  );
}

/** The answer in words: what the rows of the machine say, as far as they are there. */
function Asked({ responder, cells, isWhole }: {
  readonly responder: Responder;
  readonly cells: readonly MatrixCell[];
  readonly isWhole: boolean;
}) {
  const { host, domain, arch, ddio } = responder, { safe, unsafe } = methodsOf(cells, responder);
  const machine = `${domain.toUpperCase()}, ${arch}, DDIO ${ddio}`;
  if (safe.length + unsafe.length === 0) {
    return (
      <p class="note quiet" data-testid="asked">
        {host} has {machine}.{" "}
        {isWhole ? "The matrix has no such machine." : "Machines like it are being explored …"}
      </p>
    );
  }
  return (
    <div class="note" data-testid="asked">
      <p>
        <strong>{host} has {machine}</strong>: its rows come first.{!isWhole &&
          " More cells are being explored."}
      </p>
      {safe.length > 0 && (
        <p>
          <span class="is-durable">✓ Kept at every instant by</span> {safe.join(", ")}
        </p>
      )}
      {unsafe.length > 0 && (
        <p>
          <span class="is-lost">✗ Lost at some instant by</span> {unsafe.join(", ")}
        </p>
      )}
    </div>
  );
}

export const EXPLORE: View = {
  title: "Explore",
  icon: "M3 10h5l5-6h4M8 10l5 6h4",
  Page,
  isApart: true,
};
