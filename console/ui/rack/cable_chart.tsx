/** A cable over time: how much of its rate was used each way, and what waited to leave over it. */
import { useEffect, useRef } from "preact/hooks";
import uPlot from "uplot";
import type { CableHistory } from "../../api/cables.ts";
import { PS_PER_S, type Time } from "../../../fabric/base/time.ts";
import { bytes, percent, roughTime } from "../figures.ts";
import { coloursNow, useTheme } from "../frame/theme.ts";
import { lookAt } from "../state.ts";

const HIGH_PX = 150;

/** Shares of the cable's rate from 0 to 1, of the time since the point before. */
function sharesOf({ at, bitsPerSecond }: CableHistory, sent: readonly (number | null)[]) {
  return at.map((instant, i) => {
    const moved = sent[i], span = instant - (at[i - 1] ?? 0);
    return moved === null || moved === undefined || span <= 0
      ? null
      : Math.min(1, moved * 8 / (span / PS_PER_S) / bitsPerSecond);
  });
}

/** What a chart of it says, for who does not see it. */
function wordsOf(history: CableHistory): string {
  const said = history.directions.map(({ from, sentBytes, queuedBytes }) => {
    const most = Math.max(0, ...sharesOf(history, sentBytes).map((share) => share ?? 0));
    const queued = Math.max(0, ...(queuedBytes ?? []).map((each) => each ?? 0));
    const waits = queuedBytes === undefined ? "" : `, at most ${bytes(queued)} waiting`;
    return `from ${from} at most ${percent(most)}${waits}`;
  });
  return `Use of the cable over time: ${said.join("; ")}`;
}

export function CableChart(
  { history, instant }: {
    readonly history: CableHistory;
    /** Marked; undefined: now. */
    readonly instant: Time | undefined;
  },
) {
  const box = useRef<HTMLDivElement>(null), plot = useRef<uPlot | undefined>(undefined);
  const marked = useRef(instant), theme = useTheme();
  marked.current = instant;
  useEffect(() => {
    const made = new uPlot(
      optionsOf(history, { width: box.current!.clientWidth, instant: () => marked.current }),
      dataOf(history),
      box.current!,
    );
    plot.current = made;
    made.over.addEventListener("click", () => {
      const at = made.posToVal(made.cursor.left ?? 0, "x");
      lookAt(Math.max(0, Math.round(at)));
    });
    const observer = new ResizeObserver(([entry]) =>
      made.setSize({ width: entry!.contentRect.width, height: HIGH_PX })
    );
    observer.observe(box.current!);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [theme, history.directions.map(({ queuedBytes }) => queuedBytes === undefined).join()]);
  useEffect(() => plot.current?.setData(dataOf(history)), [history]);
  useEffect(() => plot.current?.redraw(false), [instant]);
  return <div ref={box} class="cable-chart" role="img" aria-label={wordsOf(history)} />;
}

function dataOf(history: CableHistory): uPlot.AlignedData {
  const queued = history.directions.flatMap(({ queuedBytes }) =>
    queuedBytes === undefined ? [] : [[...queuedBytes]]
  );
  return [
    [...history.at],
    ...history.directions.map(({ sentBytes }) => sharesOf(history, sentBytes)),
    ...queued,
  ];
}

/** The legend's figure where the pointer is; of the latest point, where it is not on the chart. */
function figureOf(text: (value: number) => string): NonNullable<uPlot.Series["value"]> {
  return (plot, value, series, index) => {
    const shown = index === null ? plot.data[series]?.at(-1) : value;
    return shown === null || shown === undefined ? "–" : text(shown);
  };
}

function optionsOf(
  { directions }: CableHistory,
  { width, instant }: { readonly width: number; readonly instant: () => Time | undefined },
): uPlot.Options {
  const colour = coloursNow();
  const font = "11px sans-serif";
  const axis = { font, stroke: colour("quiet"), ticks: { stroke: colour("line"), size: 4 } };
  const shares = directions.map(({ from }, i): uPlot.Series => ({
    label: `from ${from}`,
    scale: "share",
    stroke: colour(i === 0 ? "flight" : "durable"),
    width: 1.5,
    // Of the time since the point before.
    paths: uPlot.paths.stepped!({ align: -1 }),
    points: { show: false },
    value: figureOf(percent),
  }));
  const queues = directions.filter(({ queuedBytes }) => queuedBytes !== undefined).map((
    { from },
  ): uPlot.Series => ({
    label: `waits in ${from}`,
    scale: "queue",
    stroke: colour("volatile"),
    dash: [4, 3],
    width: 1.5,
    paths: uPlot.paths.stepped!({ align: 1 }),
    points: { show: false },
    value: figureOf(bytes),
  }));
  return {
    ...{ width, height: HIGH_PX, padding: [8, 4, 0, 0] },
    scales: {
      x: { time: false },
      share: { range: [0, 1] },
      queue: { range: (_, __, most) => [0, Math.max(1, most)] },
    },
    series: [
      { label: "at", value: figureOf(roughTime) },
      ...shares,
      ...queues,
    ],
    axes: [
      {
        ...axis,
        grid: { stroke: colour("line"), width: 1 },
        size: 24,
        space: 70,
        values: (_, at) => at.map((each) => each === 0 ? "0" : roughTime(each)),
      },
      {
        ...axis,
        scale: "share",
        size: 40,
        grid: { stroke: colour("line"), width: 1 },
        splits: [0, 0.5, 1],
        values: (_, all) => all.map(percent),
      },
      ...(queues.length === 0 ? [] : [{
        ...axis,
        scale: "queue",
        side: 1 as const,
        size: 60,
        splits: (_: uPlot, __: number, ___: number, most: number) => [0, most],
        grid: { show: false },
        values: (_: uPlot, all: number[]) => all.map(bytes),
      }]),
    ],
    cursor: { y: false, drag: { x: true, y: false } },
    hooks: {
      draw: [(plot) => {
        const at = instant();
        if (at === undefined) return;
        const x = plot.valToPos(at, "x", true), { top, height } = plot.bbox;
        plot.ctx.fillStyle = colour("time-line");
        plot.ctx.fillRect(x - 1, top, 2, height);
      }],
    },
  };
}
