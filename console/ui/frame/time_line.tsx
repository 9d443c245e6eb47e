/**
 * The time line: the whole run from its begin to now. Power of devices, promises, faults; its one yellow line is the
 * instant that every view shows. Drag to any instant, wheel to zoom, click a mark to go there.
 */
import { computed, useComputed, useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Time } from "../../../fabric/base/time.ts";
import { isKept, topology } from "../data/rack.ts";
import { shownAt } from "../data/shown.ts";
import {
  endPs,
  marks,
  past,
  powerSpans,
  readTimeline,
  timeline,
  timelineTrouble,
} from "../data/timeline.ts";
import { cut, roughTime, time } from "../figures.ts";
import { instant, lookAt, run, selection } from "../state.ts";

interface Span {
  readonly from: Time;
  readonly to: Time;
}

const LEFT = 96, RIGHT = 20, TOP = 6, ROW = 17, AXIS = 16;
const DEVICE_ROWS = 4;
/** Marks as close as this, in px, share a label. */
const NEAR = 6;

/** Of what the page does not know of the past: it stands where the last row would. */
const note = computed(() => {
  if (timelineTrouble.value !== undefined) {
    return `The time line shows only what the page has seen: ${timelineTrouble.value}`;
  }
  if (isKept.value && timeline.value === undefined && topology.value !== undefined) {
    return "The run is being replayed …";
  }
  if (past.value === "being read") return "What was before this page came is being replayed …";
  return past.value === "unread"
    ? "Shown from when this page came. The replay of what was before takes a core of this machine:"
    : undefined;
});

/** The devices that have a row: what is selected, then hosts whose power has failed, then the first ones. */
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
  const hosts = rack.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  const hit = hosts.filter((name) =>
    powerSpans(name).length !== 1 || powerSpans(name)[0]!.to !== Infinity
  );
  const room = note.value === undefined ? DEVICE_ROWS : DEVICE_ROWS - 1;
  const most = hosts.length > room ? room - 1 : room;
  const known = new Set(rack.nodes.map(({ name }) => name));
  const rows = [...new Set([...first, ...hit, ...hosts])].filter((name) => known.has(name)).slice(
    0,
    most,
  );
  // In the order of the rack, so that a selection moves no row without need.
  return rows.sort((x, y) => hosts.indexOf(x) - hosts.indexOf(y));
}

/** One vertical stroke for each pixel in which something happened. */
function strokes(times: readonly Time[], x: (at: Time) => number, y: number, h: number): string {
  const pixels = new Set(times.map((at) => Math.round(x(at))));
  return [...pixels].map((pixel) => `M${pixel} ${y}v${h}`).join("");
}

function niceStep(span: Time, most: number): Time {
  const raw = span / most, power = 10 ** Math.floor(Math.log10(raw));
  return power * ([1, 2, 5, 10].find((each) => each * power >= raw) ?? 10);
}

function Axis(
  { shown, x, y }: { readonly shown: Span; readonly x: (at: Time) => number; readonly y: number },
) {
  // A label at the end stands left of its line: there is no room right of it.
  const right = x(shown.to);
  const step = niceStep(shown.to - shown.from, 8), ticks: Time[] = [];
  for (let at = Math.ceil(shown.from / step) * step; at <= shown.to; at += step) ticks.push(at);
  return (
    <>
      {ticks.map((at) => (
        <g key={at}>
          <line class="grid" x1={x(at)} y1={TOP} x2={x(at)} y2={y - 4} />
          <text
            class="quiet num"
            x={x(at)}
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

/** How much happens, of all devices: for racks with more hosts than rows. */
function Density({ x, y }: { readonly x: (at: Time) => number; readonly y: number }) {
  const density = timeline.value?.density;
  if (density === undefined || density.counts.length === 0) return null;
  const { from, to, counts } = density,
    most = Math.max(1, ...counts),
    width = (to - from) / counts.length;
  const d = counts.map((count, i) => `L${x(from + i * width)} ${y - 12 * Math.sqrt(count / most)}`)
    .join("");
  return <path class="density" d={`M${x(from)} ${y}${d}L${x(to)} ${y}z`} />;
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
  const rows = rowsOf(), span = shown.value, w = Math.max(1, width.value - LEFT - RIGHT);
  const x = (at: Time) =>
    LEFT + Math.max(-1, Math.min(2, (at - span.from) / (span.to - span.from))) * w;
  const timeAt = (clientX: number) => {
    const { left } = svg.current!.getBoundingClientRect();
    const share = Math.max(0, Math.min(1, (clientX - left - LEFT) / w));
    return Math.round(span.from + share * (span.to - span.from));
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
    const at = timeAt(event.clientX), by = 1.25 ** (event.deltaY / 100);
    const next = { from: at - (at - span.from) * by, to: at + (span.to - at) * by };
    const isWhole = next.from <= 0 && next.to >= endPs.value;
    const from = Math.max(0, Math.round(next.from));
    zoomed.value = isWhole || next.to - next.from < 1_000
      ? isWhole ? undefined : zoomed.value
      : { from, to: Math.max(from + 1_000, Math.min(endPs.value, Math.round(next.to))) };
  }

  function onKeyDown(event: KeyboardEvent): void {
    const by = event.key === "ArrowLeft" ? -1 : event.key === "ArrowRight" ? 1 : 0;
    if (by === 0) return;
    event.preventDefault();
    const step = (span.to - span.from) / w * (event.shiftKey ? 50 : 1);
    lookAt(Math.round(Math.max(0, Math.min(endPs.value, shownAt.value + by * step))));
  }

  // Of a kept run that is being replayed, not even the end.
  const isKnown = endPs.value > 1;
  const hasMore =
    (topology.value?.nodes.filter(({ kind }) => kind === "host").length ?? 0) > rows.length;
  const rowY = (row: number) => TOP + row * ROW;
  const promisedY = rowY(rows.length + (hasMore ? 1 : 0)), faultsY = promisedY + ROW;
  const promises =
    timeline.value?.promises.filter(({ promised }) => promised).map(({ at }) => at) ?? [];
  return (
    <footer class="line" aria-label="Time line">
      <svg
        ref={svg}
        role="slider"
        tabindex={0}
        aria-label="Instant"
        aria-valuemin={0}
        aria-valuemax={endPs.value}
        aria-valuenow={shownAt.value}
        aria-valuetext={instant.value === undefined ? "now" : time(instant.value)}
        onPointerDown={onPointerDown}
        onWheel={onWheel}
        onKeyDown={onKeyDown}
      >
        <defs>
          <clipPath id="line-clip">
            <rect x={LEFT - 8} y="0" width={w + 16} height="132" />
          </clipPath>
        </defs>
        {topology.value !== undefined && isKnown && (
          <>
            {rows.map((name, row) => (
              <text key={name} class="quiet" x="16" y={rowY(row) + 12}>{cut(name, 12)}</text>
            ))}
            {hasMore && <text class="quiet" x="16" y={rowY(rows.length) + 12}>all events</text>}
            <text class="quiet" x="16" y={promisedY + 12}>promised</text>
            <text class="quiet" x="16" y={faultsY + 12}>faults</text>
            <Axis shown={span} x={x} y={132 - AXIS} />
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
                  {powerSpans(name).map(({ from, to }) => {
                    const left = x(from), right = x(Math.min(to, endPs.value));
                    return (
                      <rect
                        key={from}
                        class="on"
                        x={left}
                        y={rowY(row) + 4}
                        width={Math.max(1, right - left)}
                        height="8"
                        rx="1"
                      >
                        <title>{name} has power from {time(from)}</title>
                      </rect>
                    );
                  })}
                </g>
              ))}
              {hasMore && <Density x={x} y={rowY(rows.length) + 14} />}
              <path class="promises" d={strokes(promises, x, promisedY + 3, 11)} />
              {marks.value.map(({ at, to, text }, i, all) => {
                const next = all[i + 1];
                const room = (next === undefined ? LEFT + w : x(next.at)) - x(at) - 8;
                const first = all.findIndex((each) => x(at) - x(each.at) < NEAR);
                const label = all.slice(first, i + 1).map((each) => each.text).join(", ");
                // At the end of the line a label has its room on the left.
                const left = x(at) - (first === 0 ? LEFT : x(all[first - 1]!.at)) - 8;
                const isLeft = room <= 40 && next === undefined && left > 160;
                return (
                  <g
                    key={`${at} ${text}`}
                    class="mark"
                    onPointerDown={(event) => {
                      event.stopPropagation();
                      lookAt(at);
                    }}
                  >
                    <title>{text} at {time(at)}</title>
                    {to !== undefined && (
                      <rect
                        class="span"
                        x={x(at)}
                        y={faultsY + 4}
                        width={Math.max(1, x(to) - x(at))}
                        height="8"
                      />
                    )}
                    <rect x={x(at) - 1} y={faultsY + 1} width="3" height="14" />
                    {(room > 40 || isLeft) && (
                      <text
                        x={isLeft ? x(all[first]!.at) - 6 : x(at) + 6}
                        y={faultsY + 12}
                        text-anchor={isLeft ? "end" : "start"}
                      >
                        {cut(label, Math.floor((isLeft ? left : room) / 6.5))}
                      </text>
                    )}
                  </g>
                );
              })}
              <g class="playhead">
                <line x1={x(shownAt.value)} x2={x(shownAt.value)} y1="0" y2={132 - AXIS - 2} />
                <path d={`M${x(shownAt.value) - 5} 0h10l-5 7z`} />
              </g>
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
