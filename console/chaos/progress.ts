/**
 * When a rack has been healed, every program whose host kept its power comes to an end. An
 * undisturbed run of the same rack shows which programs report a result.
 */
import type { TimedRecord } from "../../fabric/audit.ts";
import { type FaultPlan, nativeIn } from "../../fabric/rack/plan/plan.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import type { Summary } from "../../fabric/clock/record.ts";
import type { SettledRecord } from "../../nodes/files.ts";
import { PS_PER_US, type Time } from "../../fabric/base/time.ts";
import { isOwnProgram } from "../../fabric/rack/scenario/parse_scenario.ts";
import { NATIVE_ENDED } from "../reports/native_report.ts";
import type { Life } from "../checks/lives.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { SupervisorEvent } from "../rack/supervisor.ts";
import type { Interval, RunTimes } from "./chaos_actions.ts";
import type { InjectedAction } from "./fault_injector.ts";

export interface RoundOutcome {
  readonly finals: readonly FinalReply[];
  readonly record: RunRecord;
  readonly faults: readonly FaultPlan[];
  readonly injected: readonly InjectedAction[];
  readonly events: readonly SupervisorEvent[];
  readonly summary: Summary | undefined;
  readonly settled: readonly SettledRecord[];
}

export interface Reference extends RunTimes {
  /** By host. */
  readonly results: ReadonlyMap<string, number>;
  /** Exit codes of native programs, by host and program. */
  readonly natives?: ReadonlyMap<string, number>;
}

export interface ChaosFinding {
  readonly check: string;
  readonly text: string;
}

export function referenceOf(of: {
  readonly finals: readonly FinalReply[];
  readonly virtualPs: Time;
  readonly record?: { readonly notes: readonly TimedRecord[] };
}): Reference {
  const results = new Map<string, number>();
  const natives = nativeEnds(of.finals);
  let from = Infinity, length = 0;
  for (const { time, node, topic, value } of of.finals.flatMap(({ reports }) => reports)) {
    if (topic !== "result") continue;
    results.set(node, (results.get(node) ?? 0) + 1);
    length = Math.max(length, time);
    const { startPs } = (value ?? {}) as { startPs?: unknown };
    if (typeof startPs === "number") from = Math.min(from, startPs);
  }
  // Without a result, all of the run counts.
  if (length === 0) length = of.virtualPs;
  if (from >= length) from = 0;
  const busy = busyIn(of.record?.notes ?? []) ?? { from, to: length };
  return { results, natives, from, length, busy };
}

function nativeEnds(finals: readonly FinalReply[]): Map<string, number> {
  const ends = new Map<string, number>();
  for (const { node, topic, value } of finals.flatMap(({ reports }) => reports)) {
    if (topic !== NATIVE_ENDED) continue;
    const { program, code } = value as { readonly program: string; readonly code: number };
    ends.set(`${node}: ${program}`, code);
  }
  return ends;
}

const BEGINS: ReadonlySet<string> = new Set(["writes", "access"]);
const ENDS: ReadonlySet<string> = new Set(["visible", "persistent", "accessed"]);

function busyIn(notes: readonly TimedRecord[]): Interval | undefined {
  const first = notes.find(({ note }) => BEGINS.has(note.kind));
  const last = notes.findLast(({ note }) => ENDS.has(note.kind));
  return first && last && { from: first.time, to: last.time };
}

/** Programs without an end, and failures that chaos does not excuse. */
export function progressFindings(round: RoundOutcome, reference: Reference): ChaosFinding[] {
  return [
    ...[...reference.results].flatMap(([host, count]) => missingResults(round, { host, count })),
    ...round.finals.flatMap(({ reports }) =>
      reports.flatMap((report) => {
        const text = failureOf(report, round) ?? logFailureOf(report, round);
        return text ?? [];
      })
    ),
    ...nativeFindings(round, reference),
  ];
}

/** A native program may end in any way, or wait for ever, once power or a cable has failed. */
function nativeFindings(
  round: RoundOutcome,
  { natives = new Map() }: Reference,
): ChaosFinding[] {
  if (!isWellBetween(round, 0, Number.MAX_SAFE_INTEGER)) return [];
  const ends = nativeEnds(round.finals);
  return [...natives].flatMap(([program, code]) => {
    const found = ends.get(program);
    if (found === code) return [];
    const how = found === undefined ? "has no end" : `ended with code ${found}`;
    return [{ check: "makes-progress", text: `${program} ${how}, undisturbed with ${code}` }];
  });
}

type Report = FinalReply["reports"][number];

/** A host's programs start at its first boot, services at each. */
function missingResults(
  round: RoundOutcome,
  undisturbed: { readonly host: string; readonly count: number },
): ChaosFinding[] {
  const { finals, record } = round;
  const { host, count } = undisturbed;
  const lives = record.lives.get(host) ?? [];
  if (lives.at(-1)?.to !== Infinity) return [];
  // Killed after the end of the run, before its report: no record has that.
  if (deathsOf(round, host) > lives.length - 1) return [];
  const cards = cardsOf(round, host);
  // Programs wait for a card without power at the end.
  if (cards.some((own) => own.at(-1)?.to !== Infinity)) return [];
  const node = record.plan.nodes.find(({ name }) => name === host);
  const programs = node?.kind === "host" ? node.config.programs : [];
  const restarted = programs.filter(({ run, service }) => service && run === "log").length;
  const own = programs.filter(({ run }) => isOwnProgram(run)).length;
  // A user's program that has a result for each of its parts may give up within one of them, and
  // says so in one.
  const isOwnOnly = own > 0 &&
    programs.every(({ run, service }) => service || isOwnProgram(run));
  const wanted = isOwnOnly ? Math.min(count, own) : count;
  // It may also end without a result where its card failed.
  const excused = cards.some((lives) => lives.length > 1) ? own : 0;
  const expected = lives.length > 1 ? Math.min(count, restarted) : wanted - excused;
  const reported =
    finals.flatMap(({ reports }) => reports).filter(({ node, topic }) =>
      node === host && (topic === "result" || topic === "program-failed")
    ).length;
  if (reported >= expected) return [];
  const text = `${host} reported ${reported} results, undisturbed ${expected}`;
  return [{ check: "makes-progress", text }];
}

function cardsOf({ record }: RoundOutcome, host: string): (readonly Life[])[] {
  return record.plan.nodes.flatMap((node) =>
    node.kind === "rnic" && node.config.host === host ? [record.lives.get(node.name) ?? []] : []
  );
}

function deathsOf({ events }: RoundOutcome, host: string): number {
  return events.filter((event) => event.kind === "died" && event.name === host).length;
}

function failureOf(
  { node, topic, value }: Report,
  { record: { plan } }: RoundOutcome,
): ChaosFinding | undefined {
  const { program, message } = (value ?? {}) as Record<string, unknown>;
  if (topic !== "program-failed") return undefined;
  const run = String(program).replace(/#\d+$/, "");
  // A user's own program may fail in any way, and for a native one see `nativeFindings`.
  if (isOwnProgram(run) || nativeIn(plan, [node]).some((each) => each.program.run === run)) {
    return undefined;
  }
  return { check: "programs-run-through", text: `${node}: ${program}: ${message}` };
}

/** A replicated log's client fails without answers of a quorum for so long. */
const PATIENCE_US = 100_000;

/** A log may fail only if a failure in its rack occurred within its patience. */
function logFailureOf({ node, time, topic, value }: Report, round: RoundOutcome) {
  const { program, status, error } = (value ?? {}) as Record<string, unknown>;
  if (topic !== "result" || program !== "log" || status === "done") return undefined;
  const host = round.record.plan.nodes.find(({ name }) => name === node);
  const programs = host?.kind === "host" ? host.config.programs : [];
  const us = programs.filter(({ run }) => run === "log").map(({ options }) => {
    const { patienceUs } = options;
    return typeof patienceUs === "number" ? patienceUs : PATIENCE_US;
  });
  const from = time - Math.max(...us) * PS_PER_US;
  if (!isWellBetween(round, from, time)) return undefined;
  return { check: "makes-progress", text: `${node}: log: ${error}, though all was well` };
}

/** All nodes had power and no cable had a fault in this interval. */
export function isWellBetween(
  { record }: Pick<RoundOutcome, "record">,
  from: Time,
  to: Time,
): boolean {
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
