/** What is checked at the end of every run, and what came of it. */
import { checkAll, CHECKERS } from "../tests/checkers/all.ts";
import { isAppendResult } from "../tests/checkers/compound.ts";
import { isPutResult } from "../tests/checkers/survival.ts";
import type { ProtocolVerdict } from "./protocol_checks.ts";
import type { MethodRow, Ran, RunReport } from "./report.ts";
import type { Outcome } from "./run_variant.ts";

type Check = RunReport["checks"][number];

/** A variant of a scenario that has been run. */
interface Variant {
  readonly one: Ran;
  readonly outcome: Outcome;
  readonly rows: readonly MethodRow[];
  /** What the user's own protocols say. */
  readonly protocols: readonly ProtocolVerdict[];
}

/** Every promise of the rack over all variants, and whether programs ran through. */
export function checksOf(variants: readonly Variant[]): Check[] {
  const verdicts = variants.flatMap(({ one, outcome }) =>
    outcome.record === undefined ? [] : [{ one, verdicts: checkAll(outcome.record) }]
  );
  const promises = CHECKERS.map(({ name, promise }, i): Check => {
    const own = verdicts.map(({ one, verdicts }) => ({ label: one.label, ...verdicts[i]! }));
    const details = own.flatMap(({ label, findings }) =>
      findings.map(({ text }) => `${label}: ${text}`)
    );
    const looked = own.map(({ looked }) => looked);
    return { name, promise, looked, holds: details.length === 0, detail: details.join("; ") };
  });
  return [
    ...promises.map((check, i) => i === 0 ? withLosses(check, variants) : check),
    ...protocolChecks(variants),
    ran(variants),
  ];
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
  const failures = variants.flatMap(({ one, outcome }) =>
    outcome.finals.flatMap(({ reports }) =>
      reports.flatMap(({ node, topic, value }) => {
        const why = failureOf(topic, value);
        return why === undefined ? [] : [`${one.label}: ${node}: ${why}`];
      })
    )
  );
  return {
    name: "programs-run-through",
    promise: "Every program runs to its end, or says how far it came when the rack cut it off.",
    looked: [],
    holds: failures.length === 0,
    detail: failures.join("; "),
  };
}

/**
 * Why a program did not run through; undefined where it did. One that was cut off by what happened to
 * the rack has run through: its result says how far it came.
 */
function failureOf(topic: string, value: unknown): string | undefined {
  const { message, status, error } = value as Record<string, unknown>;
  if (topic === "program-failed") return String(message);
  const hasBegun = isPutResult(value) || isAppendResult(value);
  const neverBegan = topic === "result" && status === "failed" && !hasBegun;
  return neverBegan ? String(error) : undefined;
}
