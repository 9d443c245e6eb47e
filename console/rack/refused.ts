/**
 * Processes count messages that are malformed or not the sender's to say, the broker those that its
 * user may not publish or receive.
 */
import type { RefusedMessages } from "../../fabric/bus/refusals.ts";
import { parseSubject, type RackSubject } from "../../fabric/bus/subjects.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { textIfThere } from "../base/files.ts";
import { countOf } from "../checks/finding.ts";

export interface Refused extends RefusedMessages {
  readonly of: string;
}

const BROKER = "nats-server";

function violationIn(line: string): Refused | undefined {
  const found = /(?:Publish|Subscription) Violation - User "([^"]*)".*, Subject "([^"]*)"/.exec(
    line,
  );
  return found === null
    ? undefined
    : { by: BROKER, of: plainName(found[1]!), subject: found[2]!, count: 1 };
}

/** By the broker's log. */
export function violationsOf(logFile: string): Refused[] {
  const lines = (textIfThere(logFile) ?? "").split("\n");
  return summed(lines.map(violationIn).filter((row) => row !== undefined));
}

/**
 * The refusals of processes, in all their lives.
 * @param known to the timekeeper, which receives them at intervals.
 * @param finals final reports.
 */
export function refusedByProcesses(
  known: readonly RefusedMessages[],
  finals: readonly FinalReply[] = [],
): Refused[] {
  const rows = new Map<string, Refused>();
  const knownRows = summed(known.map((row) => ({ ...row, of: senderOf(row.subject) })));
  const finalRows = finals.flatMap(({ partition, refusedOn }) =>
    refusedOn.map(([subject, count]) => ({
      by: partition,
      of: senderOf(subject),
      subject,
      count,
    }))
  );
  // A final report is of the last life alone; the timekeeper knows earlier ones as well.
  for (const row of [...knownRows, ...finalRows]) {
    const other = rows.get(keyOf(row));
    if (other === undefined || other.count < row.count) rows.set(keyOf(row), row);
  }
  return [...rows.values()].map((row) => ({ ...row, by: plainName(row.by) }));
}

/** `b refused 3 messages on rack.r.wire.b-rnic.b, sent as b-rnic`. */
export function refusedText(refused: readonly Refused[]): string[] {
  return refused.map(({ by, of, subject, count }) =>
    `${by} refused ${countOf(count, "message")} on ${subject}, sent as ${of}: ${
      by === BROKER ? `${of} has no right to it` : `malformed, or not ${of}'s to say`
    }`
  );
}

function summed(rows: readonly Refused[]): Refused[] {
  const groups = Map.groupBy(rows, keyOf);
  return [...groups.values()].map((group) => ({
    ...group[0]!,
    count: group.reduce((sum, { count }) => sum + count, 0),
  }));
}

function keyOf({ by, of, subject }: Refused): string {
  return `${by} ${of} ${subject}`;
}

function senderOf(subject: string): string {
  const name = parseSubject(subject);
  return name === undefined ? "a stranger" : senderIn(name);
}

function senderIn(name: RackSubject): string {
  switch (name.kind) {
    case "wire":
      return name.from;
    case "again":
      return name.asker;
    case "clock.join":
    case "clock.alive":
    case "clock.report":
      return name.partition;
    case "trace":
    case "report":
      return name.node;
    case "answer":
      return name.by;
    case "clock.grant":
    case "clock.order":
    case "clock.ask":
      return "timekeeper";
    case "control":
      return "a command";
  }
}

function plainName(user: string): string {
  return user.replace(/^_/, "");
}
