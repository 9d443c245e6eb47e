import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { api } from "../data/api.ts";
import { useFetched } from "../frame/fetched.ts";
import { type Completions, completionsAt } from "./completion.ts";

export const LINE_PX = 18;
const PADDING_PX = 8;

interface Open extends Completions {
  readonly chosen: number;
  readonly at: number;
  readonly line: number;
  readonly column: number;
}

/** Marks lines that are wrong or changed. */
export function Text(
  { text, changes, wrong, onChange }: {
    readonly text: string;
    readonly changes: ReadonlySet<number>;
    readonly wrong: ReadonlySet<number>;
    readonly onChange: (text: string) => void;
  },
) {
  const top = useSignal(0), left = useSignal(0), open = useSignal<Open | undefined>(undefined);
  const area = useRef<HTMLTextAreaElement>(null), cursor = useRef<number | undefined>(undefined);
  const schema = useFetched("schema", api.scenarioSchema).value.value;

  // The text comes back changed: its cursor would stand at its end.
  useEffect(() => {
    if (cursor.current === undefined) return;
    area.current!.setSelectionRange(cursor.current, cursor.current);
    cursor.current = undefined;
  }, [text]);

  /** @param least letters that must be typed before words are offered. */
  function offer({ value, selectionStart: at }: HTMLTextAreaElement, least: number): void {
    open.value = undefined;
    if (schema === undefined || /\S/.test(value[at] ?? "")) return;
    const found = completionsAt(schema, value, at);
    if (found.typed.length < least || found.words.length === 0) return;
    const before = value.slice(0, at).split("\n");
    const column = before.at(-1)!.length - found.typed.length;
    open.value = { ...found, chosen: 0, at, line: before.length - 1, column };
  }

  function take(word: number): void {
    const { at, typed, words } = open.value!;
    const { insert } = words[word]!;
    cursor.current = at - typed.length + insert.length;
    open.value = undefined;
    onChange(`${text.slice(0, at - typed.length)}${insert}${text.slice(at)}`);
    area.current!.focus();
  }

  function onKeyDown(event: KeyboardEvent): void {
    const now = open.value, { key, ctrlKey } = event;
    if (key === " " && ctrlKey) offer(area.current!, 0);
    else if (key === "Escape" && now === undefined) return area.current!.blur();
    else if (now === undefined) return;
    else if (key === "Escape") open.value = undefined;
    else if (key === "Enter" || key === "Tab") take(now.chosen);
    else if (key === "ArrowDown" || key === "ArrowUp") {
      const by = key === "ArrowDown" ? 1 : -1, { length } = now.words;
      open.value = { ...now, chosen: (now.chosen + by + length) % length };
    } else return;
    event.preventDefault();
    event.stopPropagation();
  }

  const now = open.value;
  return (
    <div class="source">
      <div class="numbers" aria-hidden="true">
        <div style={{ marginTop: `${-top.value}px` }}>
          {text.split("\n").map((_, i) => (
            <div
              key={i}
              class={wrong.has(i + 1) ? "is-lost" : changes.has(i + 1) ? "is-changed" : ""}
            >
              {wrong.has(i + 1) ? "✗ " : changes.has(i + 1) ? "~ " : ""}
              {i + 1}
            </div>
          ))}
        </div>
      </div>
      <div class="typing">
        <textarea
          ref={area}
          id="scenario-text"
          class="num"
          aria-label="The scenario as YAML"
          aria-autocomplete="list"
          aria-controls={now === undefined ? undefined : "scenario-words"}
          aria-activedescendant={now === undefined ? undefined : `scenario-word-${now.chosen}`}
          spellcheck={false}
          wrap="off"
          value={text}
          onInput={({ currentTarget }) => {
            onChange(currentTarget.value);
            offer(currentTarget, 1);
          }}
          onScroll={({ currentTarget }) => {
            top.value = currentTarget.scrollTop;
            left.value = currentTarget.scrollLeft;
          }}
          onClick={() => open.value = undefined}
          onBlur={() => open.value = undefined}
          onKeyDown={onKeyDown}
        />
        {now !== undefined && (
          <ul
            id="scenario-words"
            class="completions"
            role="listbox"
            aria-label="What may stand here"
            style={{
              top: `${PADDING_PX + (now.line + 1) * LINE_PX - top.value}px`,
              left: `calc(${PADDING_PX - left.value}px + ${now.column}ch)`,
            }}
          >
            {now.words.map(({ text, about }, i) => (
              <li
                key={text}
                id={`scenario-word-${i}`}
                role="option"
                aria-selected={i === now.chosen}
                onPointerDown={(event) => {
                  event.preventDefault();
                  take(i);
                }}
              >
                <b>{text}</b> <span class="quiet">{about}</span>
              </li>
            ))}
          </ul>
        )}
      </div>
    </div>
  );
}
