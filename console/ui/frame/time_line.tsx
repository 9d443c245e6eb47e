/** The time line. Drag to any instant, wheel to zoom, click a mark to go there. */
import { computed, type ReadonlySignal, useComputed, useSignal } from "@preact/signals";
import { useCallback, useEffect, useRef } from "preact/hooks";
import type { Time } from "../../../fabric/base/time.ts";
import { isKept, isUp, topology } from "../data/rack.ts";
import { shownAt } from "../data/shown.ts";
import {
  beyondText,
  endPs,
  marks,
  past,
  powerSpans,
  readTimeline,
  replayText,
  timeline,
  timelineTrouble,
} from "../data/timeline.ts";
import { count, cut, roughTime, ticks, time } from "../figures.ts";
import { instant, lookAt, run, selection } from "../state.ts";
import { byNumber } from "../rack/layout.ts";
import { drawnMarks, STROKE } from "./marks.ts";

interface Span {
  readonly from: Time;
  readonly to: Time;
}

const LEFT = 96, RIGHT = 20, TOP = 6, ROW = 17, AXIS = 16;
const DEVICE_ROWS = 4;

/** The end of a kept run is unknown until it has been replayed. */
const isKnown = computed(() => endPs.value > 1);

const note = computed(() => {
  const beyond = beyondText.value;
  if (beyond !== undefined) return beyond;
  if (timelineTrouble.value !== undefined) {
    return `The time line shows only what the page has seen: ${timelineTrouble.value}`;
  }
  if (isKept.value && timeline.value === undefined && topology.value !== undefined) {
    return replayText.value;
  }
  if (isUp.value && !isKnown.value) {
    return "Nothing has happened yet. Space lets time go, and . lets the next event happen.";
  }
  if (past.value === "being read") return `What was before this page came: ${replayText.value}`;
  return past.value === "unread"
    ? "Shown from when this page came. The replay of what was before takes a core of this machine:"
    : undefined;
});

/** The selected device, then hosts whose power has failed, then the first ones. */
function rowsOf(): string[] {
  const rack = topology.value;
  if (rack === undefined) return [];
  const chosen = selection.value;
  const first = chosen?.kind === "device"
    ? [chosen.name]
    : chosen?.kind === "line"
    ? [chosen.host]
    : chosen?.kind === "queue pair"
    ? [chosen.device]
    : [];
  const hosts = rack.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name)
    .sort(byNumber);
  const hit = hosts.filter((name) => {
    const spans = powerSpans(name);
    return spans.length !== 1 || spans[0]!.to !== Infinity;
  });
  const room = note.value === undefined ? DEVICE_ROWS : DEVICE_ROWS - 1;
  const most = hosts.length > room ? room - 1 : room;
  const known = new Set(rack.nodes.map(({ name }) => name));
  const rows = [...new Set([...first, ...hit, ...hosts])].filter((name) => known.has(name)).slice(
    0,
    most,
  );
  return rows.sort((x, y) => hosts.indexOf(x) - hosts.indexOf(y));
}

function strokes(times: readonly Time[], x: (at: Time) => number, y: number, h: number): string {
  const pixels = new Set(times.map((at) => Math.round(x(at))));
  return [...pixels].map((pixel) => `M${pixel} ${y}v${h}`).join("");
}

interface Moving {
  readonly x: (at: Time) => number;
  readonly shown: ReadonlySignal<Span>;
}

function Axis({ shown, x, y }: Moving & { readonly y: number }) {
  const { from, to } = shown.value;
  // At the end there is no room on the right of the line.
  const right = x(to);
  return (
    <>
      {ticks(from, to, 8).map((at) => (
        <g key={at} transform={`translate(${x(at)})`}>
          <line class="grid" y1={TOP} y2={y - 4} />
          <text
            class="quiet num"
            y={y + 8}
            text-anchor={right - x(at) > 12 ? "middle" : "end"}
          >
            {at === 0 ? "0" : roughTime(at)}
          </text>
        </g>
      ))}
    </>
  );
}

function Density({ x, y }: Pick<Moving, "x"> & { readonly y: number }) {
  const density = timeline.value?.density;
  if (density === undefined || density.counts.length === 0) return null;
  const { from, to, counts } = density,
    most = Math.max(1, ...counts),
    width = (to - from) / counts.length;
  const d = counts.map((count, i) => `L${x(from + i * width)} ${y - 12 * Math.sqrt(count / most)}`)
    .join("");
  return <path class="density" d={`M${x(from)} ${y}${d}L${x(to)} ${y}z`} />;
}

function PowerRow(
  { name, x, y }: Pick<Moving, "x"> & { readonly name: string; readonly y: number },
) {
  const spans = powerSpans(name), failures = spans.filter(({ to }) => to !== Infinity).length;
  const d = spans.map(({ from, to }) => {
    const left = x(from), right = Math.max(left + 1, x(Math.min(to, endPs.value)));
    return `M${left} ${y + 4}H${right}v8H${left}z`;
  });
  return (
    <path class="on" d={d.join("")}>
      <title>{name} has power; it failed {count(failures)} times</title>
    </path>
  );
}

function Promises({ x, y }: Pick<Moving, "x"> & { readonly y: number }) {
  const d = useComputed(() => {
    const all = timeline.value?.promises.filter(({ promised }) => promised) ?? [];
    return strokes(all.map(({ at }) => at), x, y, 11);
  });
  return <path class="promises" d={d} />;
}

function Marks(
  { x, y, right }: Pick<Moving, "x"> & { readonly y: number; readonly right: number },
) {
  return (
    <>
      {drawnMarks(marks.value, { left: LEFT, right, x }).map((
        { at, x: left, endX, title, label },
      ) => (
        <g
          key={left}
          class="mark"
          onPointerDown={(event) => {
            event.stopPropagation();
            lookAt(at);
          }}
        >
          <title>{title}</title>
          {endX !== undefined && (
            <rect class="span" x={left} y={y + 4} width={Math.max(1, endX - left)} height="8" />
          )}
          <rect x={left - 1} y={y + 1} width={STROKE} height="14" />
          {label !== null && (
            <text x={label.x} y={y + 12} text-anchor={label.isLeft ? "end" : "start"}>
              {label.text}
            </text>
          )}
        </g>
      ))}
    </>
  );
}

function Playhead({ x }: Pick<Moving, "x">) {
  const place = useComputed(() => `translate(${x(shownAt.value)})`);
  return (
    <g class="playhead" transform={place}>
      <line y1="0" y2={132 - AXIS - 2} />
      <path d="M-5 0h10l-5 7z" />
    </g>
  );
}

export function TimeLine() {
  const svg = useRef<SVGSVGElement>(null);
  const width = useSignal(0);
  /** Undefined: the whole run. */
  const zoomed = useSignal<Span | undefined>(undefined);
  const shown = useComputed<Span>(() => zoomed.value ?? { from: 0, to: endPs.value });
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => width.value = entry!.contentRect.width);
    observer.observe(svg.current!);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    zoomed.value = undefined;
  }, [run.value]);
  // In one text: equal while they are the same ones.
  const rowNames = useComputed(() => rowsOf().join(" "));
  const instantText = useComputed(() => instant.value === undefined ? "now" : time(instant.value));
  const w = Math.max(1, width.value - LEFT - RIGHT);
  const x = useCallback((at: Time) => {
    const { from, to } = shown.value;
    const share = Math.max(-1, Math.min(2, (at - from) / (to - from)));
    return Math.round(2 * (LEFT + share * w)) / 2;
  }, [w]);
  const timeAt = (clientX: number) => {
    const { left } = svg.current!.getBoundingClientRect(), { from, to } = shown.peek();
    const share = Math.max(0, Math.min(1, (clientX - left - LEFT) / w));
    return Math.round(from + share * (to - from));
  };

  function onPointerDown(down: PointerEvent): void {
    if (down.button !== 0 || topology.value === undefined) return;
    lookAt(timeAt(down.clientX));
    void readTimeline();
    const end = new AbortController();
    let frame = 0;
    addEventListener("pointermove", (event) => {
      cancelAnimationFrame(frame);
      frame = requestAnimationFrame(() => lookAt(timeAt(event.clientX)));
    }, { signal: end.signal });
    addEventListener("pointerup", () => end.abort(), { signal: end.signal });
    addEventListener("pointercancel", () => end.abort(), { signal: end.signal });
  }

  function onWheel(event: WheelEvent): void {
    event.preventDefault();
    const at = timeAt(event.clientX), by = 1.25 ** (event.deltaY / 100), span = shown.peek();
    const next = { from: at - (at - span.from) * by, to: at + (span.to - at) * by };
    const isWhole = next.from <= 0 && next.to >= endPs.peek();
    const from = Math.max(0, Math.round(next.from));
    zoomed.value = isWhole || next.to - next.from < 1_000
      ? isWhole ? undefined : zoomed.value
      : { from, to: Math.max(from + 1_000, Math.min(endPs.peek(), Math.round(next.to))) };
  }

  function onKeyDown(event: KeyboardEvent): void {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const { from, to } = shown.peek(), step = (to - from) / w * (event.shiftKey ? 50 : 1);
    lookAt(Math.round(Math.max(0, Math.min(endPs.peek(), shownAt.peek() + by * step))));
  }

  const rows = rowNames.value === "" ? [] : rowNames.value.split(" ");
  const hasMore =
    (topology.value?.nodes.filter(({ kind }) => kind === "host").length ?? 0) > rows.length;
  const rowY = (row: number) => TOP + row * ROW;
  const promisedY = rowY(rows.length + (hasMore ? 1 : 0)), faultsY = promisedY + ROW;
  return (
    <footer class="line" aria-label="Time line">
      <svg
        ref={svg}
        role="slider"
        tabindex={0}
        aria-label="Instant"
        aria-valuemin={0}
        aria-valuemax={endPs}
        aria-valuenow={shownAt}
        aria-valuetext={instantText}
        onPointerDown={onPointerDown}
        onWheel={onWheel}
        onKeyDown={onKeyDown}
      >
        <defs>
          <clipPath id="line-clip">
            <rect x={LEFT - 8} y="0" width={w + 16} height="132" />
          </clipPath>
        </defs>
        {topology.value !== undefined && isKnown.value && (
          <>
            {rows.map((name, row) => (
              <text key={name} class="quiet" x="16" y={rowY(row) + 12}>{cut(name, 12)}</text>
            ))}
            {hasMore && <text class="quiet" x="16" y={rowY(rows.length) + 12}>all events</text>}
            <text class="quiet" x="16" y={promisedY + 12}>promised</text>
            <text class="quiet" x="16" y={faultsY + 12}>faults</text>
            <Axis shown={shown} x={x} y={132 - AXIS} />
            <g clip-path="url(#line-clip)">
              {rows.map((name, row) => (
                <g key={name}>
                  <line
                    class="grid"
                    x1={LEFT}
                    x2={LEFT + w}
                    y1={rowY(row) + 8}
                    y2={rowY(row) + 8}
                  />
                  <PowerRow name={name} x={x} y={rowY(row)} />
                </g>
              ))}
              {hasMore && <Density x={x} y={rowY(rows.length) + 14} />}
              <Promises key={`${w} ${promisedY}`} x={x} y={promisedY + 3} />
              <Marks x={x} y={faultsY} right={LEFT + w} />
              <Playhead key={w} x={x} />
            </g>
          </>
        )}
      </svg>
      {note.value !== undefined && (
        <p class="quiet trouble" role="status" title={note.value}>
          {note.value} {past.value === "unread" && (
            <button
              type="button"
              class="link"
              onClick={() => void readTimeline()}
            >
              replay it
            </button>
          )}
        </p>
      )}
    </footer>
  );
}
