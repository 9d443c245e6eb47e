import { signal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { CHOICES } from "../../../fabric/rack/plan/vocabulary.ts";
import { CHAOS_OPTIONS } from "../../api/options.ts";
import type { ChaosResult, JobDetail } from "../../api/jobs.ts";
import { api, type Shipped } from "../data/api.ts";
import { isOperator } from "../data/session.ts";
import { Empty, Loading } from "../frame/empty.tsx";
import { OptionFields, type Typed, typedOrder } from "../frame/option_fields.tsx";
import { count, plural, sentence } from "../figures.ts";
import { saveScenario } from "../scenario/save_run.tsx";
import { hrefOf, place } from "../state.ts";
import type { View } from "../view.ts";
import { JobBar } from "./job_bar.tsx";
import { details, followDetail, isRunning, jobNow, type Kind, showPart, startJob } from "./jobs.ts";

const KINDS: readonly Kind[] = ["chaos"];

type Round = ChaosResult["rounds"][number];

const shipped = signal<readonly Shipped[]>([]);
const OPTIONS = { ...CHOICES, ...CHAOS_OPTIONS };

const scenario = signal("persist_pair"), typed: Typed = signal({});

function Page() {
  useEffect(() => {
    void api.scenarios().then(({ scenarios }) => shipped.value = scenarios);
    return followDetail(KINDS);
  }, []);
  const job = jobNow(KINDS);
  const detail = job === undefined ? undefined : details.value.get(job.id);
  const result = detail?.result?.kind === "chaos" ? detail.result.campaign : undefined;
  return (
    <>
      <h1>
        Chaos<small>
          processes are killed, paused and cut off; each round is judged and replayed
        </small>
      </h1>
      {isOperator.value && <Form isBusy={job !== undefined && isRunning(job)} />}
      <JobBar kinds={KINDS}>{result && <Counts campaign={result} />}</JobBar>
      {job === undefined
        ? (
          <Empty isPart title="No campaign has run yet">
            A campaign starts its own rack again and again, kills and cuts what it consists of,
            heals it, and checks that every promise was kept. It does not touch the rack that is up.
            Choose a scenario above and press Begin.
          </Empty>
        )
        : detail === undefined
        ? <Loading what="the campaign" />
        : result === undefined
        ? isRunning(job) && (
          <p class="quiet">The rack runs undisturbed first: the first round follows.</p>
        )
        : <Campaign campaign={result} detail={detail} />}
    </>
  );
}

function Form({ isBusy }: { readonly isBusy: boolean }) {
  return (
    <form
      class="row end"
      onSubmit={(event) => {
        event.preventDefault();
        void startJob({
          kind: "chaos",
          scenario: { shipped: scenario.value },
          ...typedOrder(OPTIONS, typed),
        });
      }}
    >
      <label>
        Scenario
        <select
          value={scenario.value}
          onChange={({ currentTarget }) => scenario.value = currentTarget.value}
        >
          {shipped.value.map(({ name }) => <option key={name} value={name}>{name}</option>)}
        </select>
      </label>
      <OptionFields table={OPTIONS} first={["for", "rounds", "seed"]} typed={typed} />
      <button type="submit" disabled={isBusy}>Begin</button>
    </form>
  );
}

async function doAgain(
  order: JobDetail["order"],
  { seed, round }: { readonly seed: number; readonly round: number },
): Promise<void> {
  if (order.kind !== "chaos") return;
  await startJob({ ...order, seed, from: round, rounds: 1 });
}

function Counts({ campaign }: { readonly campaign: ChaosResult }) {
  const { held, broken, untold, seed, count: all } = campaign;
  return (
    <span>
      {plural(all, "round")} of seed <span class="num">{seed}</span>,{" "}
      <strong class={held > 0 ? "is-durable" : ""}>{count(held)} held</strong>,{" "}
      <strong class={broken > 0 ? "is-lost" : ""}>{count(broken)} broken</strong>, {count(untold)}
      {" "}
      without a result
    </span>
  );
}

function Campaign(
  { campaign, detail: { job, order } }: {
    readonly campaign: ChaosResult;
    readonly detail: JobDetail;
  },
) {
  const { rounds, seed } = campaign;
  const wanted = place.value.more["round"];
  const shown = rounds.find(({ round }) => String(round) === wanted) ??
    rounds.findLast(({ outcome }) => outcome === "broken") ?? rounds.at(-1);
  return (
    <>
      <Rounds rounds={rounds} shown={shown?.round} />
      {shown !== undefined && (
        <OneRound
          round={shown}
          run={job.run}
          again={isRunning(job) ? undefined : () => void doAgain(order, { seed, ...shown })}
        />
      )}
      <Goals goals={campaign.goals} isRunning={isRunning(job)} />
    </>
  );
}

const OUTCOMES: Readonly<
  Record<Round["outcome"], { readonly tone: string; readonly letter: string }>
> = {
  held: { tone: "durable", letter: "H" },
  broken: { tone: "lost", letter: "B" },
  untold: { tone: "off", letter: "?" },
};

/** As cells: a broken one among a thousand is visible. */
function Rounds(
  { rounds, shown }: { readonly rounds: readonly Round[]; readonly shown: number | undefined },
) {
  return (
    <div class="rounds" role="group" aria-label="Rounds">
      {rounds.map(({ round, outcome, what }) => {
        const { tone, letter } = OUTCOMES[outcome];
        return (
          <button
            key={round}
            type="button"
            class={`round on-${tone}`}
            aria-label={`Round ${round}: ${outcome}`}
            aria-pressed={round === shown}
            title={`round ${round}: ${outcome}; ${what}`}
            onClick={() => showPart({ round: String(round) })}
          >
            {letter}
          </button>
        );
      })}
    </div>
  );
}

const REPLAYS: Readonly<Record<Round["replay"], string>> = {
  same: "Its record replays to the same digest",
  different: "Its record replays to another digest",
  inexact: "Messages were lost with their sender, so it cannot be replayed exactly",
  missing: "It was not replayed",
  none: "There is no replay",
};

function OneRound(
  { round, run, again }: {
    readonly round: Round;
    readonly run: string | null;
    readonly again: (() => void) | undefined;
  },
) {
  const { outcome, what, findings, untold, replay, replayShows, command, digest } = round;
  return (
    <section>
      <h2>
        Round {round.round}: {outcome}
        <small>{what}</small>
      </h2>
      <Blows round={round} />
      {findings.map(({ check, text }) => (
        <p key={text} class="note refused">
          <strong class="is-lost">{check}</strong>: {sentence(text)}
        </p>
      ))}
      {replayShows === false && (
        <p class="note would-lose">The replay shows nothing of what the checks found.</p>
      )}
      {untold !== null && <p class="note">No result: {untold}</p>}
      <p class="quiet">
        {REPLAYS[replay]}
        {digest !== null && (
          <>
            {" "}
            (<code>{digest}</code>)
          </>
        )}.
      </p>
      <div class="acts">
        {run !== null && round.directory !== null && replay === "same" && (
          <a
            class="button"
            href={hrefOf({ view: "rack", run, more: { variant: `round-${round.round}` } })}
          >
            Replay it, in every view
          </a>
        )}
        {run !== null && round.directory !== null && replay === "same" && (
          <button
            type="button"
            title="What was done to it stands in it as faults:"
            onClick={() => {
              const by = `round-${round.round}`;
              void saveScenario(run, { variant: by, by });
            }}
          >
            Save as scenario
          </button>
        )}
        {isOperator.value && again !== undefined && (
          <button type="button" onClick={again}>Do this round again</button>
        )}
      </div>
      {replay !== "none" && outcome !== "held" && (
        <>
          <h3>To replay it by the command</h3>
          <pre class="scroll" tabIndex={0}>{command}</pre>
        </>
      )}
    </section>
  );
}

const LINE_PX = 900;

function seconds(ms: number): string {
  return `${(ms / 1_000).toFixed(2)}\u202fs`;
}

function Blows({ round: { blows, wallMs: roundMs } }: { readonly round: Round }) {
  if (blows.length === 0) return <p class="quiet">Nothing was done to the rack in this round.</p>;
  const times = blows.map(({ wallMs }) => wallMs);
  const first = Math.min(...times), last = Math.max(...times);
  const xOf = (ms: number) => 8 + (ms - first) / Math.max(1, last - first) * (LINE_PX - 16);
  return (
    <>
      <svg
        class="blows"
        viewBox={`0 0 ${LINE_PX} 48`}
        role="img"
        aria-label={`${plural(blows.length, "act")} from ${seconds(first)} to ${seconds(last)}`}
      >
        <line class="rule" x1={8} x2={LINE_PX - 8} y1={22} y2={22} />
        {blows.map(({ what, wallMs, hit }, i) => (
          <g key={i} class={hit ? "is-lost" : "quiet"}>
            <title>{`${seconds(wallMs)}: ${what}`}</title>
            <path class={`blow ${hit ? "" : "missed"}`} d={`M${xOf(wallMs)} 8v28`} />
            <path
              class={`blow-head ${hit ? "" : "missed"}`}
              d={`M${xOf(wallMs) - 5} 8h10l-5 8z`}
            />
          </g>
        ))}
        <text class="quiet" x={8} y={46}>{seconds(first)}</text>
        {last > first && (
          <text class="quiet" x={LINE_PX - 8} y={46} text-anchor="end">{seconds(last)}</text>
        )}
      </svg>
      <table class="list acts-done">
        <thead>
          <tr>
            <th class="num">wall clock</th>
            <th class="num">virtual time</th>
            <th>what was done, in a round of {seconds(roundMs)}</th>
          </tr>
        </thead>
        <tbody>
          {blows.map(({ what, wallMs, hit }, i) => {
            const { at, act } = partsOf(what);
            return (
              <tr key={i} class={hit ? "" : "quiet"}>
                <td class="num">{seconds(wallMs)}</td>
                <td class="num">{at}</td>
                <td>
                  {act}
                  {!hit && (
                    <span title="Its target was without power already, or the run had passed its time">
                      {" "}– missed
                    </span>
                  )}
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </>
  );
}

/** `at 3 us kill b (missed)` in parts. */
function partsOf(what: string): { readonly at: string; readonly act: string } {
  const [, at, act] = /^(?:at (\S+\s\S+) )?(.*?)(?: \(missed\))?$/.exec(sentence(what))!;
  return { at: at ?? "", act: (act ?? "").replaceAll("->", " → ") };
}

function Goals(
  { goals, isRunning }: { readonly goals: ChaosResult["goals"]; readonly isRunning: boolean },
) {
  const all = Object.entries(goals);
  const reached = all.filter(([, times]) => times > 0),
    never = all.filter(([, times]) => times === 0);
  return (
    <section>
      <h2>
        Goals
        <small>
          {count(reached.length)} reached
          {!isRunning && never.length > 0 && `, ${count(never.length)} never`}
        </small>
      </h2>
      <ul class="goals">
        {reached.sort(([, x], [, y]) => y - x).map(([name, times]) => (
          <li key={name}>
            <span class="num">{count(times)}</span> {name}
          </li>
        ))}
        {never.map(([name]) => (
          <li key={name} class="quiet">
            <span class="num">–</span> {name}
          </li>
        ))}
      </ul>
    </section>
  );
}

export const CHAOS: View = {
  title: "Chaos",
  icon: "M11 2L5 11h4l-1 7 7-10h-5z",
  Page,
  isApart: true,
};
