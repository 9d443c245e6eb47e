/** What programs have come to by an instant of a run: their state, what they reported and logged. */
import { LOG_TOPIC, type LogLine } from "../../nodes/host/cpu/log_text.ts";
import { RESERVED_TOPICS } from "../../nodes/host/cpu/report_data.ts";
import type { Time } from "../../fabric/base/time.ts";
import type { ReportSeen } from "../checks/run_record.ts";
import { programFrames } from "../reports/program_report.ts";
import type { ProgramProgress, ProgramReport, Programs, ProgramState } from "../api/replay.ts";
import { countBefore } from "./log_arrays.ts";
import { textOfValue } from "./event_rows.ts";

const ROWS_MOST = 200, TEXT_MOST = 16_384;

const ENDS = { "program-ended": "ended", "program-failed": "failed", "program-stopped": "stopped" };

/**
 * @param reports of the whole run, in the order of time.
 * @param options.at exclusive.
 * @param options.waiting programs that have not ended at that instant.
 */
export function programsAt(
  reports: readonly ReportSeen[],
  { at, host, waiting }: {
    readonly at: Time;
    readonly host: string | undefined;
    /** Undefined: not looked up. */
    readonly waiting: readonly ProgramState[] | undefined;
  },
): Programs {
  const isMeant = (node: string) => host === undefined || node === host;
  const before = reports.slice(0, countBefore(reports, at)).filter(({ node }) => isMeant(node));
  // A host that has had its power back numbers its programs anew: the latest counts.
  const rows = new Map<string, ProgramProgress>();
  const put = (row: ProgramProgress) => rows.set(`${row.host} ${row.program}`, row);
  for (const report of before) {
    if (Object.hasOwn(ENDS, report.topic)) put(endOf(report));
  }
  for (const { host, program, serves, waitsFor, since, at: line, order } of waiting ?? []) {
    if (!isMeant(host)) continue;
    put({
      ...{ host, program, state: serves ? "serves" : "waits", since, text: waitsFor },
      ...(line !== undefined && { line }),
      ...(order !== undefined && { order }),
    });
  }
  const told = before.filter(({ topic }) => !RESERVED_TOPICS.includes(topic));
  const lines = before.filter(({ topic }) => topic === LOG_TOPIC);
  return {
    at,
    programs: [...rows.values()].sort((x, y) =>
      Number(x.state === "serves") - Number(y.state === "serves") ||
      (x.host < y.host ? -1 : x.host > y.host ? 1 : 0)
    ),
    isWhole: waiting !== undefined,
    reports: told.slice(-ROWS_MOST).map(reportRow),
    moreReports: Math.max(0, told.length - ROWS_MOST),
    log: lines.slice(-ROWS_MOST).map(({ node, value }) => {
      const { program, at, text } = value as LogLine;
      return { at, host: node, program, text };
    }),
    moreLog: Math.max(0, lines.length - ROWS_MOST),
  };
}

/**
 * Those programs with how far they have last said that they are. A report that names no program, or
 * one of which the host has several, belongs to the only one at work.
 */
export function withProgress(
  programs: readonly ProgramState[],
  progress: readonly ReportSeen[],
): ProgramState[] {
  const last = new Map<string, NonNullable<ProgramState["progress"]>>();
  for (const { node, value } of progress) {
    const { program = "", written, messages } = Object(value) as {
      readonly program?: string;
      readonly written?: number;
      readonly messages?: number;
    };
    if (written === undefined || messages === undefined) continue;
    last.set(`${node} ${program}`, { done: written, of: messages });
  }
  return programs.map((each) => {
    const { host, program, serves } = each, [name = ""] = program.split("#");
    const atWork = programs.filter((other) => other.host === host && !other.serves);
    const alike = atWork.filter((other) => other.program.split("#")[0] === name);
    const found = (alike.length === 1 ? last.get(`${host} ${name}`) : undefined) ??
      (atWork.length === 1 ? last.get(`${host} `) : undefined);
    return serves || found === undefined ? each : { ...each, progress: found };
  });
}

function endOf({ time, node, topic, value }: ReportSeen): ProgramProgress {
  const { program, message = "", stack = "", order } = value as {
    readonly program: string;
    readonly message?: string;
    readonly stack?: string;
    readonly order?: number;
  };
  const frames = programFrames(stack);
  // The innermost frame of the program's own file, without its folder.
  const [, line] = /([^/\s()]+:\d+:\d+)\)?$/.exec(frames[0] ?? "") ?? [];
  return {
    host: node,
    program,
    state: ENDS[topic as keyof typeof ENDS] as ProgramProgress["state"],
    since: time,
    text: message,
    ...(line !== undefined && { line }),
    ...(frames.length > 0 && { stack: frames.join("\n") }),
    ...(order !== undefined && { order }),
  };
}

function reportRow({ time: at, node: host, topic, value }: ReportSeen): ProgramReport {
  const text = textOfValue(value, TEXT_MOST);
  return { at, host, topic, text, isCut: text.length > TEXT_MOST };
}
