/** What programs other than `put` have reported, and how they failed, for people. */
import { formatTime } from "../../fabric/base/time.ts";
import { plainly, table } from "../base/output.ts";
import { isInLogTables, logTables } from "./log_report.ts";
import type { RunReport } from "./report.ts";

type ProgramResult = RunReport["results"][number];

/** What `bulk` reports, as far as the table has it: rates in bit/s, times in ps. */
interface BulkResult {
  readonly program: "bulk";
  readonly status: string;
  readonly to: string;
  readonly messageBytes: number;
  readonly depth: number;
  readonly messages: number;
  readonly throughputBps: number;
  readonly partsBps: readonly number[];
  readonly latencyPs?: { readonly median: number; readonly p99: number; readonly max: number };
}

interface BulkRow extends Omit<ProgramResult, "value"> {
  readonly value: BulkResult;
}

/** Tables of the bulk transfers and of the logs, then a line or a few for each other program. */
export function programText(results: readonly ProgramResult[]): string[] {
  const bulk = results.filter(isBulk).toSorted((x, y) => order(x) < order(y) ? -1 : 1);
  const others = results.filter((result) => !isBulk(result) && !isInLogTables(result));
  const tables = [...(bulk.length > 0 ? [bulkTable(bulk)] : []), ...logTables(results)];
  return [...tables, ...others.map(lineOf)];
}

function isBulk(result: ProgramResult): result is BulkRow {
  const { program, throughputBps } = Object(result.value) as Partial<BulkResult>;
  return program === "bulk" && throughputBps !== undefined;
}

/** By variant, then as it began: hosts of a name in the order of their numbers. */
function order({ variant, node, value }: BulkRow): string {
  const numbered = node.replace(/\d+/g, (digits) => digits.padStart(6, "0"));
  return `${variant} ${numbered} ${value.to}`;
}

function bulkTable(rows: readonly BulkRow[]): string {
  const hasVariants = new Set(rows.map(({ variant }) => variant)).size > 1;
  return table(
    [
      ...(hasVariants ? ["run"] : []),
      "from",
      "to",
      "size",
      "depth",
      "messages",
      "Gb/s",
      "slowest 10th",
      "fastest 10th",
      "median",
      "p99",
      "max",
      "status",
    ],
    rows.map(({ variant, node, value }) => [
      ...(hasVariants ? [variant] : []),
      node,
      value.to,
      String(value.messageBytes),
      String(value.depth),
      String(value.messages),
      rate(value.throughputBps),
      rate(Math.min(...value.partsBps)),
      rate(Math.max(...value.partsBps)),
      ...times(value.latencyPs),
      value.status,
    ]),
  );
}

const rate = (bps: number) => (bps / 1e9).toFixed(2);

function times(latency: BulkResult["latencyPs"]): string[] {
  if (latency === undefined) return ["", "", ""];
  return [latency.median, latency.p99, latency.max].map(formatTime);
}

/** A failure as its message with the program's own part of the stack; any other result as JSON. */
function lineOf({ variant, node, value }: ProgramResult): string {
  const { message, stack } = Object(value) as { message?: unknown; stack?: unknown };
  if (typeof message !== "string" || typeof stack !== "string") {
    return `${variant}: ${node}: ${JSON.stringify(value, plainly)}`;
  }
  return `${variant}: ${node}: ${[message, ...programFrames(stack)].join("\n")}`;
}

/** The program's own frames: between what it called of ours, if that is what threw, and what called it. */
function programFrames(stack: string): string[] {
  const frames = stack.split("\n").filter((line) => /^\s+at /.test(line));
  const isOurs = (line: string) => /\/nodes\/host\/|<anonymous>/.test(line);
  const own = frames.slice(Math.max(0, frames.findIndex((line) => !isOurs(line))));
  const end = own.findIndex(isOurs);
  return (end === -1 ? own : own.slice(0, end)).map((line) => `    ${line.trim()}`);
}
