/**
 * Progress: when a rack has been healed, whoever was not cut off himself comes to an end. What that
 * means for a scenario is told by the same rack, undisturbed: whoever reported a result there, does so here.
 */
import type { TimedNote } from "../../fabric/audit.ts";
import type { FinalReply } from "../../fabric/rack/build/run_file.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import type { Evidence } from "./round_outcome.ts";
import { isOwnProgram } from "../../fabric/rack/scenario/parse_scenario.ts";
import type { Life } from "../checks/lives.ts";

/** The same rack, undisturbed. */
export interface Reference {
  /** Host → results that its programs reported. */
  readonly results: ReadonlyMap<string, number>;
  /** From when on programs were at work, and when the last of them was done. */
  readonly from: Time;
  readonly length: Time;
  /** From the first write to the last word about one; all of the above where nobody speaks of writes. */
  readonly busy: Stretch;
}

/** A stretch of virtual time. */
export interface Stretch {
  readonly from: Time;
  readonly to: Time;
}

/** What a finding of chaos says. */
export interface ChaosFinding {
  readonly check: string;
  readonly text: string;
}

export function referenceOf(of: {
  readonly finals: readonly FinalReply[];
  readonly virtualPs: Time;
  readonly record?: { readonly notes: readonly TimedNote[] };
}): Reference {
  const results = new Map<string, number>();
  let from = Infinity, length = 0;
  for (const { time, node, topic, value } of of.finals.flatMap(({ reports }) => reports)) {
    if (topic !== "result") continue;
    results.set(node, (results.get(node) ?? 0) + 1);
    length = Math.max(length, time);
    const { startPs } = (value ?? {}) as { startPs?: unknown };
    if (typeof startPs === "number") from = Math.min(from, startPs);
  }
  // Where nobody says when it was done, all of the run is it.
  if (length === 0) length = of.virtualPs;
  if (from >= length) from = 0;
  return { results, from, length, busy: busyIn(of.record?.notes ?? []) ?? { from, to: length } };
}

function busyIn(notes: readonly TimedNote[]): Stretch | undefined {
  const first = notes.find(({ note }) => note.kind === "writes");
  const last = notes.findLast(({ note }) => note.kind === "visible" || note.kind === "persistent");
  return first && last && { from: first.time, to: last.time };
}

/** Who did not come to an end, and which shipped program failed in a way that it should not. */
export function progressFindings(evidence: Evidence, reference: Reference): ChaosFinding[] {
  return [
    ...[...reference.results].flatMap(([host, count]) => whoIsMissing(evidence, { host, count })),
    ...evidence.finals.flatMap(({ reports }) =>
      reports.flatMap((report) => {
        const text = failureOf(report) ?? logFailureOf(report, evidence);
        return text ?? [];
      })
    ),
  ];
}

type Report = FinalReply["reports"][number];

/** A host's programs start at its first boot only, unless they are to start again at every one. */
function whoIsMissing(
  evidence: Evidence,
  undisturbed: { readonly host: string; readonly count: number },
): ChaosFinding[] {
  const { plan, finals, record } = evidence;
  const { host, count } = undisturbed;
  const lives = record.lives.get(host) ?? [];
  if (lives.at(-1)?.to !== Infinity) return [];
  // Killed when all was over, with what it had to report: of that there is no record.
  if (deathsOf(evidence, host) > lives.length - 1) return [];
  const cards = cardsOf(evidence, host);
  // Nobody gave it power again before all was over: who needs it waits.
  if (cards.some((own) => own.at(-1)?.to !== Infinity)) return [];
  const node = plan.nodes.find(({ name }) => name === host);
  const programs = node?.kind === "host" ? node.config.programs : [];
  const restarted = programs.filter(({ run, service }) => service && run === "log").length;
  // What a user's program does about a card that has failed under it is the user's affair.
  const excused = cards.some((own) => own.length > 1)
    ? programs.filter(({ run }) => isOwnProgram(run)).length
    : 0;
  const expected = lives.length > 1 ? Math.min(count, restarted) : count - excused;
  const reported =
    finals.flatMap(({ reports }) => reports).filter(({ node, topic }) =>
      node === host && (topic === "result" || topic === "program-failed")
    ).length;
  if (reported >= expected) return [];
  const text = `${host} reported ${reported} results, undisturbed ${expected}`;
  return [{ check: "makes-progress", text }];
}

/** The lives of each of a host's cards. */
function cardsOf({ plan, record }: Evidence, host: string): (readonly Life[])[] {
  return plan.nodes.flatMap((node) =>
    node.kind === "rnic" && node.config.host === host ? [record.lives.get(node.name) ?? []] : []
  );
}

/** How often a process of this host was seen to end; its partition has its name. */
function deathsOf({ events }: Evidence, host: string): number {
  return events.filter((event) => event.kind === "died" && event.name === host).length;
}

function failureOf({ node, topic, value }: Report): ChaosFinding | undefined {
  const { program, message } = (value ?? {}) as Record<string, unknown>;
  if (topic !== "program-failed") return undefined;
  // A user's own programs may be cut off in any way they like.
  if (isOwnProgram(String(program).replace(/#\d+$/, ""))) return undefined;
  return { check: "programs-run-through", text: `${node}: ${program}: ${message}` };
}

/** A replicated log's client gives up where no quorum has answered for so long, unless told otherwise. */
const PATIENCE_US = 100_000;

/** A log is there to go on when others fail: it may not give up where all of its rack was well. */
function logFailureOf({ node, time, topic, value }: Report, evidence: Evidence) {
  const { program, status, error } = (value ?? {}) as Record<string, unknown>;
  if (topic !== "result" || program !== "log" || status === "done") return undefined;
  const host = evidence.plan.nodes.find(({ name }) => name === node);
  const programs = host?.kind === "host" ? host.config.programs : [];
  const us = programs.filter(({ run }) => run === "log").map(({ options }) => {
    const { patienceUs } = options;
    return typeof patienceUs === "number" ? patienceUs : PATIENCE_US;
  });
  const from = time - Math.max(...us) * PS_PER_US;
  if (!isWellBetween(evidence, from, time)) return undefined;
  return { check: "makes-progress", text: `${node}: log: ${error}, though all was well` };
}

/** Whether everybody had power and no cable did wrong in this stretch of time. */
export function isWellBetween({ record }: Pick<Evidence, "record">, from: Time, to: Time): boolean {
  const { plan, lives } = record;
  const hasPower = plan.nodes.every(({ name }) =>
    lives.get(name)?.some((life) => life.from <= from && life.to > to) ?? false
  );
  const { linkFaults = [] } = plan;
  const isHealed = (cable: number, after: Time) =>
    linkFaults.some((each) =>
      each.action === "heal" && each.cable === cable && each.direction === "both" &&
      each.at > after && each.at <= from
    );
  return hasPower &&
    linkFaults.every(({ action, cable, at, until = Infinity }) =>
      action === "heal" || at > to || until <= from || isHealed(cable, at)
    );
}
