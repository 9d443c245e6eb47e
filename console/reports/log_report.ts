/** What the programs `append` and `log` have reported, as tables for people. */
import { formatTime } from "../../fabric/base/time.ts";
import { table } from "../base/output.ts";
import type { RunReport } from "./report.ts";

type ProgramResult = RunReport["results"][number];

interface Latencies {
  readonly median: number;
  readonly p99: number;
  readonly max: number;
}

/** What `append` reports, as far as the table has it; times in ps. */
interface AppendResult {
  readonly to: string;
  readonly update: string;
  readonly depth: number;
  readonly records: number;
  /** So many were told durable; `claimed`: told at all, by a method that may promise nothing. */
  readonly told: number;
  readonly claimed: number;
  readonly latencyPs?: Latencies;
  readonly status: string;
  readonly error?: string;
}

/** What `log` reports, as far as the table has it; times in ps. */
interface LogResult {
  readonly name: string;
  readonly method: string;
  readonly quorum: number;
  readonly replicas: readonly { readonly host: string; readonly acked: number }[];
  readonly records?: number;
  readonly durable?: number;
  readonly recovered?: number;
  readonly latencyPs?: Latencies;
  readonly status: string;
  readonly error?: string;
}

/** A table of the appends, and one of the clients of replicated logs; those there are none of not. */
export function logTables(results: readonly ProgramResult[]): string[] {
  const appends = results.filter((each) => isOf(each, "append"));
  const logs = results.filter((each) => isOf(each, "log"));
  return [
    ...(appends.length > 0 ? [appendTable(appends)] : []),
    ...(logs.length > 0 ? [logTable(logs)] : []),
  ];
}

/** Whether it is a row of {@link logTables}: one that never began has little to say, and says it itself. */
export function isInLogTables(result: ProgramResult): boolean {
  return isOf(result, "append") || isOf(result, "log");
}

function isOf({ value }: ProgramResult, program: "append" | "log"): boolean {
  const { program: own, latencyPs } = Object(value) as Record<string, unknown>;
  return own === program && latencyPs !== undefined;
}

function appendTable(rows: readonly ProgramResult[]): string {
  return table(
    ["run", "from", "to", "update", "depth", "records", "told durable", ...TIMES, "status"],
    rows.map(({ variant, node, value }) => {
      const { to, update, depth, records, told, claimed, ...end } = value as AppendResult;
      const claims = told === claimed ? `${told}` : `${told} (${claimed} claimed)`;
      const own = [update, `${depth}`, `${records}`, claims];
      return [variant, node, to, ...own, ...times(end.latencyPs), end.error ?? end.status];
    }),
  );
}

function logTable(rows: readonly ProgramResult[]): string {
  return table(
    [
      "run",
      "client",
      "log",
      "method",
      "quorum",
      "durable",
      "found",
      "slots acked by",
      ...TIMES,
      "status",
    ],
    rows.map(({ variant, node, value }) => {
      const { name, method, quorum, replicas, records = 0, durable = 0, recovered = 0, ...end } =
        value as LogResult;
      const acked = replicas.map(({ host, acked }) => `${host} ${acked}`).join(", ");
      const own = [
        method,
        `${quorum} of ${replicas.length}`,
        `${durable} of ${records}`,
        `${recovered}`,
      ];
      return [variant, node, name, ...own, acked, ...times(end.latencyPs), end.error ?? end.status];
    }),
  );
}

const TIMES = ["median", "p99", "max"] as const;

function times(latency: Latencies | undefined): string[] {
  return TIMES.map((name) => latency === undefined ? "" : formatTime(latency[name]));
}
