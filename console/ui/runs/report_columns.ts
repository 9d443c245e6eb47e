/**
 * The tables of queues and hints (H-30) of a report, with the columns that `rack run`
 * prints.
 */
import { PS_PER_NS } from "../../../fabric/base/time.ts";
import type { Report } from "../../api/report.ts";
import { bitRate, count, roughTime } from "../figures.ts";

export type QueueRow = NonNullable<Report["queues"]>[number];
export type HintRow = NonNullable<Report["hints"]>[number];
export type LeadRow = NonNullable<Report["hintLeads"]>[number];
type Value = number | string | null;

export interface ReportColumn<Row> {
  readonly name: string;
  /** Of a file, which says its unit: `wait ns`. */
  readonly head: string;
  /** In base units: ps, bit/s. */
  readonly raw: (row: Row) => Value;
  /** In the unit of `head`. */
  readonly cell: (row: Row) => Value;
  /** For people; "": none. */
  readonly text: (row: Row) => string;
  readonly isFigure: boolean;
}

type Draft<Row> = ReportColumn<Row> & { readonly isShown: (rows: readonly Row[]) => boolean };

function column<Row>(
  name: string,
  raw: (row: Row) => Value,
  format: ((value: number) => string) | undefined = undefined,
  isShown: Draft<Row>["isShown"] = (rows) => rows.some((row) => raw(row) !== null),
): Draft<Row> {
  const text = (row: Row) => {
    const value = raw(row);
    if (value === null) return "";
    return typeof value === "number" && format !== undefined ? format(value) : String(value);
  };
  const unit = UNITS.find(([of]) => of === format);
  return {
    name,
    head: unit === undefined ? name : `${name} ${unit[1]}`,
    raw,
    cell: (row) => {
      const value = raw(row);
      return typeof value === "number" && unit !== undefined ? value / unit[2] : value;
    },
    text,
    isFigure: format !== undefined,
    isShown,
  };
}

/** In a file: by how a figure is formatted for people, the unit, and its size in base units. */
const UNITS = [[roughTime, "ns", PS_PER_NS], [bitRate, "bit/s", 1]] as const;

function differing<Row>(name: string, raw: (row: Row) => string): Draft<Row> {
  return column(name, raw, undefined, (rows) => new Set(rows.map(raw)).size > 1);
}

function counted<Row>(
  name: string,
  raw: (row: Row) => number | null,
  format: (value: number) => string,
): Draft<Row> {
  return column(name, raw, format, (rows) => rows.some((row) => (raw(row) ?? 0) !== 0));
}

const ratio = (value: number) => value.toFixed(2);

const QUEUES: readonly Draft<QueueRow>[] = [
  differing("run", ({ variant }) => variant),
  column("card", ({ node }) => node),
  column("scheme", ({ scheme }) => scheme),
  column("placement", ({ placement }) => placement),
  differing("layout", ({ layout }) => layout),
  differing("store", ({ store }) => store),
  column("cache", ({ cache }) => cache),
  column("QPs", ({ qps }) => qps, count),
  column("doorbells", ({ doorbells }) => doorbells, count),
  column("reads each", ({ dmaReadsPerDoorbell }) => dmaReadsPerDoorbell, ratio),
  column("hits", ({ cacheHits }) => cacheHits, count),
  column("misses", ({ cacheMisses }) => cacheMisses, count),
  column("evictions", ({ cacheEvictions }) => cacheEvictions, count),
  column("stale", ({ stalePointers }) => stalePointers, count),
  column("B/queue", ({ queueBytes }) => queueBytes, count),
  column(
    "B/pointer",
    ({ pointerBytes }) => pointerBytes,
    count,
    (rows) => new Set(rows.map(({ pointerBytes }) => pointerBytes)).size > 1,
  ),
  column("M msg/s", ({ messagesPerSecond }) => messagesPerSecond, (rate) => ratio(rate / 1e6)),
  column("throughput", ({ throughputBps }) => throughputBps, bitRate),
  column("median", ({ latencyPs }) => latencyPs?.median ?? null, roughTime),
  column("p99", ({ latencyPs }) => latencyPs?.p99 ?? null, roughTime),
  column("max", ({ latencyPs }) => latencyPs?.max ?? null, roughTime),
];

const HINTS: readonly Draft<HintRow>[] = [
  differing("run", ({ variant }) => variant),
  column("card", ({ node }) => node),
  column("workload", ({ workload }) => workload),
  column("requests", ({ send }) => send),
  column("encoding", ({ encoding }) => encoding),
  column("by", ({ by }) => by),
  column("messages", ({ messages }) => messages, count),
  column("failed", ({ failed }) => failed, count),
  column("faults", ({ faults }) => faults, count),
  column("RNR", ({ rnrNaks }) => rnrNaks, count),
  column("misses", ({ misses }) => misses, count),
  column("median", ({ latencyPs }) => latencyPs?.median ?? null, roughTime),
  column("p99", ({ latencyPs }) => latencyPs?.p99 ?? null, roughTime),
  column("stall", ({ stallPs }) => stallPs, roughTime),
  counted("held", ({ heldPs }) => heldPs, roughTime),
  column("useful", ({ useful }) => useful, count),
  column("late", ({ late }) => late, count),
  column("wasted", ({ wasted }) => wasted, count),
  counted("late pages, first", ({ faultsFirst }) => faultsFirst, count),
  counted("later", ({ faultsBehindFirst }) => faultsBehindFirst, count),
  counted("late entries, first", ({ missesFirst }) => missesFirst, count),
  counted("later", ({ missesBehindFirst }) => missesBehindFirst, count),
  column("hints", ({ hints }) => hints, count),
  column("of the bytes", ({ overhead }) => overhead, (part) => `${(100 * part).toFixed(2)} %`),
];

const LEADS: readonly Draft<LeadRow>[] = [
  differing("run", ({ variant }) => variant),
  column("card", ({ node }) => node),
  column("hint ahead, from", ({ fromPs }) => fromPs, roughTime),
  column("to", ({ toPs }) => toPs, roughTime),
  column("useful", ({ useful }) => useful, count),
  column("late", ({ late }) => late, count),
  column("wasted", ({ wasted }) => wasted, count),
];

export function leadColumns(rows: readonly LeadRow[]): ReportColumn<LeadRow>[] {
  return LEADS.filter(({ isShown }) => isShown(rows));
}

export function queueColumns(rows: readonly QueueRow[]): ReportColumn<QueueRow>[] {
  return QUEUES.filter(({ isShown }) => isShown(rows));
}

export function hintColumns(rows: readonly HintRow[]): ReportColumn<HintRow>[] {
  return HINTS.filter(({ isShown }) => isShown(rows));
}
