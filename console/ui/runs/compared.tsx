import type { Comparison, EventRow } from "../../api/replay.ts";
import type { Report } from "../../api/report.ts";
import { api } from "../data/api.ts";
import { replayWords, useReplayState } from "../data/timeline.ts";
import {
  bitRate,
  count,
  counter,
  roughTime,
  sentence,
  time,
  wordsOfCounter,
  wordsOfVariant,
} from "../figures.ts";
import { useFetched } from "../frame/fetched.ts";
import { go, hrefOf, place } from "../state.ts";

function Rows({ title, rows, others, first, ended }: {
  readonly title: string;
  readonly rows: readonly EventRow[];
  readonly others: readonly EventRow[];
  readonly first: NonNullable<Comparison["first"]>;
  readonly ended: Comparison["here"];
}) {
  const { at, nodes } = first, known = new Set(others.map(keyOf));
  return (
    <div>
      <h3>{title}</h3>
      {rows.length === 0
        ? (
          <p class="quiet">
            {nodes.join(", ")} {nodes.length === 1 ? "does" : "do"}{" "}
            nothing that is on record near this instant, and nothing later. The run ended at{" "}
            {time(ended.endPs)}.
          </p>
        )
        : (
          <table class="list">
            <tbody>
              {rows.map(({ time: when, node, name, text }, i) => (
                <tr key={i} class={known.has(keyOf(rows[i]!)) ? "quiet" : ""}>
                  <td class="num">{time(when, at)}</td>
                  <td class="name">{node}</td>
                  <td class="name">{name}</td>
                  <td>
                    <code>{sentence(text)}</code>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
    </div>
  );
}

function Configuration({ value }: { readonly value: Comparison }) {
  const { configuration, moreConfiguration } = value;
  return (
    <>
      <h2>What differs in what they were told</h2>
      {configuration.length === 0
        ? (
          <p class="quiet">
            Nothing: scenario, seed, faults and programs are the same. Programs that were started by
            order, and their content, are not compared here.
          </p>
        )
        : (
          <table class="list" aria-label="Configuration that differs">
            <thead>
              <tr>
                <th>what</th>
                <th class="num">first</th>
                <th class="num">second</th>
              </tr>
            </thead>
            <tbody>
              {configuration.map(({ what, here, there }) => (
                <tr key={what}>
                  <td>{what}</td>
                  <td class="num">{sentence(here ?? "none")}</td>
                  <td class="num">{sentence(there ?? "none")}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      {moreConfiguration > 0 && <p class="quiet">and {count(moreConfiguration)} more.</p>}
    </>
  );
}

type MethodRow = Report["methods"][number];

/** As the list of methods of one run has them, with what a difference is about first. */
const FIGURES: readonly (readonly [name: string, figure: (row: MethodRow) => string])[] = [
  ["method", ({ method }) => method],
  ["DDIO", ({ ddio }) => ddio],
  ["promised", ({ promises }) => promises ? "yes" : "no"],
  ["confirmed", ({ confirmed, messages }) => `${count(confirmed)} of ${count(messages)}`],
  [
    "after the run",
    ({ error, loss, intact }) =>
      error !== null
        ? `✗ ${error}`
        : loss !== null
        ? "✗ lost what it reported"
        : intact
        ? "✓ intact"
        : "not all is there",
  ],
  ["median", ({ latencyPs }) => roughTime(latencyPs.median)],
  ["p99", ({ latencyPs }) => roughTime(latencyPs.p99)],
  ["throughput", ({ throughputBps }) => bitRate(throughputBps)],
];

function useResult(id: string) {
  const detail = useFetched(id, () => api.run(id)).value.value;
  const report = useFetched(
    detail?.hasReport === true ? `report ${id}` : undefined,
    () => api.report(id),
  ).value;
  return { detail, report };
}

/** Verdicts and figures of methods, side by side. */
function Methods(
  { one, other, value }: {
    readonly one: string;
    readonly other: string;
    readonly value: Comparison;
  },
) {
  const x = useResult(one), y = useResult(other);
  // A report has the rows of all variants: a row's digest says whose it is.
  const rowsOf = ({ report }: typeof x, { digest }: Comparison["here"]) =>
    (report.value?.methods ?? []).filter((row) => row.digest === digest);
  const ours = rowsOf(x, value.here), theirs = rowsOf(y, value.there);
  const failed = ({ report }: typeof x) =>
    (report.value?.checks ?? []).filter(({ holds }) => !holds).map(({ name }) => name).join(", ");
  const verdictOf = (result: typeof x) =>
    result.detail === undefined
      ? "…"
      : result.detail.hasReport
      ? failed(result) === "" ? "every check holds" : `✗ ${failed(result)}`
      : "no report: the rack was not run to its end";
  const lineOf = (name: string, here: string, there: string, key: string) => (
    <tr key={key} class={here === there ? "quiet" : ""}>
      <td>{name}</td>
      <td class="num">{here}</td>
      <td class="num">{there}</td>
    </tr>
  );
  return (
    <>
      <h2>What came of it</h2>
      <table class="list" aria-label="Verdicts and figures">
        <thead>
          <tr>
            <th>figure</th>
            <th class="num">first</th>
            <th class="num">second</th>
          </tr>
        </thead>
        <tbody>
          {lineOf("checks of the whole run", verdictOf(x), verdictOf(y), "verdict")}
          {Array.from({ length: Math.max(ours.length, theirs.length) }, (_, i) =>
            FIGURES.map(([name, figure]) => {
              const text = (row: MethodRow | undefined) =>
                row === undefined ? "none" : figure(row);
              return lineOf(name, text(ours[i]), text(theirs[i]), `${i} ${name}`);
            }))}
        </tbody>
      </table>
    </>
  );
}

/** All digits: two counters that differ look different. */
function exact(name: string, value: number): string {
  if (name.endsWith("Ps")) return time(value);
  return /bytes/i.test(name) ? `${count(value)}\u202fB` : counter(name, value);
}

function keyOf({ time, node, name, text }: EventRow): string {
  return JSON.stringify([time, node, name, text]);
}

/** What differs at the instant is not always an event that is on record. */
function FirstEvents({ first }: { readonly first: NonNullable<Comparison["first"]> }) {
  const { at, here, there } = first;
  const i = here.findIndex((row, i) => there[i] === undefined || keyOf(row) !== keyOf(there[i]));
  const one = here[i < 0 ? here.length : i], other = there[i < 0 ? here.length : i];
  if ([one, other].some((row) => row !== undefined && row.time <= at)) return null;
  const where = one !== undefined && other !== undefined
    ? `the first events that differ are at ${time(one.time)} and ${time(other.time)}`
    : "the events near it read alike";
  return here.length === 0 || there.length === 0 ? null : (
    <p class="quiet">
      What differs there is no event on record: it is a message on the bus, or the bytes of one,
      such as its packet sequence number, which follows from the seed. Of {first.nodes.join(", ")},
      {" "}
      {where}.
    </p>
  );
}

function Side({ id, member }: { readonly id: string; readonly member: "of" | "withOf" }) {
  const { more } = place.value, { value } = useFetched(id, () => api.run(id)).value;
  const variants = value?.variants ?? [];
  if (variants.length < 2) return <span>{id}</span>;
  return (
    <label class="row">
      {id}
      <select
        aria-label={member === "of" ? "Variant of the first" : "Variant of the second"}
        value={more[member] ?? variants[0]!}
        onChange={({ currentTarget }) => go({ more: { ...more, [member]: currentTarget.value } })}
      >
        {variants.map((name) => <option key={name} value={name}>{wordsOfVariant(name)}</option>)}
      </select>
    </label>
  );
}

/** How far the replay is that the comparison waits for. */
function ReplayOf(
  { run, variant }: { readonly run: string; readonly variant: string | undefined },
) {
  const state = useReplayState(run, variant).value;
  return (
    <p class="quiet" role="status">
      {run}
      {variant !== undefined && `, ${wordsOfVariant(variant)}`}: {replayWords(state)}
    </p>
  );
}

export function Compared({ one, other }: { readonly one: string; readonly other: string }) {
  const { of: variant, withOf: withVariant } = place.value.more;
  const { value, trouble } = useFetched(
    `${one} ${variant} ${other} ${withVariant}`,
    () => api.compare(one, { variant, with: other, withVariant }),
  ).value;
  return (
    <div class="scroll page" tabIndex={0} role="region" aria-label="Comparison">
      <p>
        <a href={hrefOf({ more: {} })}>All runs</a>
      </p>
      <h1>{one === other ? "Two variants" : "Two runs"}</h1>
      <div class="row quiet">
        <Side id={one} member="of" />
        and
        <Side id={other} member="withOf" />
      </div>
      {trouble !== undefined && <p class="note refused">{trouble}</p>}
      {value === undefined && trouble === undefined && (
        <>
          <ReplayOf run={one} variant={variant} />
          {(other !== one || withVariant !== variant) && (
            <ReplayOf run={other} variant={withVariant} />
          )}
        </>
      )}
      {value?.isSame === true && (
        <p class="note is-safe">They are the same: digest {value.here.digest}.</p>
      )}
      {value?.isSame === false && (
        <>
          <Configuration value={value} />
          <Methods one={one} other={other} value={value} />
        </>
      )}
      {value?.isSame === false && value.first === null && (
        <p class="note">
          No event differs as far as both go: one ended at {time(value.here.endPs)}, the other at
          {" "}
          {time(value.there.endPs)}.
        </p>
      )}
      {value !== undefined && value.first !== null && (
        <>
          <h2>
            They part at {time(value.first.at)}
            <small>{value.first.nodes.join(", ")}</small>
          </h2>
          <p>
            Show that instant{" "}
            <a href={hrefOf({ view: "rack", run: one, variant, at: value.first.at, more: {} })}>
              of the first
            </a>{" "}
            or{" "}
            <a
              href={hrefOf({
                ...{ view: "rack", run: other, variant: withVariant },
                ...{ at: value.first.at, more: {} },
              })}
            >
              of the second
            </a>
          </p>
          <FirstEvents first={value.first} />
          <div class="two">
            <Rows
              title="The first"
              rows={value.first.here}
              others={value.first.there}
              first={value.first}
              ended={value.here}
            />
            <Rows
              title="The second"
              rows={value.first.there}
              others={value.first.here}
              first={value.first}
              ended={value.there}
            />
          </div>
        </>
      )}
      {value !== undefined && !value.isSame && (
        <>
          <h2>Counters</h2>
          <table class="list">
            <thead>
              <tr>
                <th>device</th>
                <th>counter</th>
                <th class="num">first</th>
                <th class="num">second</th>
              </tr>
            </thead>
            <tbody>
              <tr>
                <td>all</td>
                <td>events</td>
                <td class="num">{count(value.here.events)}</td>
                <td class="num">{count(value.there.events)}</td>
              </tr>
              <tr>
                <td>all</td>
                <td>end</td>
                <td class="num">{time(value.here.endPs)}</td>
                <td class="num">{time(value.there.endPs)}</td>
              </tr>
              {value.figures.map(({ node, name, here, there }) => (
                <tr key={`${node} ${name}`}>
                  <td>{node}</td>
                  <td title={name}>{wordsOfCounter(name)}</td>
                  <td class="num">{here === null ? "–" : exact(name, here)}</td>
                  <td class="num">{there === null ? "–" : exact(name, there)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </>
      )}
    </div>
  );
}
