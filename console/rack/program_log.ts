/**
 * Lines that programs log (`cpu.log`), in the order of virtual time: at once from a rack in one
 * process, at the end from a rack of processes, of which none knows how far the others are.
 */
import { LOG_TOPIC, type LogLine, logLineText } from "../../nodes/host/cpu/log_text.ts";
import type { ReportSeen } from "../checks/run_record.ts";

interface HostLine {
  readonly host: string;
  readonly line: LogLine;
}

export interface ProgramLog {
  hear(node: string, topic: string, value: unknown): void;
  /**
   * Passes on the lines held back.
   * @param reports all of the run, in order: the bus may lose messages; absent where the run has
   * failed.
   */
  end(reports?: readonly ReportSeen[]): void;
}

export function programLog(
  { isOrdered, say }: {
    /** Reports come in the order of virtual time. */
    readonly isOrdered: boolean;
    readonly say: (text: string) => void;
  },
): ProgramLog {
  let held: HostLine[] = [];
  return {
    hear(node, topic, value) {
      if (topic !== LOG_TOPIC) return;
      if (isOrdered) say(logLineText(node, value));
      else held.push({ host: node, line: value as LogLine });
    },
    end(reports) {
      if (isOrdered) return;
      const lines = reports === undefined ? held : reports
        .filter(({ topic }) => topic === LOG_TOPIC)
        .map(({ node, value }) => ({ host: node, line: value as LogLine }));
      held = [];
      // Stable: a host's lines of one instant stay as they are.
      const inOrder = lines.toSorted((x, y) =>
        x.line.at - y.line.at || (x.host < y.host ? -1 : x.host > y.host ? 1 : 0)
      );
      for (const { host, line } of inOrder) say(logLineText(host, line));
    },
  };
}
