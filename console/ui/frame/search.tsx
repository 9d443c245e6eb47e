import { useComputed, useSignal } from "@preact/signals";
import { useLayoutEffect, useRef } from "preact/hooks";
import { runs, topology } from "../data/rack.ts";
import { cut } from "../figures.ts";
import { type Change, go } from "../state.ts";
import { VIEWS } from "../views.ts";
import { commandIn, completions, runCommand } from "./commands.ts";
import { close, dialog, open } from "./dialogs.tsx";

interface Hit {
  readonly name: string;
  readonly what: string;
  readonly to: Change;
}

function everything(): Hit[] {
  const { nodes = [], cables = [] } = topology.value ?? {};
  return [
    ...VIEWS.map(({ name, title }) => ({ name: title, what: "view", to: { view: name } })),
    ...nodes.map(({ name, kind }) => ({
      name,
      what: kind === "rnic" ? "RNIC" : kind,
      to: { view: "rack" as const, select: { kind: "device" as const, name } },
    })),
    ...cables.filter(({ kind }) => kind === "network").map(({ name }) => ({
      name,
      what: "cable",
      to: { view: "rack" as const, select: { kind: "cable" as const, name } },
    })),
    ...(runs.value?.runs ?? []).map(({ id, scenario, seed, state }) => ({
      name: id,
      what: `run of ${scenario ?? "an unknown scenario"}, seed ${seed ?? "unknown"}, ${state}`,
      to: { view: "runs" as const, more: { show: id } },
    })),
  ];
}

const HITS_MAX = 12;

function find(text: string): Hit[] {
  const wanted = text.toLowerCase();
  const all = everything().filter(({ name }) => name.toLowerCase().includes(wanted));
  const begins = ({ name }: Hit) => name.toLowerCase().startsWith(wanted) ? 0 : 1;
  return all.sort((x, y) => begins(x) - begins(y)).slice(0, HITS_MAX);
}

function Search({ begin }: { readonly begin: string }) {
  const text = useSignal(begin), chosen = useSignal(0), wrong = useSignal("");
  const input = useRef<HTMLInputElement>(null);
  useLayoutEffect(() => input.current?.setSelectionRange(begin.length, begin.length), []);
  const isCommand = useComputed(() => text.value.startsWith(":"));
  const hits = useComputed(() => isCommand.value ? [] : find(text.value));
  const words = useComputed(() => isCommand.value ? completions(text.value.slice(1)) : []);
  const typed = useComputed(() => isCommand.value ? commandIn(text.value.slice(1)) : undefined);
  const most = isCommand.value ? words.value.length : hits.value.length;

  function take(index: number): void {
    if (isCommand.value) {
      const word = words.value[index];
      if (word !== undefined) text.value = `${text.value.replace(/[^\s:]*$/, "")}${word} `;
      return;
    }
    const hit = hits.value[index];
    if (hit === undefined) return;
    close();
    go(hit.to);
  }

  function submit(event: Event): void {
    event.preventDefault();
    if (!isCommand.value) return take(chosen.value);
    try {
      const own = dialog.peek();
      runCommand(text.value.slice(1));
      // A command may ask before it acts.
      if (dialog.peek() === own) close();
    } catch (error) {
      wrong.value = (error as Error).message;
    }
  }

  function onKeyDown(event: KeyboardEvent): void {
    const by = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
    if (by !== 0) chosen.value = Math.max(0, Math.min(most - 1, chosen.value + by));
    else if (event.key === "Tab" && isCommand.value && words.value.length > 0) take(chosen.value);
    else return;
    event.preventDefault();
  }

  return (
    <form onSubmit={submit}>
      <h2 id="dialog-title">{isCommand.value ? "Command" : "Search"}</h2>
      <input
        autofocus
        autocomplete="off"
        spellcheck={false}
        class="num"
        aria-label={isCommand.value ? "Command" : "Search"}
        placeholder="a device, a cable, a run, a view; or : and a command"
        role="combobox"
        aria-expanded={most > 0}
        aria-controls="hits"
        aria-activedescendant={most > 0 ? `hit-${chosen.value}` : undefined}
        value={text.value}
        onInput={({ currentTarget }) => {
          text.value = currentTarget.value;
          chosen.value = 0;
          wrong.value = "";
        }}
        onKeyDown={onKeyDown}
        ref={input}
      />
      {typed.value !== undefined && (
        <p class="quiet">
          <code>{typed.value.usage}</code> – {typed.value.what}
        </p>
      )}
      {wrong.value !== "" && <p class="note refused" role="alert">{wrong.value}</p>}
      <ul id="hits" role="listbox" class="hits" aria-label="Found">
        {(isCommand.value
          ? words.value.map((name) => ({ name, what: commandIn(name)?.what ?? "" }))
          : hits.value).map((
            hit,
            i,
          ) => (
            <li
              id={`hit-${i}`}
              key={`${hit.what} ${hit.name}`}
              role="option"
              aria-selected={i === chosen.value}
              onClick={() => take(i)}
            >
              <span class="num">{cut(hit.name, 44)}</span>
              <span class="quiet">{hit.what}</span>
            </li>
          ))}
      </ul>
      {!isCommand.value && most === 0 && <p class="quiet">Nothing here has that in its name.</p>}
    </form>
  );
}

export function openSearch(begin: "" | ":"): void {
  open(() => <Search begin={begin} />);
}
