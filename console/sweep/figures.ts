/**
 * The figures of a report on a run, one point for each transfer: every number of the report under its own
 * name in it (`latencyPs.median`, `throughputBps`), and what tells the points of a run apart (method, hosts …).
 */
import { isMapping } from "../../fabric/base/mapping.ts";
import { machineOf } from "../../fabric/rack/plan/names.ts";
import { PUT_METHODS } from "../../fabric/rack/plan/vocabulary.ts";
import { oneOf, refusal } from "../../fabric/rack/plan/problem.ts";
import { formatTime } from "../../fabric/base/time.ts";
import type { Unit } from "../plot/chart.ts";
import type { RunReport } from "../reports/method_report.ts";
import { isInSharedTable } from "../reports/shared_report.ts";

export interface ReportPoint {
  readonly keys: Readonly<Record<string, string>>;
  readonly figures: Readonly<Record<string, number>>;
  /** Why a transfer is not complete; else empty. */
  readonly note: string;
}

/** In the report's order: points of `put`, then of other programs. */
export function pointsOf(report: RunReport): ReportPoint[] {
  const all = runFigures(report);
  const puts = report.methods.map((row): ReportPoint => {
    const { method, ddio, from, to, digest: _, error, loss, ...rest } = row;
    const note = error ?? (loss === null ? "" : `LOST byte ${loss.offset} of ${loss.object}`);
    return {
      keys: { program: "put", method, ddio, from, to },
      figures: { ...measured(numbersIn(rest)), ...all },
      note,
    };
  });
  const others = report.results.flatMap(({ node, variant, value }) => {
    if (!isMapping(value) || "stack" in value || isInSharedTable({ value })) return [];
    const { error, rows, status: _, ...rest } = value;
    const keys = { ...textsIn(rest), from: node, ...keysOfVariant(variant, report) };
    const note = error === undefined ? "" : String(error);
    // perftest measures several sizes one after the other, many-queues several numbers of queue
    // pairs.
    const parts = Array.isArray(rows) ? rows.filter(isMapping) : [{}];
    return parts.map((row): ReportPoint => ({
      keys: { ...keys, ...keysOfRow(row), ...keysOfQueues({ node, variant, row }, report) },
      figures: { ...measured(numbersIn({ ...rest, ...row })), ...all },
      note,
    }));
  });
  const points = [...puts, ...others, ...sharedPoints(report)];
  return points.length > 0 ? points : [{ keys: {}, figures: all, note: "" }];
}

function sharedPoints({ shared, scenario }: RunReport): ReportPoint[] {
  if (shared === undefined) return [];
  const { costs, accesses, queues, locks } = shared;
  return [...costs, ...accesses, ...queues, ...locks].map((row): ReportPoint => {
    const { variant, ...rest } = row;
    const keys = textsIn({ ...rest, ...(variant !== scenario && { variant }) });
    const share = "farPercent" in row ? { farPercent: String(row.farPercent) } : {};
    return { keys: { program: "shared", ...keys, ...share }, figures: figuresIn(rest), note: "" };
  });
}

function figuresIn(row: Readonly<Record<string, unknown>>): Record<string, number> {
  const { farPercent: _, ...rest } = row;
  return measured(numbersIn(rest));
}

function keysOfRow(row: Readonly<Record<string, unknown>>): Record<string, string> {
  const given = ["bytes", "qps"].filter((name) => row[name] !== undefined);
  return Object.fromEntries(given.map((name) => [name, String(row[name])]));
}

function keysOfQueues(
  { node, variant, row }: {
    readonly node: string;
    readonly variant: string;
    readonly row: Readonly<Record<string, unknown>>;
  },
  { queues = [] }: RunReport,
): Record<string, string> {
  const found = queues.find((each) =>
    machineOf(each.node) === node && each.variant === variant && each.qps === row["qps"]
  );
  if (found === undefined) return {};
  const { scheme, placement, layout, store, cache } = found;
  return { scheme, placement, layout, store, cache };
}

function runFigures({ virtualPs, events, congestion }: RunReport): Record<string, number> {
  const hasVariants = new Set(congestion.map(({ variant }) => variant)).size > 1;
  const counters = congestion.flatMap(({ node, counters }) =>
    Object.entries(counters).map(([name, value]) => [`congestion.${node}.${name}`, value] as const)
  );
  return { virtualPs, events, ...(!hasVariants && Object.fromEntries(counters)) };
}

/** `persist-opcode, ddio off`; none for an only variant. */
function keysOfVariant(variant: string, { scenario }: RunReport): Record<string, string> {
  if (variant === scenario) return {};
  return Object.fromEntries(
    variant.split(", ").map((part) => {
      if (part.startsWith("ddio ")) return ["ddio", part.slice("ddio ".length)];
      return [(PUT_METHODS as readonly string[]).includes(part) ? "method" : "variant", part];
    }),
  );
}

function textsIn(value: Readonly<Record<string, unknown>>): Record<string, string> {
  return Object.fromEntries(
    Object.entries(value).filter((entry): entry is [string, string] =>
      typeof entry[1] === "string"
    ),
  );
}

function numbersIn(value: Readonly<Record<string, unknown>>, above = ""): [string, number][] {
  return Object.entries(value).flatMap(([key, inner]): [string, number][] => {
    const path = above === "" ? key : `${above}.${key}`;
    if (typeof inner === "number" && Number.isFinite(inner)) return [[path, inner]];
    return isMapping(inner) ? numbersIn(inner, path) : [];
  });
}

/** A latency or a rate of 0 says that there was nothing to measure. */
function measured(numbers: readonly [string, number][]): Record<string, number> {
  return Object.fromEntries(
    numbers.filter(([name, value]) => value !== 0 || !/^latencyPs\.|^throughputBps$/.test(name)),
  );
}

export function unitOf(figure: string): Unit {
  if (/Ps(\.|$)/.test(figure)) return "ps";
  if (/BytesPerSecond$/.test(figure)) return "B/s";
  if (/Bps$/.test(figure)) return "b/s";
  if (/PerSecond$/.test(figure)) return "/s";
  return /(^|\.)bytes|Bytes/.test(figure) ? "B" : "";
}

/** `latencyPs.median` without its unit: `latency.median`. */
export function shortName(figure: string): string {
  return figure.replace(/Ps(?=\.|$)/g, "").replace(/(BytesPerSecond|PerSecond|Bps)$/, "");
}

const LABELS: Readonly<Record<string, string>> = {
  "latencyPs.median": "Median latency",
  "latencyPs.p99": "Latency, 99th percentile",
  "latencyPs.max": "Longest latency",
  typicalPs: "Typical latency",
  meanPs: "Mean latency",
  throughputBps: "Throughput",
  virtualPs: "Virtual time",
  averageBytesPerSecond: "Average bandwidth",
  messagesPerSecond: "Messages",
  dmaReadsPerDoorbell: "DMA reads for a doorbell",
};

/** `Median latency`, `Packets per message`: for people. */
export function labelOfFigure(figure: string): string {
  const words = LABELS[figure] ??
    shortName(figure).replaceAll(".", ", ").replace(
      /([a-z])([A-Z])/g,
      (_, x, y) => `${x} ${y.toLowerCase()}`,
    );
  return words.replace(/^./, (letter) => letter.toUpperCase());
}

const LEADING: readonly string[] = [
  "meanPs",
  "latencyPs.median",
  "latencyPs.p99",
  "throughputBps",
  "typicalPs",
  "p99Ps",
  "averageBytesPerSecond",
  "messagesPerSecond",
  "requestsPerMessage",
  "packetsPerMessage",
  "bytesPerMessage",
  "cpuPs.requester",
  "cpuPs.responder",
];

const OTHERS_SHOWN = 6;

/** For a table of these points; a picture shows the first. */
export function leadingOf(points: readonly ReportPoint[]): string[] {
  const known = namesOf(points), isBulk = points[0]?.keys["program"] === "bulk";
  const leading = LEADING.filter((name) => known.includes(name));
  if (leading.length === 0) return known.slice(0, OTHERS_SHOWN);
  return isBulk && known.includes("throughputBps")
    ? ["throughputBps", ...leading.filter((name) => name !== "throughputBps")]
    : leading;
}

function namesOf(points: readonly ReportPoint[]): string[] {
  return [...new Set(points.flatMap(({ figures }) => Object.keys(figures)))];
}

/**
 * By its path, with or without the units, or the end of the path where it is the only one.
 * @throws Refusal with the candidates.
 */
export function figureNamed(name: string, points: readonly ReportPoint[]): string {
  const known = namesOf(points);
  if (known.includes(name)) return name;
  const isMeant = (figure: string) =>
    [figure, shortName(figure)].some((each) => `.${each}`.endsWith(`.${name}`));
  const found = known.filter(isMeant);
  const exact = found.filter((figure) => shortName(figure) === name);
  const meant = exact.length > 0 ? exact : found;
  if (meant.length === 1) return meant[0]!;
  const words = (meant.length > 0 ? meant : known).map(shortName);
  throw refusal((named) => named("y"), {
    found: JSON.stringify(name),
    expected: oneOf(words, name),
  });
}

export function figureText(figure: string, value: number): string {
  switch (unitOf(figure)) {
    case "ps":
      return formatTime(value);
    case "b/s":
      return `${(value / 1e9).toFixed(2)} Gb/s`;
    case "B/s":
      return `${(value / 2 ** 20).toFixed(2)} MiB/s`;
    default:
      return String(Number(value.toFixed(3)));
  }
}
