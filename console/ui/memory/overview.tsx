import { useRef } from "preact/hooks";
import type { MemoryMap, MemoryPart } from "../../api/replay.ts";
import { bytes, plural } from "../figures.ts";
import { go } from "../state.ts";
import { LOOKS, stateOfPart } from "./memory_map.ts";

export const PARTS = 64;

/** [from, to) of SCM. */
export interface Range {
  readonly from: number;
  readonly to: number;
}

/** @param shown the part in the picture below. */
export function Overview({ map, shown }: { readonly map: MemoryMap; readonly shown: Range }) {
  const strip = useRef<HTMLDivElement>(null);
  const known = new Map(map.parts.map((part) => [part.from, part]));
  const starts = Array.from(
    { length: Math.ceil((map.to - map.from) / map.partBytes) },
    (_, i) => map.from + i * map.partBytes,
  );
  const isShown = (from: number) => from < shown.to && from + map.partBytes > shown.from;
  const first = Math.max(0, starts.findIndex(isShown));
  const move = (event: KeyboardEvent) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    const buttons = [...strip.current?.querySelectorAll("button") ?? []];
    const now = buttons.findIndex((each) => each === document.activeElement);
    buttons[Math.max(0, Math.min(buttons.length - 1, now + by))]?.focus();
  };
  return (
    <div
      ref={strip}
      class="overview"
      role="group"
      aria-label={`0x${map.from.toString(16)} to 0x${
        map.to.toString(16)
      } in parts: arrows move between them`}
      onKeyDown={move}
    >
      {starts.map((from, i) => {
        const to = Math.min(from + map.partBytes, map.to), part = known.get(from);
        const { tone, letter } = LOOKS[stateOfPart(part)];
        const text = `0x${from.toString(16)}, ${bytes(to - from)}: ${textOf(part)}`;
        return (
          <button
            key={from}
            type="button"
            class={`of-${tone} ${letter === "" ? "is-quiet" : ""}`}
            tabIndex={i === first ? 0 : -1}
            title={text}
            aria-label={text}
            aria-pressed={isShown(from)}
            onClick={() => go({ more: { host: map.host, from: String(from), to: String(to) } })}
          >
            {letter}
          </button>
        );
      })}
    </div>
  );
}

function textOf(part: MemoryPart | undefined): string {
  if (part === undefined) return LOOKS["never written"].words;
  const gone = part.gone > 0 ? `, of ${part.gone} a power cut has taken something` : "";
  return `${plural(part.lines, "line")}${gone}, of ${part.lost} a power cut now would; the worst ${
    LOOKS[stateOfPart(part)].words
  }`;
}
