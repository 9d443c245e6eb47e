import { plainly } from "./json.ts";
import { type Column, columnsOf, type Latencies, latencyColumns, tableText } from "./table.ts";
import { isInLogTables, logTables } from "./log_report.ts";
import { isInHintTable } from "./hint_report.ts";
import { isInQueueTable } from "./queue_report.ts";
import { isInSharedTable } from "./shared_report.ts";
import type { RunReport } from "./method_report.ts";

type ProgramResult = RunReport["results"][number];

/** Rates in bit/s, times in ps. */
interface BulkResult {
  readonly program: "bulk";
  readonly status: string;
  readonly to: string;
  readonly messageBytes: number;
  readonly depth: number;
  readonly weight?: number;
  readonly messages: number;
  readonly throughputBps: number;
  readonly partsBps: readonly number[];
  readonly latencyPs?: Latencies;
}

interface BulkRow extends Omit<ProgramResult, "value"> {
  readonly value: BulkResult;
}

/** Tables of the bulk transfers and of the logs, then a line or a few for each other program. */
export function programText(results: readonly ProgramResult[]): string[] {
  const bulk = results.filter(isBulk).toSorted((x, y) => order(x) < order(y) ? -1 : 1);
  const others = results.filter((result) =>
    !isBulk(result) && !isInLogTables(result) && !isInQueueTable(result) &&
    !isInHintTable(result) && !isInSharedTable(result)
  );
  const tables = [...(bulk.length > 0 ? [bulkTable(bulk)] : []), ...logTables(results)];
  return [...tables, ...others.map(lineOf)];
}

function isBulk(result: ProgramResult): result is BulkRow {
  const { program, throughputBps } = Object(result.value) as Partial<BulkResult>;
  return program === "bulk" && throughputBps !== undefined;
}

function order({ variant, node, value }: BulkRow): string {
  const numbered = node.replace(/\d+/g, (digits) => digits.padStart(6, "0"));
  return `${variant} ${numbered} ${value.to}`;
}

function bulkTable(rows: readonly BulkRow[]): string {
  const hasVariants = new Set(rows.map(({ variant }) => variant)).size > 1;
  const isWeighted = rows.some(({ value }) => value.weight !== undefined);
  return tableText(
    columnsOf<BulkRow>(
      hasVariants && { title: "run", value: ({ variant }) => variant },
      { title: "from", value: ({ node }) => node },
      { title: "to", value: ({ value }) => value.to },
      { title: "size", value: ({ value }) => value.messageBytes },
      { title: "depth", value: ({ value }) => value.depth },
      { title: "messages", value: ({ value }) => value.messages },
      rateColumn("Gb/s", ({ value }) => value.throughputBps),
      ...(isWeighted ? shareColumns(rows) : []),
      rateColumn("slowest 10th", ({ value }) => Math.min(...value.partsBps)),
      rateColumn("fastest 10th", ({ value }) => Math.max(...value.partsBps)),
      ...latencyColumns<BulkRow>(({ value }) => value.latencyPs),
      { title: "status", value: ({ value }) => value.status },
    ),
    rows,
  );
}

/**
 * Of all bytes that their host's transfers sent within their time: the rest goes out when others
 * have ended.
 */
function shareColumns(rows: readonly BulkRow[]): Column<BulkRow>[] {
  const sent = ({ value }: BulkRow) => value.partsBps.reduce((sum, part) => sum + part, 0);
  const share = (row: BulkRow) => {
    const beside = rows.filter(({ node, variant }) => node === row.node && variant === row.variant);
    return sent(row) / beside.reduce((sum, each) => sum + sent(each), 0);
  };
  return [
    { title: "weight", value: ({ value }) => value.weight ?? 1 },
    { title: "share", value: share, text: (row) => `${(100 * share(row)).toFixed(1)} %` },
  ];
}

function rateColumn(title: string, value: (row: BulkRow) => number): Column<BulkRow> {
  return { title, value, text: (row) => (value(row) / 1e9).toFixed(2) };
}

function lineOf({ variant, node, value }: ProgramResult): string {
  const { message, stack } = Object(value) as { message?: unknown; stack?: unknown };
  if (typeof message !== "string" || typeof stack !== "string") {
    return `${variant}: ${node}: ${JSON.stringify(value, plainly)}`;
  }
  return `${variant}: ${node}: ${[message, ...programFrames(stack)].join("\n")}`;
}

/**
 * Without the project's frames above (callees) and below (callers), and without what stands between
 * a generator and the one that calls it by `yield*`: the engine's `next`, and what the bundle has
 * around it.
 */
export function programFrames(stack: string): string[] {
  const frames = stack.split("\n").filter((line) =>
    /^\s+at /.test(line) && !/<anonymous>|\(data:/.test(line)
  );
  const isOurs = (line: string) => line.includes("/nodes/host/");
  const own = frames.slice(Math.max(0, frames.findIndex((line) => !isOurs(line))));
  const end = own.findIndex(isOurs);
  return (end === -1 ? own : own.slice(0, end)).map((line) => `    ${line.trim()}`);
}
