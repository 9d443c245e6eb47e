/**
 * All operations of a run as a table. Its filters have the names of the API's, and stand in the
 * page's address.
 */
import { useSignalEffect } from "@preact/signals";
import { PS_PER_US } from "../../../fabric/base/time.ts";
import type { Operations } from "../../api/replay.ts";
import { OPERATION_STATUSES } from "../../api/replay_terms.ts";
import { livePs } from "../data/live.ts";
import { topology, variant } from "../data/rack.ts";
import { pathOf, Reader } from "../data/reading.ts";
import { count, plural, roughTime, time } from "../figures.ts";
import { Loading } from "../frame/empty.tsx";
import { Choice, NumberField, SearchField } from "../frame/filters.tsx";
import { csv, saveAs } from "../frame/save.ts";
import { changeMore, hrefOf, place, run } from "../state.ts";

const found = new Reader<Operations>();

const LISTED = 200;

const SORTS = { begin: "by their begin", duration: "the longest first" } as const;

type Filters = Readonly<Record<string, string>>;

function filters(): Filters {
  return place.value.more;
}

/** Another filter begins with the first page of what fits. */
function filter(change: Readonly<Record<string, string | undefined>>): void {
  changeMore({ skip: undefined, ...change });
}

function readFound(): void {
  const id = run.value;
  if (id === undefined || topology.value === undefined) return;
  const { on, kind, status, minPs, maxPs, text, sort, skip } = filters();
  const query = { on, kind, status, minPs, maxPs, text, sort, skip };
  void found.read(
    pathOf(["runs", id, "operations"], { ...query, variant: variant.value, most: LISTED }),
    id,
    livePs.value,
  );
}

export function OperationList() {
  useSignalEffect(readFound);
  const { on, kind, status, minPs, maxPs, text, sort, skip = "0" } = filters();
  const known = found.value, first = Number(skip);
  if (found.trouble !== undefined) return <p class="note refused" role="alert">{found.trouble}</p>;
  if (known === undefined) return <Loading what="the operations of the run" />;
  const { operations, total, all, more, nodes, kinds } = known;
  return (
    <>
      <div class="row end" role="search" aria-label="Operations">
        <Choice label="Host" value={on} all={nodes} onChoose={(on) => filter({ on })} />
        <Choice label="Kind" value={kind} all={kinds} onChoose={(kind) => filter({ kind })} />
        <Choice
          label="Status"
          value={status}
          all={OPERATION_STATUSES}
          onChoose={(status) => filter({ status })}
        />
        <NumberField
          label="Takes at least, µs"
          value={usOf(minPs)}
          onChange={(us) => filter({ minPs: psOf(us) })}
        />
        <NumberField
          label="Takes at most, µs"
          value={usOf(maxPs)}
          onChange={(us) => filter({ maxPs: psOf(us) })}
        />
        <SearchField label="Text" value={text} onChange={(text) => filter({ text })} />
        <Choice
          label="Order"
          value={sort}
          all={["duration"]}
          words={SORTS}
          none={SORTS.begin}
          onChoose={(sort) => filter({ sort })}
        />
        <button
          type="button"
          title="The operations that are listed; times in ns"
          onClick={() => saveAs("operations.csv", csv(csvRows(known)))}
        >
          Save as CSV
        </button>
      </div>
      <p class="quiet" role="status">
        {total === all
          ? plural(total, "operation")
          : `${count(total)} of ${plural(all, "operation")} fit`}
        {operations.length < total && operations.length > 0 &&
          `; shown: ${count(first + 1)} to ${count(first + operations.length)}`}{" "}
        <button
          type="button"
          disabled={first === 0}
          onClick={() => filter({ skip: String(Math.max(0, first - LISTED)) })}
        >
          ‹ before
        </button>{" "}
        <button
          type="button"
          disabled={more === 0}
          onClick={() => filter({ skip: String(first + LISTED) })}
        >
          next ›
        </button>
      </p>
      <div class="scroll" tabIndex={0} role="region" aria-label="List of operations">
        <table class="wide list">
          <thead>
            <tr>
              <th class="num">operation</th>
              <th>host</th>
              <th>kind</th>
              <th>status</th>
              <th class="num">begins at</th>
              <th class="num">takes</th>
              <th>its program's last step</th>
            </tr>
          </thead>
          <tbody>
            {operations.map(({ index, node, kind, status, startPs, endPs, step, text }) => (
              <tr key={index}>
                <td class="num">
                  <a href={hrefOf({ more: { number: String(index) } })}>{count(index)}</a>
                </td>
                <td>{node}</td>
                <td>{kind}</td>
                <td class={status === "failed" ? "is-lost" : ""}>{status}</td>
                <td class="num">{time(startPs)}</td>
                <td class="num">{status === "open" ? "–" : roughTime(endPs - startPs)}</td>
                <td title={text}>{step}: {text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}

function usOf(ps: string | undefined): string | undefined {
  return ps === undefined ? undefined : String(Number(ps) / PS_PER_US);
}

function psOf(us: string): string | undefined {
  return us === "" ? undefined : String(Math.round(Math.max(0, Number(us)) * PS_PER_US));
}

function csvRows({ operations }: Operations): (string | number)[][] {
  const head = ["operation", "host", "connection", "number", "kind", "status"];
  return [
    [...head, "begin ns", "duration ns", "step", "text"],
    ...operations.map((row) => {
      const { index, node, connection, number, kind, status, startPs, endPs, step, text } = row;
      const times = [startPs / 1_000, (endPs - startPs) / 1_000];
      return [index, node, connection, number, kind, status, ...times, step, text];
    }),
  ];
}
