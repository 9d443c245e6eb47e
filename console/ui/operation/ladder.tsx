/**
 * Ladders side by side: devices as columns, steps as rows on one axis of time, frames as slanted
 * arrows.
 */
import type { ComponentChildren } from "preact";
import type { LadderDocument, LadderRow } from "../../api/operations.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { cut, roughTime } from "../figures.ts";
import { isSmall } from "../frame/size.ts";
import { type LadderLayout, layoutLadders } from "./ladder_layout.ts";

const ROW_PX = 20, HEAD_PX = 28, TAIL_PX = 12, AXIS_PX = 84;
const LAYOUT = { rowPx: ROW_PX, pxPerUs: 56, pauseMaxPx: 56 };
const COMPARED = { rowPx: ROW_PX, pxPerUs: 36, pauseMaxPx: 44 };

export interface ShownLadder {
  readonly ladder: LadderDocument;
  readonly selected: number | undefined;
  readonly onSelect: (row: number) => void;
}

export function Ladders(
  { shown, instant, title }: {
    readonly shown: readonly ShownLadder[];
    /** Shown by all views; undefined: none, or another run's. */
    readonly instant: Time | undefined;
    readonly title?: (ladder: LadderDocument) => ComponentChildren;
  },
) {
  const layout = layoutLadders(
    shown.map(({ ladder }) => ladder.rows),
    shown.length > 1 ? COMPARED : LAYOUT,
  );
  const height = HEAD_PX + layout.height + TAIL_PX;
  return (
    <div class={`ladders ${shown.length > 1 ? "is-compared" : ""}`}>
      {title !== undefined && (
        <div class="ladder-titles">
          {shown.map(({ ladder }) => <h2 key={ladder.variant}>{title(ladder)}</h2>)}
        </div>
      )}
      <div class="ladder-body">
        <Axis layout={layout} height={height} />
        {shown.map((each, i) => (
          <OneLadder
            key={i}
            {...each}
            {...{ layout, height, instant }}
            rows={layout.rows[i]!}
            isNarrow={shown.length > 1}
          />
        ))}
      </div>
    </div>
  );
}

const LABEL_PX = 14;

function Axis({ layout, height }: { readonly layout: LadderLayout; readonly height: number }) {
  let last = -Infinity;
  return (
    <svg class="ladder-axis" width={AXIS_PX} height={height} aria-hidden="true">
      {layout.instants.map(({ sincePs, y, isAfterBreak }) => {
        const at = HEAD_PX + y;
        const label = at - last >= LABEL_PX ? sinceText(sincePs) : "";
        if (label !== "") last = at;
        return (
          <g key={sincePs}>
            {isAfterBreak && (
              <path class="pause" d={breakPath(AXIS_PX - 6, at - ROW_PX / 2 - 22)} />
            )}
            <line x1={AXIS_PX - 10} x2={AXIS_PX - 2} y1={at} y2={at} class="rule" />
            <text x={AXIS_PX - 14} y={at + 4} class="num quiet" text-anchor="end">{label}</text>
          </g>
        );
      })}
    </svg>
  );
}

/** `+3.329 µs` */
export function sinceText(ps: Time): string {
  return ps === 0 ? "0" : `${ps < 0 ? "−" : "+"}${roughTime(Math.abs(ps))}`;
}

function breakPath(x: number, y: number): string {
  return [0, 5].map((down) => `M${x - 8} ${y + down}q4 -4 8 0t8 0`).join("");
}

interface OneLadderProps extends ShownLadder {
  readonly layout: LadderLayout;
  readonly rows: readonly number[];
  readonly height: number;
  readonly instant: Time | undefined;
  readonly isNarrow: boolean;
}

function OneLadder(props: OneLadderProps) {
  const { ladder, selected, onSelect, layout, rows, height, instant, isNarrow } = props;
  const { columns, operation: { startPs } } = ladder;
  const gap = isNarrow ? 46 : isSmall.value ? 60 : 88;
  const width = columns.length * gap;
  const xOf = (node: string) => columns.indexOf(node) * gap + gap / 2;
  const now = instant === undefined ? undefined : instant - startPs;
  const isInside = now !== undefined && now >= layout.instants[0]!.sincePs &&
    now <= layout.instants.at(-1)!.sincePs;
  return (
    <div class="ladder" role="list" aria-label={`Steps of ${ladder.variant}`}>
      <svg width={width} height={height} aria-hidden="true">
        {columns.map((name) => (
          <g key={name}>
            <text x={xOf(name)} y={14} text-anchor="middle" class="device">
              {cut(name, isNarrow ? 7 : 12)}
            </text>
            <line x1={xOf(name)} x2={xOf(name)} y1={HEAD_PX - 6} y2={height} class="rule" />
          </g>
        ))}
        {ladder.rows.map((row, i) => (
          <Arrow
            key={i}
            {...{ row, ladder, layout, xOf }}
            y={rows[i]!}
            isSelected={i === selected}
          />
        ))}
        {isInside && (
          <line
            class="now"
            x1={0}
            x2={width}
            y1={HEAD_PX + layout.yOf(now!)}
            y2={HEAD_PX + layout.yOf(now!)}
          />
        )}
      </svg>
      <div class="ladder-steps" style={{ height: `${height}px` }}>
        {ladder.rows.map((row, i) => (
          <div role="listitem" key={i} style={{ top: `${HEAD_PX + rows[i]! - ROW_PX / 2}px` }}>
            <button
              type="button"
              class={`plain step is-${row.place.replace(" ", "-")}`}
              aria-pressed={i === selected}
              title={stepTitle(row)}
              onClick={() =>
                onSelect(i)}
            >
              <span class="num">{row.step}</span>
              <span class="words">{row.document ?? row.text}</span>
            </button>
          </div>
        ))}
      </div>
    </div>
  );
}

function stepTitle({ document, text, node, to }: LadderRow): string {
  const who = to === undefined ? node : `${node} → ${to}`;
  return document === null ? `${who}: ${text}` : `${who} ${document}: ${text}`;
}

interface ArrowProps {
  readonly row: LadderRow;
  readonly ladder: LadderDocument;
  readonly layout: LadderLayout;
  readonly xOf: (node: string) => number;
  readonly y: number;
  readonly isSelected: boolean;
}

const POINT_PX = 4;

/**
 * A point, and an arrow to the message's destination; that of a frame ends when its last bit has
 * arrived.
 */
function Arrow({ row, ladder, layout, xOf, y, isSelected }: ArrowProps) {
  const from = { x: xOf(row.node), y: HEAD_PX + y };
  const state = `${row.place.replace(" ", "-")} ${isSelected ? "is-selected" : ""}`;
  const to = row.to === undefined ? undefined : xOf(row.to);
  const point = <circle cx={from.x} cy={from.y} r={isSelected ? POINT_PX + 1 : POINT_PX - 0.5} />;
  if (row.step === "power") {
    return (
      <g class={`arrow is-${state}`}>
        <path d={`M${from.x - 6} ${from.y - 6}l12 12m0 -12l-12 12`} class="cross" />
      </g>
    );
  }
  if (to === undefined || to < 0) return <g class={`arrow is-${state}`}>{point}</g>;
  const way = wayOf(row, ladder);
  const points = [
    from,
    ...way.map(({ node, sincePs }) => ({
      x: xOf(node),
      y: Math.max(from.y, HEAD_PX + layout.yOf(sincePs)),
    })).filter(({ x }) => x > 0),
  ];
  if (points.length === 1) points.push({ x: to, y: from.y });
  const before = points.at(-2)!, end = points.at(-1)!;
  // The head ends beside the line of the device, where a step's point may be.
  end.x -= Math.sign(end.x - before.x) * POINT_PX;
  const isLost = way.length > 0 && way.at(-1)!.node !== row.to;
  return (
    <g class={`arrow is-${state} ${way.length > 0 ? "" : "is-bus"}`}>
      {point}
      <polyline points={points.map(({ x, y }) => `${x},${y}`).join(" ")} />
      {isLost
        ? <path class="cross" d={`M${end.x - 5} ${end.y - 5}l10 10m0 -10l-10 10`} />
        : <path class="head" d={headPath(before, end)} />}
    </g>
  );
}

function wayOf(row: LadderRow, ladder: LadderDocument): { node: string; sincePs: Time }[] {
  const frame = row.frame === undefined ? undefined : ladder.frames[row.frame];
  if (frame === undefined || frame.passes[0]?.node !== row.node) return [];
  const last = frame.passes.length - 1;
  return frame.passes.map(({ node, startPs, endPs }, i) => ({
    node,
    sincePs: (i === last ? endPs : startPs) - ladder.operation.startPs,
  }));
}

function headPath(from: { x: number; y: number }, to: { x: number; y: number }): string {
  const angle = Math.atan2(to.y - from.y, to.x - from.x);
  const at = (turn: number, length: number) =>
    `${(to.x + Math.cos(angle + turn) * length).toFixed(1)} ${
      (to.y + Math.sin(angle + turn) * length).toFixed(1)
    }`;
  return `M${to.x} ${to.y}L${at(Math.PI - 0.45, 9)}L${at(Math.PI + 0.45, 9)}z`;
}
