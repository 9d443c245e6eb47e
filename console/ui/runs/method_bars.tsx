import type { MethodRow } from "../../api/report.ts";
import { useRef } from "preact/hooks";
import { cut, roughOr, roughTime } from "../figures.ts";
import { saveAs, svg } from "../frame/save.ts";
import { Figure } from "./plot.tsx";

const NAME = 210, WIDTH = 640, BAR = 290, ROW = 20, TOP = 4;

function label({ method, ddio, from, to }: MethodRow, rows: readonly MethodRow[]): string {
  const isOnePair = rows.every((row) => row.from === from && row.to === to);
  return `${method}, ${ddio}${isOnePair ? "" : `, ${from} → ${to}`}`;
}

function Chart(
  { rows, title, file, most, bars, figure }: {
    readonly rows: readonly MethodRow[];
    readonly title: string;
    readonly file: string;
    readonly most: number;
    readonly bars: (row: MethodRow) => readonly [number, number];
    readonly figure: (row: MethodRow) => string;
  },
) {
  const picture = useRef<SVGSVGElement>(null);
  return (
    <Figure
      title={title}
      format="SVG"
      save={() => saveAs(`${file}.svg`, svg(picture.current!))}
    >
      <svg
        ref={picture}
        viewBox={`0 0 ${WIDTH} ${rows.length * ROW + TOP}`}
        width={WIDTH}
        role="img"
        aria-label={title}
      >
        {rows.map((row, i) => {
          const [full, pale] = bars(row), y = TOP + i * ROW;
          return (
            <g key={i}>
              <text x="0" y={y + 12}>{cut(label(row, rows), 30)}</text>
              <rect class="bar pale" x={NAME} y={y + 3} width={BAR * pale / most} height="10" />
              <rect class="bar" x={NAME} y={y + 3} width={BAR * full / most} height="10" />
              <text class="num quiet" x={NAME + BAR + 8} y={y + 12}>{figure(row)}</text>
            </g>
          );
        })}
      </svg>
    </Figure>
  );
}

export function MethodBars({ rows }: { readonly rows: readonly MethodRow[] }) {
  const measured = rows.filter(({ messages, error }) => messages > 0 && error === null);
  if (measured.length === 0) return null;
  return (
    <div class="charts">
      <Chart
        rows={measured}
        file="latency"
        title="Latency by method and DDIO: median, and paler to the 99th percentile"
        most={Math.max(...measured.map(({ latencyPs }) => latencyPs.p99), 1)}
        bars={({ latencyPs }) => [latencyPs.median, latencyPs.p99]}
        figure={({ latencyPs }) => `${roughTime(latencyPs.median)}, ${roughTime(latencyPs.p99)}`}
      />
      <Chart
        rows={measured}
        file="bytes"
        title="Bytes on the network for each message, by method and DDIO"
        most={Math.max(...measured.map(({ bytesPerMessage }) => bytesPerMessage ?? 0), 1)}
        bars={({ bytesPerMessage: bytes }) => [bytes ?? 0, bytes ?? 0]}
        figure={({ bytesPerMessage }) => roughOr(bytesPerMessage)}
      />
    </div>
  );
}
