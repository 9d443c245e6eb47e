/** What happened around an instant, or, where a text is searched for, all that fits in the run. */
import { useSignalEffect } from "@preact/signals";
import type { Events } from "../../api/replay.ts";
import { EVENT_KINDS } from "../../api/replay_terms.ts";
import { topology, variant } from "../data/rack.ts";
import { pathOf, Reader } from "../data/reading.ts";
import { timeline } from "../data/timeline.ts";
import { plural, time } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { Choice, SearchField } from "../frame/filters.tsx";
import { csv, saveAs } from "../frame/save.ts";
import { changeMore, instant, lookAt, place, run } from "../state.ts";

const found = new Reader<Events>();

const LISTED = 200;

function filter(change: Readonly<Record<string, string | undefined>>): void {
  changeMore({ from: undefined, ...change });
}

function readFound(): void {
  const id = run.value, end = timeline.value?.endPs;
  if (id === undefined || topology.value === undefined || end === undefined) return;
  const { node, kinds, text, from = "0" } = place.value.more;
  const where = text === undefined
    ? { at: instant.value ?? end, before: LISTED, after: LISTED }
    : { at: from, before: 0, after: LISTED };
  void found.read(
    pathOf(["runs", id, "events"], { node, kinds, text, ...where, variant: variant.value }),
    id,
  );
}

export function EventList() {
  useSignalEffect(readFound);
  const { node, kinds, text, from } = place.value.more, known = found.value;
  if (found.trouble !== undefined) return <p class="note refused" role="alert">{found.trouble}</p>;
  if (known === undefined) return <Loading what="events of the run" />;
  const { rows, split, toPs } = known;
  return (
    <>
      <div class="row end" role="search" aria-label="Events">
        <Choice
          label="Device"
          value={node}
          all={topology.value?.nodes.map(({ name }) => name) ?? []}
          onChoose={(node) => filter({ node })}
        />
        <Choice
          label="Kind"
          value={kinds}
          all={EVENT_KINDS}
          onChoose={(kinds) => filter({ kinds })}
        />
        <SearchField label="Text" value={text} onChange={(text) => filter({ text })} />
        <button
          type="button"
          title="The events that are listed; times in ns"
          onClick={() => saveAs("events.csv", csv(csvRows(known)))}
        >
          Save as CSV
        </button>
      </div>
      <p class="quiet" role="status">
        {text === undefined
          ? `${plural(split, "event")} before ${
            instant.value === undefined ? "the end" : time(instant.value)
          }, ${plural(rows.length - split, "event")} from there on. A text searches the whole run.`
          : `${plural(rows.length, "event")} ${
            from === undefined ? "" : `from ${time(Number(from))} on `
          }${
            toPs === null
              ? "to the end of the run"
              : `up to ${time(toPs)}; later ones were not looked for`
          }`} {text !== undefined && toPs !== null && (
          <button
            type="button"
            onClick={() => filter({ from: String(toPs) })}
          >
            Search on
          </button>
        )}
        {from !== undefined && (
          <button
            type="button"
            onClick={() => filter({})}
          >
            From the begin
          </button>
        )}
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="List of events">
        <table class="wide list">
          <thead>
            <tr>
              <th class="num">time</th>
              <th>device</th>
              <th>kind</th>
              <th>what</th>
              <th>text</th>
            </tr>
          </thead>
          <tbody>
            {rows.map(({ time: at, node, kind, name, text }, i) => (
              <tr key={i}>
                <td class="num">
                  <button
                    type="button"
                    class="link"
                    title="Show the rack right after it"
                    onClick={() => lookAt(at + 1)}
                  >
                    {time(at)}
                  </button>
                </td>
                <td>{node}</td>
                <td>{kind}</td>
                <td>{name}</td>
                <td>{text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function csvRows({ rows }: Events): (string | number)[][] {
  return [
    ["time ns", "device", "kind", "what", "text"],
    ...rows.map(({ time, node, kind, name, text }) => [time / 1_000, node, kind, name, text]),
  ];
}
