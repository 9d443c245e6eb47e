/** One device like a shell: asked by words or by buttons, it answers in tables that can be searched. */
import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import type { Topology, Why } from "../../api/rack.ts";
import { api } from "../data/api.ts";
import { clock, isUp, topology } from "../data/rack.ts";
import {
  queuesOf,
  replayedAt,
  shownAt,
  shownCounters,
  shownInspection,
  shownPower,
} from "../data/shown.ts";
import { SearchField } from "../frame/filters.tsx";
import { Empty, Loading } from "../frame/empty.tsx";
import { runCommand } from "../frame/commands.ts";
import { refuse } from "../frame/notice.tsx";
import { csv, saveAs } from "../frame/save.ts";
import { count, time } from "../figures.ts";
import { hostsByAddress } from "../rack/activity.ts";
import { kindText } from "../rack/device_text.ts";
import { byNumber } from "../rack/layout.ts";
import { changeMore, hrefOf, isPast, place, run, select, selection } from "../state.ts";
import type { View } from "../view.ts";
import {
  fitting,
  type Inspected,
  type Table,
  TABLE_NAMES,
  type TableName,
  tableOf,
  tablesOf,
} from "./tables.ts";

/** What the device says of itself, of a rack that is up at the present. */
const live = signal<{ readonly of: string; readonly found: Inspected } | undefined>(undefined);
const why = signal<Why | undefined>(undefined);
const trouble = signal("");

const LIVE_MS = 1_000;

function useLive(name: string | undefined): void {
  useEffect(() => {
    const id = run.value;
    if (id === undefined || name === undefined) return;
    let isOver = false, timer: ReturnType<typeof setTimeout>, events = -1;
    const ask = async () => {
      const now = clock.peek();
      // A rack that stands says the same again.
      if (isUp.peek() && !isPast.peek() && now !== null && now.events !== events) {
        try {
          const isOn = shownPower.peek().get(name) !== false;
          const [device, reasons] = await Promise.all([
            isOn ? api.device(id, name) : undefined,
            api.why(id),
          ]);
          if (isOver) return;
          why.value = reasons;
          if (device !== undefined) {
            const { reachedPs, ...rest } = device;
            live.value = {
              of: `${id} ${name}`,
              found: { ...rest, at: reachedPs ?? now.virtualPs },
            };
          }
          trouble.value = "";
          events = now.events;
        } catch (error) {
          if (!isOver) trouble.value = (error as Error).message;
        }
      }
      if (!isOver) timer = setTimeout(ask, LIVE_MS);
    };
    void ask();
    return () => {
      isOver = true;
      clearTimeout(timer);
    };
  }, [name, run.value]);
}

/** Of the instant that every view shows. */
function inspected(name: string): Inspected | undefined {
  const hasPower = shownPower.value.get(name) !== false;
  const told = live.value?.of === `${run.value} ${name}` ? live.value.found : undefined;
  if (replayedAt.value === undefined && hasPower && told !== undefined) {
    return { ...told, queues: queuesOf(name), hasBegun: clock.value?.events !== 0 };
  }
  const known = shownInspection(name);
  return {
    ...{ at: shownAt.value, hasPower, counters: shownCounters.value.get(name) ?? {} },
    ...known,
  };
}

function deviceNow(rack: Topology): string | undefined {
  const what = selection.value;
  const named = what?.kind === "device"
    ? what.name
    : what?.kind === "queue pair"
    ? what.device
    : what?.kind === "line"
    ? what.host
    : undefined;
  const isThere = rack.nodes.some(({ name }) => name === named);
  return isThere
    ? named
    : rack.nodes.find(({ kind }) => kind === "rnic")?.name ?? rack.nodes[0]?.name;
}

function Page() {
  const rack = topology.value;
  const name = rack === undefined ? undefined : deviceNow(rack);
  useLive(name);
  if (run.value === undefined) {
    return (
      <Empty
        title="No run is chosen"
        act={<a class="button" href={hrefOf({ view: "runs" })}>Choose a run</a>}
      >
        This view asks one device: its queue pairs, regions, ports and counters, and what time waits
        for.
      </Empty>
    );
  }
  if (rack === undefined || name === undefined) return <Loading what="the rack" />;
  return <Shell key={name} rack={rack} name={name} />;
}

function Shell({ rack, name }: { readonly rack: Topology; readonly name: string }) {
  const node = rack.nodes.find((each) => each.name === name)!, all = tablesOf(node);
  const { find = "", show } = place.value.more;
  const asked = all.filter((each) => each === show);
  const found = inspected(name), hosts = hostsByAddress(rack);
  return (
    <>
      <div class="row apart end">
        <h1>
          {name}
          <small>
            {kindText(node.kind)}
            {shownPower.value.get(name) === false && " · without power"} · at{" "}
            <span class="num">{time(shownAt.value)}</span>
          </small>
        </h1>
        <div class="row end">
          <label>
            Device
            <select
              value={name}
              onChange={({ currentTarget }) => choose(currentTarget.value)}
            >
              {rack.nodes.toSorted((x, y) => byNumber(x.name, y.name)).map((each) => (
                <option key={each.name}>{each.name}</option>
              ))}
            </select>
          </label>
          <SearchField
            label="Search in tables"
            value={find}
            onChange={(find) => changeMore({ find })}
          />
        </div>
      </div>
      <Prompt rack={rack} name={name} tables={all} />
      <div class="row" role="group" aria-label="Tables">
        <button
          type="button"
          aria-pressed={asked.length === 0}
          onClick={() => changeMore({ show: "" })}
        >
          all
        </button>
        {all.map((each) => (
          <button
            key={each}
            type="button"
            aria-pressed={each === show}
            onClick={() => changeMore({ show: each })}
          >
            {each}
          </button>
        ))}
      </div>
      {trouble.value !== "" && isUp.value && <p class="note refused" role="alert">{trouble}</p>}
      <div class="scroll page" tabIndex={0} role="region" aria-label={`What ${name} says`}>
        {found === undefined
          ? <Loading what={name} />
          : (asked.length > 0 ? asked : all).map((each) => (
            <OneTable
              key={each}
              device={name}
              table={tableOf(each, {
                ...{ found, hosts },
                why: isUp.value && !isPast.value ? why.value : undefined,
              })}
              find={find}
            />
          ))}
      </div>
    </>
  );
}

function choose(name: string): void {
  select({ kind: "device", name });
}

/** What was typed, the latest last. */
const typed: string[] = [];

function Prompt({ rack, name, tables }: {
  readonly rack: Topology;
  readonly name: string;
  readonly tables: readonly TableName[];
}) {
  const back = useSignal(0), text = useSignal("");

  function enter(): void {
    const line = text.value.trim(),
      [word = "", ...rest] = line.replace(/^rack\s+/, "").split(/\s+/);
    if (line === "") return;
    typed.push(line);
    back.value = 0;
    text.value = "";
    if (word === "all") return changeMore({ show: "", find: rest.join(" ") });
    const table = TABLE_NAMES.find((each) => each === word);
    if (table !== undefined && !tables.includes(table)) {
      const { kind } = rack.nodes.find((each) => each.name === name)!;
      return refuse(`${name} has no ${word}: a ${kindText(kind)} has ${tables.join(", ")}`);
    }
    if (table !== undefined) return changeMore({ show: table, find: rest.join(" ") });
    if (rest.length === 0 && rack.nodes.some((each) => each.name === word)) return choose(word);
    try {
      runCommand(line);
    } catch (error) {
      const { message } = error as Error;
      refuse(`${message}; or ${tables.join(", ")}, or a device's name`);
    }
  }

  return (
    <form
      class="prompt"
      onSubmit={(event) => {
        event.preventDefault();
        enter();
      }}
    >
      <label for="prompt-line">{name}&gt;</label>
      <input
        id="prompt-line"
        autocomplete="off"
        spellcheck={false}
        list="prompt-words"
        placeholder={`${
          tables.slice(0, 3).join(", ")
        }, why, a device's name, or a command as step 10us`}
        value={text.value}
        onInput={({ currentTarget }) => text.value = currentTarget.value}
        onKeyDown={(event) => {
          const by = event.key === "ArrowUp" ? 1 : event.key === "ArrowDown" ? -1 : 0;
          const at = Math.max(0, Math.min(typed.length, back.value + by));
          if (by === 0 || typed.length === 0) return;
          event.preventDefault();
          back.value = at;
          text.value = at === 0 ? "" : typed[typed.length - at]!;
        }}
      />
      <datalist id="prompt-words">
        {[...tables, ...rack.nodes.map((each) => each.name)].map((each) => (
          <option key={each} value={each} />
        ))}
      </datalist>
    </form>
  );
}

function OneTable({ device, table, find }: {
  readonly device: string;
  readonly table: Table;
  readonly find: string;
}) {
  const { name, title, columns, figures, rows, none } = table;
  const shown = fitting(table, find);
  const classOf = (column: string) => figures.includes(column) ? "num" : "";
  return (
    <section data-table={name}>
      <div class="row apart">
        <h2>
          {title}
          <small>
            {rows.length > 0 &&
              (shown.length === rows.length
                ? count(rows.length)
                : `${count(shown.length)} of ${count(rows.length)}`)}
          </small>
        </h2>
        {rows.length > 0 && (
          <button
            type="button"
            class="plain"
            aria-label={`Save as CSV: ${title}`}
            onClick={() => saveAs(`${device}-${name}.csv`, csv([columns, ...shown]))}
          >
            CSV
          </button>
        )}
      </div>
      {rows.length === 0
        ? <p class="quiet">{none}</p>
        : shown.length === 0
        ? <p class="quiet">No row has {find}.</p>
        : (
          <div class="sideways" tabIndex={0} role="region" aria-label={title}>
            <table class="wide list">
              <thead>
                <tr>
                  {columns.map((column) => (
                    <th key={column} class={classOf(column)} scope="col">{column}</th>
                  ))}
                </tr>
              </thead>
              <tbody>
                {shown.map((row, i) => (
                  <tr key={i}>
                    {row.map((cell, at) => (
                      <td key={columns[at]} class={classOf(columns[at]!)}>{cell}</td>
                    ))}
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        )}
    </section>
  );
}

export const INSPECT: View = {
  title: "Inspect",
  icon: "M3 4h14v12H3zM6 8l3 2-3 2M10 13h4",
  Page,
  isApart: true,
  keys: [{
    key: "c",
    what: "the device's prompt",
    act: () => document.querySelector<HTMLInputElement>("#prompt-line")?.focus(),
  }],
};
