import type { ComponentChildren } from "preact";
import { ticks } from "../figures.ts";
import { csv, saveAs } from "../frame/save.ts";

/** With its title and what saves it. */
export function Figure(
  { title, format, save, children }: {
    readonly title: string;
    readonly format: "CSV" | "SVG";
    readonly save: () => void;
    readonly children: ComponentChildren;
  },
) {
  return (
    <figure>
      <figcaption class="row apart">
        {title}
        <button
          type="button"
          class="plain"
          aria-label={`Save as ${format}: ${title}`}
          onClick={save}
        >
          {format}
        </button>
      </figcaption>
      {children}
    </figure>
  );
}

export interface HistogramProps {
  readonly title: string;
  /** The first step begins at zero. */
  readonly values: readonly number[];
  readonly step: number;
  readonly columns: readonly [x: string, y: string];
  readonly x: (value: number) => string;
  readonly y: (value: number) => string;
}

const WIDTH = 460, HEIGHT = 200, LEFT = 80, RIGHT = 16, TOP = 8, BOTTOM = 24;

export function Histogram({ title, values, step, columns, x, y }: HistogramProps) {
  const end = step * values.length, most = 1.1 * Math.max(...values) || 1, ground = HEIGHT - BOTTOM;
  const xOf = (value: number) => LEFT + (WIDTH - LEFT - RIGHT) * value / end;
  const yOf = (value: number) => ground - (ground - TOP) * value / most;
  const width = xOf(step) - LEFT;
  return (
    <Figure
      title={title}
      format="CSV"
      save={() => {
        const rows = values.map((value, i) => [(i + 0.5) * step, value]);
        saveAs(`${columns[1]}.csv`, csv([columns, ...rows]));
      }}
    >
      <svg viewBox={`0 0 ${WIDTH} ${HEIGHT}`} width={WIDTH} role="img" aria-label={title}>
        {ticks(0, end, 6).map((at) => (
          <g key={at} transform={`translate(${xOf(at)})`}>
            <line class="grid" y1={TOP} y2={ground + 4} />
            <text class="quiet num" y={HEIGHT - 8} text-anchor="middle">
              {at === 0 ? "0" : x(at)}
            </text>
          </g>
        ))}
        {ticks(0, most, 5).map((at) => (
          <g key={at} transform={`translate(0,${yOf(at)})`}>
            <line class="grid" x1={LEFT - 4} x2={WIDTH - RIGHT} />
            <text class="quiet num" x={LEFT - 8} y="4" text-anchor="end">{y(at)}</text>
          </g>
        ))}
        {values.map((value, i) =>
          value > 0 && (
            <rect
              key={i}
              class="bar"
              x={xOf(i * step) + width * 0.05}
              y={yOf(value)}
              width={width * 0.9}
              height={ground - yOf(value)}
            />
          )
        )}
      </svg>
    </Figure>
  );
}
