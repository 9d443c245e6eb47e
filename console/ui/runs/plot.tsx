/** A plot of one series, in the colours of the page. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import { csv, saveAs } from "../frame/save.ts";
import { useTheme } from "../frame/theme.ts";

export interface PlotProps {
  readonly title: string;
  readonly data: readonly [x: number[], y: number[]];
  /** Names of the two in a file. */
  readonly columns: readonly [x: string, y: string];
  /** What stands at the axes. */
  readonly x: (value: number) => string;
  readonly y: (value: number) => string;
}

/** A canvas takes no variable: the colour that it has now. */
function colour(name: string): string {
  const probe = document.createElement("span");
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const found = getComputedStyle(probe).color;
  probe.remove();
  return found;
}

const WIDTH = 460, HEIGHT = 200;

function csvOf({ data: [x, y], columns }: Pick<PlotProps, "data" | "columns">): Blob {
  return csv([columns, ...x.map((at, i) => [at, y[i] ?? null])]);
}

export function Plot({ title, data, columns, x, y }: PlotProps) {
  const place = useRef<HTMLDivElement>(null), theme = useTheme();
  useEffect(() => {
    const axis = {
      stroke: colour("quiet"),
      grid: { stroke: colour("line"), width: 1 },
      ticks: { stroke: colour("line"), width: 1 },
      font: "11px DejaVu Sans Mono, monospace",
    };
    const bars = uPlot.paths.bars!({ size: [0.9, 24] });
    const plot = new uPlot(
      {
        width: WIDTH,
        height: HEIGHT,
        legend: { show: false },
        cursor: { show: false },
        scales: { x: { time: false } },
        series: [{}, {
          stroke: colour("flight"),
          fill: colour("flight"),
          paths: bars,
          points: { show: false },
        }],
        axes: [
          { ...axis, values: (_, ticks) => ticks.map(x) },
          { ...axis, size: 80, values: (_, ticks) => ticks.map(y) },
        ],
      },
      [data[0], data[1]],
      place.current!,
    );
    return () => plot.destroy();
  }, [data, theme]);
  return (
    <figure>
      <figcaption class="row apart">
        {title}
        <button
          type="button"
          class="plain"
          aria-label={`Save as CSV: ${title}`}
          onClick={() => saveAs(`${columns[1]}.csv`, csvOf({ data, columns }))}
        >
          CSV
        </button>
      </figcaption>
      <div ref={place} role="img" aria-label={title} />
    </figure>
  );
}
