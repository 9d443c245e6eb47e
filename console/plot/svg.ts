/** Draws a {@link Chart} as an SVG document, with Observable Plot on a DOM without a browser. */
import * as Plot from "@observablehq/plot";
import { DOMParser } from "linkedom";
import {
  type Chart,
  type ChartPoint,
  measureOf,
  type Series,
  shortNumber,
  withUnit,
} from "./chart.ts";

const COLOURS = [
  ...["#0072b2", "#d55e00", "#009e73", "#cc79a7"],
  ...["#e69f00", "#56b4e9", "#000000", "#7f7f7f"],
];
const SYMBOLS = ["circle", "square", "triangle", "diamond"] as const;
const DASHES = ["none", "6 3", "2 3", "9 3 2 3"];

const SVG = "http://www.w3.org/2000/svg";
const FONT = "Helvetica, Arial, 'Liberation Sans', sans-serif";
const INK = "#222222", QUIET = "#555555", GRID = "#dddddd";
const TEXT_PX = 12, TITLE_PX = 15, CAPTION_PX = 10.5;
const LETTER = 0.56;

const WIDTH = 760, PANEL_HEIGHT = 330;
/** Series are apart within a word's row, so that none hides another. */
const ROW_PX = 20, APART_PX = 9;
const PAD = 16, LINE_PX = 18, SWATCH_PX = 30;
const LOG_RATIO = 15;
const TICKS_MAX = 10;

interface Node {
  textContent: string;
  readonly outerHTML: string;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  append(node: Node): void;
  prepend(node: Node): void;
  remove(): void;
  querySelectorAll(selector: string): Iterable<Node>;
}

interface Document {
  createElementNS(namespace: string, name: string): Node;
}

type Figure = Node & Pick<Plot.Plot, "scale">;

/**
 * Deterministic. The library's own titles, captions and legends are HTML beside the picture: here
 * they are marks of an outer picture.
 */
export function svgOf(chart: Chart): string {
  const document = new DOMParser().parseFromString(
    "<svg></svg>",
    "image/svg+xml",
  ) as unknown as Document;
  const legend = entriesOf(chart);
  const isBeside = "numbers" in chart.x && legend.length > 1;
  const legendWidth = isBeside
    ? SWATCH_PX + PAD + Math.max(...legend.map(({ name }) => widthOf(name, TEXT_PX)))
    : 0;
  const title = wrapped(chart.title, TITLE_PX);
  const above = !isBeside && legend.length > 1 ? inRows(legend) : [];
  const legendTop = PAD + title.length * (TITLE_PX + 4) + 4;
  const top = legendTop + (above.length === 0 ? 0 : above.at(-1)!.y + LINE_PX / 2 + 6);
  const plot = drawn(document, chart, WIDTH - 2 * PAD - legendWidth);
  const names = isBeside
    ? besideOf(legend, plot).map((name) => ({
      ...name,
      x: WIDTH - PAD - legendWidth + 12,
      y: top + name.y,
    }))
    : above.map((name) => ({ ...name, x: PAD + name.x, y: legendTop + name.y }));
  const bottom = Math.max(top + plot.height, ...names.map(({ y }) => y + LINE_PX / 2)) + 8;
  const caption = chart.caption.flatMap((line) => wrapped(line, CAPTION_PX));
  const height = Math.ceil(bottom + caption.length * (CAPTION_PX + 4) + PAD);
  const root = plotOf(document, {
    ...{ width: WIDTH, height, margin: 0, axis: null },
    ...{ x: { type: "identity" }, y: { type: "identity" } },
    marks: [
      Plot.frame({ fill: "white", stroke: "none" }),
      ...legendOf(chart, names),
      textOf("title", title, { y: PAD + TITLE_PX - 2, px: TITLE_PX, fontWeight: "bold" }),
      textOf("caption", caption, { y: bottom + CAPTION_PX, px: CAPTION_PX, fill: QUIET }),
    ],
  });
  set(root, {
    ...{ xmlns: SVG, role: "img", fill: INK, color: INK },
    ...{ "font-family": FONT, "font-size": TEXT_PX },
  });
  set(plot.node, { x: PAD, y: round(top), overflow: "visible" });
  const about = document.createElementNS(SVG, "title");
  about.textContent = chart.title;
  root.prepend(about);
  root.append(plot.node);
  return `${withOwnIds(root.outerHTML)}\n`;
}

/** The library numbers its markers through all pictures of a process. */
function withOwnIds(svg: string): string {
  const known = new Map<string, string>();
  return svg.replace(/\bplot-marker-\d+/g, (id) => {
    if (!known.has(id)) known.set(id, `end-${known.size + 1}`);
    return known.get(id)!;
  });
}

interface Entry extends Pick<Series, "name" | "colour" | "dash"> {
  readonly last: ChartPoint | undefined;
}

function entriesOf({ series }: Chart): Entry[] {
  const last = series.at(-1)?.panel;
  return [...Map.groupBy(series, ({ name }) => name).values()].map((own) => {
    const { name, colour, dash } = own[0]!;
    return { name, colour, dash, last: own.find(({ panel }) => panel === last)?.points.at(-1) };
  });
}

interface Drawn {
  readonly node: Node;
  readonly height: number;
  readonly yOf: (value: number) => number;
}

function drawn(document: Document, chart: Chart, width: number): Drawn {
  return "numbers" in chart.x
    ? lines(document, chart, { width, numbers: chart.x.numbers })
    : dots(document, chart, { width, words: chart.x.words });
}

/** Both kinds of pictures show values of y in one unit. */
function scaledY(chart: Chart) {
  const all = chart.series.flatMap(({ points }) => points);
  const most = Math.max(...all.map(({ y, greatest = y }) => greatest));
  const least = Math.min(...all.map(({ y, least = y }) => least));
  // From zero on, values of such a range would hide the small ones.
  const isLog = least > 0 && most / least >= LOG_RATIO && chart.isCurve !== true;
  const { size, suffix } = measureOf(chart.y.unit, isLog ? least : most);
  const label = suffix === "" ? chart.y.label : `${chart.y.label} (${suffix})`;
  const ticks = isLog ? decades(least / size, most / size) : undefined;
  return { size, label, most: most / size, ticks };
}

function decades(least: number, most: number): number[] {
  const first = Math.floor(Math.log10(least)), last = Math.ceil(Math.log10(most));
  const steps = last - first > 3 ? [1] : [1, 2, 5];
  const all = Array.from({ length: last - first + 1 }, (_, i) => 10 ** (first + i))
    .flatMap((decade) => steps.map((step) => Number((step * decade).toPrecision(1))));
  const from = all.findLastIndex((tick) => tick <= least),
    to = all.findIndex((tick) => tick >= most);
  return all.slice(Math.max(0, from), to + 1);
}

function plotOf(document: Document, options: Plot.PlotOptions): Figure {
  const node = Plot.plot({
    document: document as never,
    ...options,
  }) as unknown as Figure;
  // The style sheet is for a page; a picture in a file of its own has its style in attributes.
  for (const style of node.querySelectorAll("style")) style.remove();
  for (const name of ["class", "style", "fill", "font-family", "font-size"]) {
    node.removeAttribute(name);
  }
  return node;
}

function lines(
  document: Document,
  chart: Chart,
  { width, numbers }: { readonly width: number; readonly numbers: readonly number[] },
): Drawn {
  const { size, label, most, ticks } = scaledY(chart);
  const x = scaledX(chart, numbers);
  const panels = panelsOf(chart), fx = panels.length > 1;
  const up = { x: (point: ChartPoint) => Number(point.x) / x.size, y: valueOf(size) };
  const ticksY = ticks === undefined ? { tickSpacing: 45 } : { ticks };
  const marginLeft = 20 + 8 * shortNumber(Math.ceil(most)).length;
  const node = plotOf(document, {
    width,
    height: PANEL_HEIGHT,
    marginLeft,
    marginRight: 18,
    marginTop: fx ? 46 : 28,
    marginBottom: 44,
    // Points at the ends keep clear of the axis.
    inset: chart.isCurve ? 0 : 8,
    insetBottom: 0,
    insetTop: 0,
    x: {
      type: x.isLog ? "log" : "linear",
      ...(x.isLog && { base: x.base }),
      nice: !x.isLog,
      zero: chart.isCurve === true,
    },
    y: scaleOf(ticks),
    ...(fx && { fx: { domain: panels, padding: 0.1 } }),
    marks: [
      Plot.gridY({ stroke: GRID, strokeOpacity: 1, ...ticksY }),
      Plot.axisX({
        label: x.label,
        labelAnchor: "center",
        labelArrow: "none",
        labelOffset: 38,
        ...(x.ticks !== undefined && { ticks: x.ticks }),
        text: x.format,
        fontSize: TEXT_PX,
      }),
      Plot.axisY({
        label,
        labelArrow: "none",
        // With a format, numbers between decades would stay without text.
        text: shortNumber,
        fontSize: TEXT_PX,
        ...ticksY,
      }),
      ...(fx ? [panelTitles(chart)] : []),
      Plot.frame({ stroke: "#999999", anchor: "bottom" }),
      ...chart.series.flatMap((series) => {
        const inPanel = fx ? { fx: () => series.panel } : {}, own = { ...up, ...inPanel };
        return [
          Plot.line(series.points, {
            ...own,
            ...lineOf(series),
            ariaLabel: () => `line: ${nameOf(chart, series)}`,
            ...(chart.isCurve && { curve: "step-after" as const }),
          }),
          Plot.ruleX(spreadOf(series), {
            ...{ ...inPanel, ...spreadLook(chart, series), x: up.x },
            y1: ({ least }) => least / size,
            y2: ({ greatest }) => greatest / size,
          }),
          ...(chart.isCurve ? [] : [dotOf(chart, series, own)]),
        ];
      }),
    ],
  });
  const scale = node.scale("y")!;
  return { node, height: PANEL_HEIGHT, yOf: (value) => scale.apply(value / size) as number };
}

/**
 * Words from top to bottom, values from left to right: long words stay readable, no line joins
 * them.
 */
function dots(
  document: Document,
  chart: Chart,
  { width, words }: { readonly width: number; readonly words: readonly string[] },
): Drawn {
  const { size, label, most, ticks } = scaledY(chart);
  const panels = panelsOf(chart), fx = panels.length > 1;
  const names = [...new Set(chart.series.map(({ name }) => name))];
  const apart = (name: string) => APART_PX * (names.indexOf(name) - (names.length - 1) / 2);
  const height = words.length * (ROW_PX + APART_PX * names.length) + (fx ? 96 : 78);
  const value = valueOf(size);
  const ticksX = ticks === undefined ? { tickSpacing: most >= 1000 ? 70 : 50 } : { ticks };
  const node = plotOf(document, {
    width,
    height,
    marginLeft: 30 + Math.max(...words.map((word) => widthOf(word, TEXT_PX))),
    marginRight: 18,
    marginTop: fx ? 40 : 22,
    marginBottom: 44,
    x: scaleOf(ticks),
    y: { type: "point", domain: [...words], padding: 0.5 },
    ...(fx && { fx: { domain: panels, padding: 0.1 } }),
    marks: [
      Plot.gridX({ stroke: GRID, strokeOpacity: 1, ...ticksX }),
      Plot.ruleY(words, { stroke: GRID, strokeDasharray: "1 3" }),
      Plot.axisX({
        ...{ label, labelAnchor: "center", labelArrow: "none", labelOffset: 38 },
        ...{ text: shortNumber, fontSize: TEXT_PX },
        ...ticksX,
      }),
      Plot.axisY({ label: chart.x.label, labelArrow: "none", tickSize: 0, fontSize: TEXT_PX }),
      ...(fx ? [panelTitles(chart)] : []),
      Plot.frame({ stroke: "#999999", anchor: "bottom" }),
      ...chart.series.flatMap((series) => {
        const inPanel = fx ? { fx: () => series.panel } : {};
        const dy = apart(series.name);
        const own = { x: value, y: (point: ChartPoint) => point.x, ...inPanel, dy };
        return [
          Plot.ruleY(spreadOf(series), {
            ...{ ...inPanel, ...spreadLook(chart, series), y: own.y, dy },
            x1: ({ least }) => least / size,
            x2: ({ greatest }) => greatest / size,
          }),
          dotOf(chart, series, own),
        ];
      }),
    ],
  });
  return { node, height, yOf: () => 0 };
}

function scaleOf(ticks: readonly number[] | undefined): Plot.ScaleOptions {
  return ticks === undefined
    ? { type: "linear", nice: true, zero: true }
    : { type: "log", domain: [ticks[0]!, ticks.at(-1)!] };
}

function valueOf(size: number): (point: ChartPoint) => number {
  return ({ y }) => y / size;
}

function panelsOf({ series }: Chart): string[] {
  return [...new Set(series.map(({ panel }) => panel))];
}

function panelTitles({ panelLabel }: Chart): Plot.Markish {
  return Plot.axisFx({
    anchor: "top",
    label: null,
    tickFormat: (panel: string) => `${panelLabel} ${panel}`.trim(),
    fontSize: TEXT_PX,
    fontWeight: "bold",
  });
}

function nameOf({ panelLabel }: Chart, { name, panel }: Series): string {
  return [name, ...(panel === "" ? [] : [`${panelLabel} ${panel}`])].filter((each) => each !== "")
    .join(", ") || "all";
}

function spreadOf({ points }: Series) {
  return points.filter((point) => point.least !== undefined);
}

function spreadLook(chart: Chart, series: Series) {
  return {
    ...{ stroke: colourOf(series), strokeWidth: 1.4, marker: "tick" as const },
    ariaLabel: () => `spread: ${nameOf(chart, series)}`,
  };
}

function dotOf(chart: Chart, series: Series, channels: object): Plot.Markish {
  const unit = "numbers" in chart.x ? chart.x.unit : "";
  const title = ({ x, y, least, greatest, count }: ChartPoint) => {
    const at = typeof x === "number" ? withUnit(unit, x) : x;
    const range = least === undefined || greatest === undefined
      ? ""
      : ` (${withUnit(chart.y.unit, least)} to ${
        withUnit(chart.y.unit, greatest)
      }, ${count} values)`;
    const name = nameOf(chart, series);
    return `${name}, ${chart.x.label} ${at}: ${withUnit(chart.y.unit, y)}${range}`;
  };
  return Plot.dot(series.points, {
    ...channels,
    ...symbolOf(series),
    ariaLabel: () => `points: ${nameOf(chart, series)}`,
    title,
  });
}

type Look = Pick<Series, "colour" | "dash">;

function colourOf({ colour }: Look): string {
  return COLOURS[colour % COLOURS.length]!;
}

function lineOf(look: Look) {
  const strokeDasharray = DASHES[look.dash % DASHES.length]!;
  return { stroke: colourOf(look), strokeWidth: 1.8, strokeDasharray };
}

function symbolOf(look: Look) {
  const symbol = SYMBOLS[look.colour % SYMBOLS.length]!, stroke = colourOf(look);
  // Swapped where the kind of line differs, too.
  const isHollow = (Math.floor(look.colour / SYMBOLS.length) + look.dash) % 2 === 1;
  return { symbol, r: 3.8, stroke, strokeWidth: 1.5, fill: isHollow ? "white" : stroke };
}

/** Numbers over several octaves are apart as far as their ratios are. */
function scaledX({ x, isCurve }: Chart, numbers: readonly number[]) {
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  const least = sorted[0]!, most = sorted.at(-1)!;
  const isPowers = sorted.every((number) => Number.isInteger(Math.log2(number)));
  const isLog = least > 0 && most / least >= (isPowers ? 4 : 16) && isCurve !== true;
  // Sizes have their unit at each tick: 64 B, 4 KiB.
  const isSize = x.unit === "B" && isCurve !== true;
  const { size, suffix } = isSize ? { size: 1, suffix: "" } : measureOf(x.unit, most);
  const place = isLog ? Math.log : (value: number) => value;
  const range = place(most) - place(least);
  const gaps = sorted.slice(1).map((value, i) => place(value) - place(sorted[i]!));
  const hasRoom = sorted.length <= TICKS_MAX && gaps.every((gap) => gap >= range / 14);
  return {
    isLog,
    base: isPowers || isSize ? 2 : 10,
    size,
    label: suffix === "" ? x.label : `${x.label} (${suffix})`,
    ticks: hasRoom && isCurve !== true
      ? sorted.map((value) => value / size)
      : isLog
      ? 6
      : undefined,
    format: (value: number) => isSize ? withUnit("B", value) : shortNumber(value),
  };
}

interface Placed extends Entry {
  readonly x: number;
  readonly y: number;
}

/** Each entry as near to the height of its line's end as the others permit. */
function besideOf(
  entries: readonly Entry[],
  { yOf, height }: Drawn,
): (Entry & Pick<Placed, "y">)[] {
  const bottom = height - 50;
  const wanted = entries.map((entry) => ({
    ...entry,
    y: entry.last === undefined ? bottom : yOf(entry.last.y),
  })).sort((a, b) => a.y - b.y);
  let above = -Infinity;
  const down = wanted.map((entry) => ({ ...entry, y: above = Math.max(entry.y, above + LINE_PX) }));
  // Entries that were pushed out of the picture push the others up again.
  let below = Math.max(bottom, LINE_PX * entries.length) + LINE_PX;
  return down.toReversed().map((entry) => ({
    ...entry,
    y: below = Math.min(entry.y, below - LINE_PX),
  })).toReversed();
}

function inRows(entries: readonly Entry[]): Placed[] {
  let x = 0, y = LINE_PX / 2;
  return entries.map((entry) => {
    const width = SWATCH_PX + widthOf(entry.name, TEXT_PX) + PAD;
    if (x > 0 && x + width > WIDTH - 2 * PAD) [x, y] = [0, y + LINE_PX];
    const placed = { ...entry, x, y };
    x += width;
    return placed;
  });
}

function legendOf(chart: Chart, entries: readonly Placed[]): Plot.Markish[] {
  const length = SWATCH_PX - 8;
  return [
    ...("numbers" in chart.x
      ? entries.map(({ x, y, colour, dash }) =>
        Plot.line([[x, y], [x + length, y]], lineOf({ colour, dash }))
      )
      : []),
    ...(chart.isCurve
      ? []
      : entries.map(({ x, y, ...entry }) => Plot.dot([[x + length / 2, y]], symbolOf(entry)))),
    labelled(
      "legend",
      Plot.text(entries, {
        ...{ x: ({ x }) => x + SWATCH_PX - 2, y: "y", text: "name", textAnchor: "start" },
        fontSize: TEXT_PX,
      }),
    ),
  ];
}

function labelled<Mark extends Plot.Mark>(ariaLabel: string, mark: Mark): Mark {
  return Object.assign(mark, { ariaLabel });
}

function textOf(
  label: string,
  lines: readonly string[],
  { y, px, ...look }: { readonly y: number; readonly px: number } & Plot.TextOptions,
): Plot.Markish {
  return labelled(
    label,
    Plot.text(lines, {
      ...look,
      ...{ x: () => PAD, y: (_, i) => round(y + i * (px + 4)), text: (line: string) => line },
      ...{ fontSize: px, textAnchor: "start", lineAnchor: "bottom" },
    }),
  );
}

function set(node: Node, attributes: Readonly<Record<string, string | number>>): void {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, String(value));
}

function round(value: number): number {
  return Math.round(value * 10) / 10;
}

function widthOf(text: string, px: number): number {
  return Math.ceil(text.length * px * LETTER);
}

function wrapped(text: string, px: number): string[] {
  const found: string[] = [];
  let line = "";
  for (const word of text.split(" ")) {
    const longer = line === "" ? word : `${line} ${word}`;
    if (line !== "" && widthOf(longer, px) > WIDTH - 2 * PAD) {
      found.push(line);
      line = word;
    } else line = longer;
  }
  return [...found, line];
}
