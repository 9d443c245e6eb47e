/** The report on a run, as text. */
import { NATIVE_NOTE, unseenText } from "./native_report.ts";
import { formatTime } from "../../fabric/base/time.ts";
import { countOf } from "../checks/finding.ts";
import { congestionTable } from "./congestion_report.ts";
import { deviceFaultTable } from "./device_fault_report.ts";
import { faultTable } from "./fault_report.ts";
import { hintTable } from "./hint_report.ts";
import { leadTable } from "./lead_report.ts";
import { queueTable } from "./queue_report.ts";
import { sharedTables } from "./shared_report.ts";
import { programText } from "./program_report.ts";
import { refusedText } from "../rack/refused.ts";
import { reportTable, type RunReport } from "./method_report.ts";
import { verifiedTable } from "./verified_report.ts";

/** Results of programs and effects of faults: tables, and a line for each failure. */
export function figuresText(report: RunReport): string[] {
  const {
    methods,
    congestion,
    faults,
    deviceFaults,
    queues = [],
    hints = [],
    hintLeads = [],
    shared,
    results,
  } = report;
  return [
    ...(methods.length > 0 ? [reportTable(methods)] : []),
    ...methods.filter(({ error }) => error !== null).map(
      ({ error, method, ddio, confirmed, messages }) =>
        `${method}, ddio ${ddio}: ${error}; ${confirmed} of ${messages} messages confirmed`,
    ),
    ...(congestion.length > 0 ? [congestionTable(congestion)] : []),
    ...(faults.length > 0 ? [faultTable(faults)] : []),
    ...(deviceFaults.length > 0 ? [deviceFaultTable(deviceFaults)] : []),
    ...(methods.some(({ verified }) => verified !== undefined) ? [verifiedTable(methods)] : []),
    ...(queues.length > 0 ? [queueTable(queues)] : []),
    ...(hints.length > 0 ? [hintTable(hints)] : []),
    ...(hintLeads.length > 0 ? [leadTable(hintLeads)] : []),
    ...(shared ? sharedTables(shared) : []),
    ...programText(results),
  ];
}

/**
 * Lines of checks, variants that did nothing, warnings, refused messages, and reasons why the run
 * cannot be replayed.
 */
export function checksText(
  { checks, natives = [], warnings = [], refused, inexact = [], unchecked = [] }: RunReport,
): string[] {
  return [
    ...checks.map(({ name, holds, detail, looked }) =>
      `${holds ? "ok  " : "FAIL"} ${name}${holds ? lookedText(looked) : `: ${detail}`}`
    ),
    ...unchecked.map(({ variant, why }) => `unchecked ${variant}: ${why}`),
    ...(natives.length > 0 ? [`note ${NATIVE_NOTE}`] : []),
    ...natives.flatMap((row) => {
      const unseen = unseenText(row);
      return unseen === undefined
        ? []
        : [`note ${row.variant}, ${row.node}, ${row.program}: ${unseen}`];
    }),
    ...warnings.map(({ node, variant, text }) => `note ${variant}, ${node}: ${text}`),
    ...refusedText(refused).map((text) => `note ${text}`),
    ...inexact.map(({ variant, why }) => `note ${variant} cannot be replayed exactly: ${why}`),
  ];
}

/** All that `rack run` prints. @param how.paint may colour a line of the checks. */
export function runText(
  report: RunReport,
  { paint = (text) => text, isTraced = false }: {
    readonly paint?: (text: string) => string;
    readonly isTraced?: boolean;
  } = {},
): string[] {
  const { captures = [], run, digest, seed, directory } = report;
  return [
    ...figuresText(report),
    ...checksText(report).map((text) => paint(text)),
    effortText(report),
    ...captures.map((path) => `capture ${path}`),
    ...(isTraced ? [`traced: rack trace --run ${run} shows an operation step by step`] : []),
    `digest ${digest}, seed ${seed}, kept in ${directory}`,
  ];
}

export function effortText({ virtualPs, wallMs, processes, events }: RunReport): string {
  return `${formatTime(virtualPs)} of virtual time in ${(wallMs / 1_000).toFixed(2)} s, ` +
    `${countOf(processes, "process", "processes")}, ${countOf(events, "event")}`;
}

function lookedText([first, ...more]: readonly string[]): string {
  if (first === undefined) return "";
  return more.length === 0 ? ` (${first})` : ` (${first}; ${countOf(more.length, "more variant")})`;
}
