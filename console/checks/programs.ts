import { formatTime } from "../../fabric/base/time.ts";
import type { UnfinishedProgram } from "../../fabric/node.ts";
import type { Finding } from "./finding.ts";
import type { ReportSeen } from "./run_record.ts";

type Report = Pick<ReportSeen, "node" | "time" | "topic" | "value">;

/** Programs that did not run through, each with its node and why. */
export function failuresOf(reports: readonly Report[]): Finding[] {
  return reports.flatMap(({ node, time, topic, value }) => {
    const why = failureOf(topic, value);
    return why === undefined ? [] : [{ text: `${node}: ${why}`, at: { node, time } }];
  });
}

/** A result with its progress, after a fault of the rack, is no failure. */
function failureOf(topic: string, value: unknown): string | undefined {
  const { program, object, message, status, error, reason, refused } = Object(value) as Record<
    string,
    unknown
  >;
  if (topic === "program-failed") return String(message);
  if (topic === "unfinished") return unfinishedText(value as UnfinishedProgram);
  const hasBegun = (program === "put" || program === "append") && object !== undefined;
  if (topic !== "result") return undefined;
  if (typeof refused === "string") return `its connection was refused: ${refused}: ${reason}`;
  const neverBegan = status === "failed" && !hasBegun;
  return neverBegan ? String(error ?? reason ?? "it says that it failed, and not why") : undefined;
}

/** Undefined for a program that serves: it goes on as long as its host has power. */
function unfinishedText(left: UnfinishedProgram): string | undefined {
  return left.serves ? undefined : `${left.program} has not ended: it ${waitText(left)}`;
}

/** `waits for a completion (waitCompletion) since 5 us, at mine.ts:41:12`. */
export function waitText({ waitsFor, since, at }: UnfinishedProgram): string {
  const line = at === undefined ? "" : `, at ${at}`;
  return `waits for ${waitsFor} since ${formatTime(since)}${line}`;
}
