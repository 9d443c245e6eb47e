/** Verdicts of the checks on a run that goes on: of all before an instant. */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { Time } from "../../fabric/base/time.ts";
import { checkAllInTurns } from "../checks/all.ts";
import { livesOf } from "../checks/lives.ts";
import { inOrder, type RunRecord } from "../checks/run_record.ts";
import type { Watch } from "../rack/run_record.ts";
import type { Verdicts, VerdictSoFar } from "../api/replay.ts";

/** Of a check in an answer. */
const VERDICT_FINDINGS_MAX = 1_000;

/**
 * @param watch has seen everything before `at`, and nothing else.
 * @param options.scm of each host, as a power failure at `at` leaves it.
 */
export async function verdictsAt(
  { notes, reports, wire, durable }: Watch,
  { plan, at, claims, scm }: {
    readonly plan: RackPlan;
    readonly at: Time;
    readonly claims: boolean;
    readonly scm: RunRecord["scm"];
  },
): Promise<Verdicts> {
  const record: RunRecord = {
    plan,
    until: at,
    claims,
    lives: livesOf(plan, plan.faults),
    reports: inOrder(plan, reports),
    notes,
    scm,
    wire,
    durable,
    findingsMost: VERDICT_FINDINGS_MAX,
  };
  const checks = (await checkAllInTurns(record)).flatMap(
    ({ checker, looked, findings }): VerdictSoFar[] => {
      const { name, promise, concerns, subjects } = checker;
      if (findings.length === 0 && concerns?.(record) === false) return [];
      const kept = subjects(record) > 0 ? "holds" : "nothing yet";
      return [{
        ...{ name, promise, looked },
        state: findings.length > 0 ? "fails" : kept,
        findings,
        mayBeMore: findings.length >= VERDICT_FINDINGS_MAX,
      }];
    },
  );
  return { at, soFar: true, checks };
}
