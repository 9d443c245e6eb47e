import { columnsOf, type Latencies, latencyColumns, tableText } from "./table.ts";
import type { RunReport } from "./method_report.ts";

type ProgramResult = RunReport["results"][number];

/** Times in ps. */
interface AppendResult {
  readonly to: string;
  readonly update: string;
  readonly depth: number;
  readonly records: number;
  /**
   * Appends reported durable; `claimed`: confirmed at all, also by a method that promises nothing.
   */
  readonly told: number;
  readonly claimed: number;
  readonly latencyPs?: Latencies;
  readonly status: string;
  readonly error?: string;
}

/** Times in ps. */
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

/** A table of the appends and one of the clients of replicated logs; an empty one is left out. */
export function logTables(results: readonly ProgramResult[]): string[] {
  const appends = results.filter((each) => isOf(each, "append"));
  const logs = results.filter((each) => isOf(each, "log"));
  return [
    ...(appends.length > 0 ? [appendTable(appends)] : []),
    ...(logs.length > 0 ? [logTable(logs)] : []),
  ];
}

/** False: a program that failed before its first append has a line instead. */
export function isInLogTables(result: ProgramResult): boolean {
  return isOf(result, "append") || isOf(result, "log");
}

function isOf({ value }: ProgramResult, program: "append" | "log"): boolean {
  const { program: own, latencyPs } = Object(value) as Record<string, unknown>;
  return own === program && latencyPs !== undefined;
}

interface Row<Result> {
  readonly variant: string;
  readonly node: string;
  readonly value: Result;
}

function appendTable(rows: readonly ProgramResult[]): string {
  return tableText(
    columnsOf<Row<AppendResult>>(
      { title: "run", value: ({ variant }) => variant },
      { title: "from", value: ({ node }) => node },
      { title: "to", value: ({ value: { to } }) => to },
      { title: "update", value: ({ value: { update } }) => update },
      { title: "depth", value: ({ value: { depth } }) => depth },
      { title: "records", value: ({ value: { records } }) => records },
      {
        title: "told durable",
        value: ({ value: { told } }) => told,
        text: ({ value: { told, claimed } }) =>
          told === claimed ? `${told}` : `${told} (${claimed} claimed)`,
      },
      ...latencyColumns<Row<AppendResult>>(({ value: { latencyPs } }) => latencyPs),
      { title: "status", value: ({ value: { error, status } }) => error ?? status },
    ),
    rows as readonly Row<AppendResult>[],
  );
}

function logTable(rows: readonly ProgramResult[]): string {
  return tableText(
    columnsOf<Row<LogResult>>(
      { title: "run", value: ({ variant }) => variant },
      { title: "client", value: ({ node }) => node },
      { title: "log", value: ({ value: { name } }) => name },
      { title: "method", value: ({ value: { method } }) => method },
      {
        title: "quorum",
        value: ({ value: { quorum } }) => quorum,
        text: ({ value: { quorum, replicas } }) => `${quorum} of ${replicas.length}`,
      },
      {
        title: "durable",
        value: ({ value: { durable } }) => durable,
        text: ({ value: { durable = 0, records = 0 } }) => `${durable} of ${records}`,
      },
      { title: "found", value: ({ value: { recovered = 0 } }) => recovered },
      {
        title: "slots acked by",
        value: ({ value: { replicas } }) =>
          replicas.map(({ host, acked }) => `${host} ${acked}`).join(", "),
      },
      ...latencyColumns<Row<LogResult>>(({ value: { latencyPs } }) => latencyPs),
      { title: "status", value: ({ value: { error, status } }) => error ?? status },
    ),
    rows as readonly Row<LogResult>[],
  );
}
