/** Records of runs that never were, for tests of the checkers. */
import type { AuditRecord, TimedRecord } from "../../fabric/audit.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { makePlan } from "../../fabric/rack/assembly/topology.ts";
import { variants } from "../../fabric/rack/scenario/variants.ts";
import type { Checker, ImageView, RunRecord } from "./run_record.ts";
import { parseScenario } from "../../fabric/rack/scenario/parse_scenario.ts";
import { livesOf } from "./lives.ts";

/** Hosts on one switch, a and b unless named; `faults` as a scenario has them, one a line. */
export function planOf(
  faults: readonly string[] = [],
  hosts: readonly string[] = ["a", "b"],
): RackPlan {
  const text = `name: record
seed: 1
profile: clx-optane-cx5
fabric: { topology: star, mtu: 4096 }
hosts:
${hosts.map((host) => `  ${host}: { scm: { size: 1MiB } }`).join("\n")}
faults:${faults.length === 0 ? " []" : faults.map((fault) => `\n  - ${fault}`).join("")}
`;
  return makePlan(variants(parseScenario(text, "record.yaml"))[0]!);
}

export const PLAN = planOf();

/** A note of `put#0` on host a, unless it says otherwise. */
export function noted(time: number, note: AuditRecord, of: Partial<TimedRecord> = {}): TimedRecord {
  const node = of.node ?? "a";
  return { time, node, by: `${node}/0/put#0`, note, ...of };
}

/** An image that is all zeros but for these bytes, by offset. */
export function imageOf(bytes: Readonly<Record<number, Uint8Array>>): ImageView {
  const memory = new Uint8Array(4096);
  for (const [at, part] of Object.entries(bytes)) memory.set(part, Number(at));
  return { read: (from, to) => memory.slice(from, to) };
}

/** So many bytes of one value. */
export function fill(value: number, length = 8): Uint8Array {
  return new Uint8Array(length).fill(value);
}

/** A run of {@link PLAN} of which nothing is known but the given parts. */
export function recordOf(
  parts: Partial<RunRecord> & { readonly b?: ImageView; readonly power?: readonly FaultPlan[] },
): RunRecord {
  const { b = imageOf({}), power = [], ...rest } = parts;
  const plan = rest.plan ?? PLAN;
  return {
    plan,
    lives: livesOf(plan, power),
    reports: [],
    notes: [],
    scm: (host) => host === "b" ? b : undefined,
    ...rest,
  };
}

/** A checker's findings in a record, as texts. */
export function findingsOf(checker: Checker, parts: Parameters<typeof recordOf>[0]): string[] {
  return checker.check(recordOf(parts)).map(({ text }) => text);
}
