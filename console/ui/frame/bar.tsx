import { useComputed } from "@preact/signals";
import type { Clock } from "../../api/rack.ts";
import { api } from "../data/api.ts";
import { connection } from "../data/connection.ts";
import {
  clock,
  ended,
  isKept,
  isUp,
  runs,
  speed,
  topology,
  trouble,
  variant,
  variants,
} from "../data/rack.ts";
import { replayedAt } from "../data/shown.ts";
import { goToStop, type Stop, stop } from "../data/stop.ts";
import { beyondText, passText, replayText, timeline, timelineTrouble } from "../data/timeline.ts";
import { isOperator, readsOnly } from "../data/session.ts";
import { cut, roughTime, sentence, time, wordsOfVariant } from "../figures.ts";
import { go, hrefOf, instant, lookAt, run, select } from "../state.ts";
import { openHelp } from "./help.tsx";
import { openUntil } from "./until.tsx";
import { order } from "./notice.tsx";
import { openSearch } from "./search.tsx";
import { canDrive, drive, isHeld, PACES, runOrPause, stepEvent, stepSpan } from "./time.ts";
import { toggleTheme } from "./theme.ts";

/** The first screen: no rack is chosen. */
const START = { view: "rack", run: undefined } as const;

function Which() {
  const all = runs.value?.runs ?? [];
  const shown = all.filter(({ id, state }) =>
    state === "up" || state === "running" || id === run.value
  );
  return (
    <div class="which">
      <a class="brand" href={hrefOf({ ...START, more: {} })} title="What one can see here">
        rackmesh
      </a>
      <select
        aria-label="Rack or run"
        value={run.value ?? ""}
        onChange={({ currentTarget: { value } }) => go(value === "" ? START : { run: value })}
      >
        <option value="">{run.value === undefined ? "no rack" : "the first screen"}</option>
        {run.value !== undefined && !shown.some(({ id }) => id === run.value) && (
          <option value={run.value}>{cut(run.value, 32)}</option>
        )}
        {shown.map(({ id, scenario, seed, state }) => (
          <option key={id} value={id}>
            {cut(scenario ?? id, 28)}
            {seed === null ? "" : `, seed ${seed}`}
            {state === "up" ? "" : ` (${state})`}
          </option>
        ))}
      </select>
      {variants.value.length > 1 && (
        <select
          aria-label="Variant"
          value={variant.value ?? ""}
          onChange={({ currentTarget }) => go({ variant: currentTarget.value })}
        >
          {variants.value.map((each) => (
            <option key={each} value={each}>{wordsOfVariant(each)}</option>
          ))}
        </select>
      )}
    </div>
  );
}

function Why() {
  const now = connection.value;
  if (now.state === "interrupted") {
    const since = new Date(now.since).toLocaleTimeString();
    return <span class="why is-lost" role="status">No news since {since}: {now.why}</span>;
  }
  if (trouble.value !== undefined) return <span class="why is-lost">{trouble.value}</span>;
  if (ended.value !== undefined) {
    return <span class="why">The rack is down{ended.value === "" ? "" : `: ${ended.value}`}</span>;
  }
  if (beyondText.value !== undefined) {
    return (
      <span class="why is-lost" role="status">
        {beyondText.value}.{" "}
        <button type="button" class="link" onClick={() => lookAt(undefined)}>
          {isKept.value ? "Show its end" : "Show now"}
        </button>
      </span>
    );
  }
  if (passText.value !== "") return <span class="why" role="status">{passText.value}</span>;
  if (isKept.value) {
    const end = timeline.value?.endPs, exactness = timeline.value?.exactness;
    const natives = timeline.value?.natives ?? 0;
    return (
      <span class="why" title={timelineTrouble.value ?? ""}>
        {timelineTrouble.value ??
          (end === undefined
            ? replayText.value
            : exactness?.state === "unknown"
            ? sentence(exactness.why)
            : `A kept run: it ended at ${time(end)}${servedText(natives)}`)}
      </span>
    );
  }
  if (stop.value !== undefined) return <Stopped stop={stop.value} />;
  return <WhyOfClock />;
}

/** A page starts no binary of a run that it shows. */
function servedText(natives: number): string {
  if (natives === 0) return "";
  const which = natives === 1 ? "Its native program is" : `Its ${natives} native programs are`;
  return `. ${which} served from its record: nothing is started`;
}

function WhyOfClock() {
  // In one text, equal while the sentence is the same one.
  const all = useComputed(() => JSON.stringify(clock.value?.whyParts ?? []));
  const past = useComputed(() =>
    instant.value === undefined ? "" : `The past. Now it is ${time(clock.value?.virtualPs ?? 0)}: `
  );
  const isNow = useComputed(() => instant.value === undefined);
  const parts = (JSON.parse(all.value) as Clock["whyParts"]).map((part, i) =>
    typeof part !== "string"
      ? <ProcessName key={i} process={part.process} />
      : i > 0
      ? sentence(part)
      : sentence(part).replace(
        /^Virtual time is [^:]*: (.)/,
        (_, first) => isNow.value ? first.toUpperCase() : first,
      )
  );
  return <span class="why" title={clock.peek()?.why}>{past}{parts}</span>;
}

/** Leads to the first of its devices. */
function ProcessName({ process }: { readonly process: string }) {
  const name = topology.value?.nodes.find((node) => node.process === process)?.name;
  if (name === undefined) return <>{process}</>;
  return (
    <button type="button" class="link" onClick={() => select({ kind: "device", name })}>
      {process}
    </button>
  );
}

function Stopped({ stop }: { readonly stop: Stop }) {
  const { node, step, at, row, trouble } = stop;
  const what = row === undefined ? step : `${row.name}: ${row.text}`;
  const text = `${node} at ${time(at)}, ${what}`;
  return (
    <span class="why" title={trouble ?? text}>
      Stopped at <button type="button" class="link" onClick={() => goToStop(stop)}>{text}</button>
      {trouble !== undefined && ". The replay does not say more"}
    </span>
  );
}

function Pace() {
  const pace = useComputed(() => clock.value?.psPerSecond ?? 0).value;
  const paces = PACES.some(([, each]) => each === pace)
    ? PACES
    : [...PACES, [`${roughTime(pace)}/s`, pace] as const];
  return (
    <select
      aria-label="Pace: virtual time in a second"
      title="Pace: virtual time in a second"
      disabled={!canDrive.value}
      value={String(pace)}
      onChange={({ currentTarget }) =>
        void drive({ order: "pace", psPerSecond: Number(currentTarget.value) })}
    >
      {paces.map(([name, each]) => <option key={each} value={String(each)}>{name}</option>)}
    </select>
  );
}

function Now() {
  const shown = useComputed(() => {
    const at = replayedAt.value ?? clock.value?.virtualPs;
    return at === undefined ? "–" : time(at);
  });
  const rate = useComputed(() =>
    speed.value === 0 ? `0${"\u202f"}s/s` : `${roughTime(Number(speed.value.toPrecision(2)))}/s`
  );
  return (
    <>
      <span class="now" data-testid="now">{shown}</span>
      {instant.value === undefined ? <span class="rate num">{rate}</span> : (
        <button
          type="button"
          onClick={() => lookAt(undefined)}
          title={`Back to ${isKept.value ? "the end" : "now"} (Esc)`}
        >
          {isKept.value ? "end" : "now"}
        </button>
      )}
    </>
  );
}

/** Heals every cable and starts every device. */
export function healAll(): void {
  const id = run.value;
  if (id === undefined) return;
  void order(api.heal(id), ({ healed, started, problems }) => {
    const done = [
      ...(healed.length > 0 ? [`healed ${healed.join(", ")}`] : []),
      ...(started.length > 0 ? [`started ${started.join(", ")}`] : []),
      ...problems,
    ];
    return done.length === 0 ? "Nothing is broken" : done.join("; ");
  });
}

export function Bar() {
  return (
    <header class="bar">
      <div class="what">
        <Which />
        <Why />
      </div>
      {run.value !== undefined && <TimeControls />}
      <div class="row">
        {readsOnly.value !== undefined && (
          <span class="badge" role="note" title={readsOnly.value.why}>{readsOnly.value.what}</span>
        )}
        {isOperator.value && run.value !== undefined && (
          <button
            type="button"
            title="Heals every cable, starts every device (h)"
            disabled={!isUp.value || connection.value.state === "interrupted"}
            onClick={healAll}
          >
            heal all
          </button>
        )}
        <button
          type="button"
          class="plain"
          title="Search (/)"
          aria-label="Search"
          onClick={() => openSearch("")}
        >
          /
        </button>
        <button
          type="button"
          class="plain"
          title="Dark or light (t)"
          aria-label="Dark or light"
          onClick={toggleTheme}
        >
          ◐
        </button>
        <button type="button" class="plain" title="Keys (?)" aria-label="Keys" onClick={openHelp}>
          ?
        </button>
      </div>
    </header>
  );
}

function TimeControls() {
  const still = !canDrive.value;
  return (
    <div class="time" role="group" aria-label="Virtual time">
      {isOperator.value && (
        <>
          <button
            type="button"
            title="One instant with events (.)"
            disabled={still}
            onClick={stepEvent}
          >
            ▸ event
          </button>
          <button
            type="button"
            title="A microsecond (n)"
            disabled={still}
            onClick={() => stepSpan()}
          >
            ▸ 1 µs
          </button>
          <button
            type="button"
            class="go"
            title={isHeld.value ? "Let time run (space)" : "Stop time (space)"}
            disabled={still}
            onClick={runOrPause}
          >
            {isHeld.value ? "▶ run" : "❚❚ pause"}
          </button>
          <button type="button" title="Run until (u)" disabled={still} onClick={openUntil}>
            until…
          </button>
          <Pace />
        </>
      )}
      <Now />
    </div>
  );
}
