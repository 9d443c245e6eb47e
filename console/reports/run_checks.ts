import { checkAll, CHECKERS, type Verdict } from "../checks/all.ts";
import { FINDINGS_MAX, REPORTED_MAX } from "../checks/finding.ts";
import { persistence } from "../checks/persistence.ts";
import { failuresOf } from "../checks/programs.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { ProtocolVerdict } from "./protocol_checks.ts";
import type { Ran, RunReport } from "./method_report.ts";
import { type Reported, reportsOf } from "../rack/run_variant.ts";
import type { MethodRow } from "./method_row.ts";

type Check = RunReport["checks"][number];

export interface JudgedVariant {
  readonly one: Ran;
  readonly outcome: Reported;
  readonly rows: readonly MethodRow[];
  readonly protocols: readonly ProtocolVerdict[];
  /** In the order of {@link CHECKERS}; absent without a record. */
  readonly promises?: readonly PromiseVerdict[];
  readonly nothing?: string;
}

export interface PromiseVerdict extends Pick<Verdict, "looked" | "findings"> {
  readonly isConcerned: boolean;
  readonly hasSubjects: boolean;
}

/** In the checkers' order. */
export function promisesOf(
  record: RunRecord,
  verdicts: readonly Verdict[] = checkAll(record),
): PromiseVerdict[] {
  return verdicts.map(({ checker: { subjects, concerns }, looked, findings }) => ({
    looked,
    findings,
    isConcerned: concerns?.(record) ?? true,
    hasSubjects: subjects(record) > 0,
  }));
}

/**
 * Every promise of the rack over all variants, and whether all programs ran to their end.
 * @param options.expect checks that must examine something, in at least one variant.
 */
export function checksOf(
  variants: readonly JudgedVariant[],
  { expect = [] }: { readonly expect?: readonly string[] } = {},
): Check[] {
  const judged = variants.flatMap(({ one: { label }, promises }) =>
    promises === undefined ? [] : [{ label, promises }]
  );
  const promises = judged.length > 0 ? promiseChecks(judged, expect) : promisesToPut(variants);
  return [
    ...promises.map((check) =>
      check.name === persistence.name ? withLosses(check, variants) : check
    ),
    ...protocolChecks(variants),
    ran(variants),
  ];
}

function promiseChecks(
  variants: readonly { readonly label: string; readonly promises: readonly PromiseVerdict[] }[],
  expect: readonly string[],
): Check[] {
  return CHECKERS.flatMap(({ name, promise, without }, i): Check[] => {
    const own = variants.map(({ label, promises }) => ({ label, ...promises[i]! }));
    if (!expect.includes(name) && !own.some(({ isConcerned }) => isConcerned)) return [];
    const found = own.flatMap(({ label, findings }) =>
      findings.map((finding) => ({ variant: label, ...finding }))
    );
    const mayBeMore = own.some(({ findings }) => findings.length >= REPORTED_MAX);
    const details = own.flatMap(({ label, findings }) => {
      const texts = findings.slice(0, FINDINGS_MAX).map(({ text }) => `${label}: ${text}`);
      const left = findings.length - texts.length;
      return left === 0 ? texts : [
        ...texts,
        `${label}: ${texts.length} of ${findings.length} are named here, report.json has all`,
      ];
    });
    const isVacuous = expect.includes(name) && !own.some(({ hasSubjects }) => hasSubjects);
    if (isVacuous) details.push(`the scenario expects it to examine something: ${without}`);
    const looked = own.map(({ looked }) => looked);
    return [{
      ...{ name, promise, looked, holds: details.length === 0, detail: details.join("; ") },
      ...(found.length > 0 && { findings: found }),
      ...(mayBeMore && { mayBeMore }),
    }];
  });
}

/** A run without audit records has only the result of `put`; a check without data is left out. */
function promisesToPut(variants: readonly JudgedVariant[]): Check[] {
  const looked = variants.flatMap(({ rows }) => rows).filter(({ promises }) => promises)
    .map(({ from, to, confirmed }) => `${confirmed} messages of ${from} to ${to} confirmed`);
  if (looked.length === 0) return [];
  const { name, promise } = persistence;
  return [{ name, promise, looked, holds: true, detail: "" }];
}

function protocolChecks(variants: readonly JudgedVariant[]): Check[] {
  const verdicts = variants.flatMap(({ one, protocols }) =>
    protocols.map((verdict) => ({ label: one.label, ...verdict }))
  );
  if (verdicts.length === 0) return [];
  const found = verdicts.flatMap(({ label, program, at, findings, unknown }) =>
    [...findings, ...unknown.map((text) => `unchecked: ${text}`)]
      .map((text) => ({ variant: label, text: `${program}: ${text}`, at }))
  );
  return [{
    name: "protocol-holds",
    promise: "What the protocol's own check demands.",
    looked: [
      ...new Set(
        verdicts.map(({ program, sawCut }) =>
          sawCut ? program : `${program}, with power everywhere: rack explore cuts it`
        ),
      ),
    ],
    holds: found.length === 0,
    detail: found.map(({ variant, text }) => `${variant}: ${text}`).join("; "),
    ...(found.length > 0 && { findings: found }),
  }];
}

/** Compares confirmations that `put` itself reports with the SCM file; needs no audit records. */
function withLosses(check: Check, variants: readonly JudgedVariant[]): Check {
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

function ran(variants: readonly JudgedVariant[]): Check {
  const failures = variants.flatMap(({ one, outcome }) =>
    failuresOf(reportsOf(outcome)).map((finding) => ({ variant: one.label, ...finding }))
  );
  return {
    name: "programs-run-through",
    promise: "Every program runs to its end, or reports its progress when the rack cut it off.",
    looked: [],
    holds: failures.length === 0,
    detail: failures.map(({ variant, text }) => `${variant}: ${text}`).join("; "),
    ...(failures.length > 0 && { findings: failures }),
  };
}
