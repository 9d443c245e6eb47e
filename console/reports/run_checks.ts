/** What is checked at the end of every run, and what came of it. */
import type { FinalReply } from "../../fabric/rack/build/run_file.ts";
import { PROGRAMS } from "../../fabric/rack/plan/vocabulary.ts";
import { checkAll, CHECKERS } from "../checks/all.ts";
import { persistence } from "../checks/persistence.ts";
import type { RunRecord } from "../checks/run_record.ts";
import { isAppendResult } from "../checks/compound.ts";
import { isPutResult } from "../checks/survival.ts";
import type { ProtocolVerdict } from "./protocol_checks.ts";
import type { MethodRow, Ran, RunReport } from "./report.ts";
import type { Outcome } from "../rack/run_variant.ts";
import { lifeAt } from "../checks/lives.ts";

type Check = RunReport["checks"][number];

/** A variant of a scenario that has been run. */
interface Variant {
  readonly one: Ran;
  readonly outcome: Outcome;
  readonly rows: readonly MethodRow[];
  /** What the user's own protocols say. */
  readonly protocols: readonly ProtocolVerdict[];
}

/**
 * Every promise of the rack over all variants, and whether programs ran through.
 * @param of.expect checks that have to be about something, in one of the variants at least.
 */
export function checksOf(
  variants: readonly Variant[],
  of: { readonly expect?: readonly string[] } = {},
): Check[] {
  const records = variants.flatMap(({ one: { label }, outcome: { record } }) =>
    record === undefined ? [] : [{ label, record }]
  );
  const promises = records.length > 0
    ? promisesOf(records, of.expect ?? [])
    : promisesToPut(variants);
  return [
    ...promises.map((check) =>
      check.name === persistence.name ? withLosses(check, variants) : check
    ),
    ...protocolChecks(variants),
    ran(variants),
  ];
}

interface Recorded {
  readonly label: string;
  readonly record: RunRecord;
}

function promisesOf(records: readonly Recorded[], expect: readonly string[]): Check[] {
  const verdicts = records.map(({ label, record }) => ({ label, all: checkAll(record) }));
  return CHECKERS.map(({ name, promise, subjects, without }, i): Check => {
    const own = verdicts.map(({ label, all }) => ({ label, ...all[i]! }));
    const details = own.flatMap(({ label, findings }) =>
      findings.map(({ text }) => `${label}: ${text}`)
    );
    const isVacuous = expect.includes(name) && records.every((each) => subjects(each.record) === 0);
    if (isVacuous) details.push(`the scenario expects it to be about something: ${without}`);
    const looked = own.map(({ looked }) => looked);
    return { name, promise, looked, holds: details.length === 0, detail: details.join("; ") };
  });
}

/** Where nothing was recorded there is only what `put` says itself: what nobody looks at is no check. */
function promisesToPut(variants: readonly Variant[]): Check[] {
  const looked = variants.flatMap(({ rows }) => rows).filter(({ promises }) => promises)
    .map(({ from, to, confirmed }) => `${confirmed} messages of ${from} to ${to} confirmed`);
  if (looked.length === 0) return [];
  const { name, promise } = persistence;
  return [{ name, promise, looked, holds: true, detail: "" }];
}

/** A line where a protocol of the user's has a check of its own. */
function protocolChecks(variants: readonly Variant[]): Check[] {
  const verdicts = variants.flatMap(({ one, protocols }) =>
    protocols.map((verdict) => ({ label: one.label, ...verdict }))
  );
  if (verdicts.length === 0) return [];
  const details = verdicts.flatMap(({ label, program, findings }) =>
    findings.map((text) => `${label}: ${program}: ${text}`)
  );
  return [{
    name: "protocol-holds",
    promise: "What the protocol's own check demands.",
    looked: [...new Set(verdicts.map(({ program }) => program))],
    holds: details.length === 0,
    detail: details.join("; "),
  }];
}

/** What `put` itself says it was promised, held against the file: seen whoever takes the notes. */
function withLosses(check: Check, variants: readonly Variant[]): Check {
  const losses = variants.flatMap(({ rows }) => rows).filter(({ loss }) => loss !== null)
    .map(({ method, ddio, loss }) =>
      `${method}, ddio ${ddio}: byte ${loss!.offset} of ${loss!.object} on ${loss!.host} is ${
        loss!.found
      }, reported persisted as ${loss!.expected}`
    );
  if (losses.length === 0) return check;
  const detail = check.holds ? losses.join("; ") : `${losses.join("; ")}; ${check.detail}`;
  return { ...check, holds: false, detail };
}

function ran(variants: readonly Variant[]): Check {
  const failures = variants.flatMap(({ one, outcome }) => [
    ...outcome.finals.flatMap(({ reports }) =>
      reports.flatMap(({ node, topic, value }) => {
        const why = failureOf(topic, value);
        return why === undefined ? [] : [`${one.label}: ${node}: ${why}`];
      })
    ),
    ...unended(outcome).map((text) => `${one.label}: ${text}`),
  ]);
  return {
    name: "programs-run-through",
    promise: "Every program runs to its end, or says how far it came when the rack cut it off.",
    looked: [],
    holds: failures.length === 0,
    detail: failures.join("; "),
  };
}

/** They go on for as long as they have power. */
const ENDLESS: ReadonlySet<string> = new Set(["sink", "perftest-server"]);

/** Shipped programs that have said nothing though their host kept its power and the run came to its end. */
function unended({ record, finals }: Outcome): string[] {
  if (record === undefined || record.until !== undefined) return [];
  const reports = finals.flatMap((each) => each.reports);
  return record.plan.nodes.flatMap((node) => {
    if (node.kind !== "host" || (record.lives.get(node.name) ?? []).length > 1) return [];
    if (lifeAt(record, node.name, Number.MAX_SAFE_INTEGER) < 0) return [];
    const runs = node.config.programs.map(({ run }) => run)
      .filter((run) => Object.hasOwn(PROGRAMS, run) && !ENDLESS.has(run));
    return [...Map.groupBy(runs, (run) => run)].flatMap(([run, { length }]) => {
      const ended = reports.filter((report) => report.node === node.name && isEndOf(run, report));
      if (ended.length >= length) return [];
      return [`${node.name}: ${length - ended.length} of ${length} ${run} never came to an end`];
    });
  });
}

function isEndOf(run: string, { topic, value }: FinalReply["reports"][number]): boolean {
  const { program } = (value ?? {}) as { readonly program?: unknown };
  if (topic === "result") return program === run;
  return topic === "program-failed" && String(program).replace(/#\d+$/, "") === run;
}

/**
 * Why a program did not run through; undefined where it did. One that was cut off by what happened to
 * the rack has run through: its result says how far it came.
 */
function failureOf(topic: string, value: unknown): string | undefined {
  const { message, status, error, reason } = value as Record<string, unknown>;
  if (topic === "program-failed") return String(message);
  const hasBegun = isPutResult(value) || isAppendResult(value);
  const neverBegan = topic === "result" && status === "failed" && !hasBegun;
  return neverBegan ? String(error ?? reason ?? "it says that it failed, and not why") : undefined;
}
