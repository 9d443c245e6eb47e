/** Runs `check` of a user's protocol on the run, at the end of `rack run`. */
import { loadOwnPrograms } from "../../nodes/files.ts";
import type { MakeProgram } from "../../nodes/host/own_programs.ts";
import type { Check, CrashedHost, CrashView } from "../../nodes/host/recovery/protocol.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { RunRecord } from "../checks/run_record.ts";
import type { Prepared } from "../rack/prepare.ts";

/** The violations that a protocol's check has found; empty where there are none. */
export interface ProtocolVerdict {
  /** The protocol, as the scenario names it. */
  readonly program: string;
  readonly findings: readonly string[];
  /** Whether a host was without power when the check looked. */
  readonly sawCut: boolean;
}

/** Runs the check of every protocol of a scenario that has one. */
export async function checkProtocols(
  prepared: Pick<Prepared, "programs">,
  record: RunRecord,
): Promise<ProtocolVerdict[]> {
  const view = viewOf(record);
  return checksIn(await loadOwnPrograms(prepared)).map(([program, check]) => {
    const seen = view(program);
    return { program, findings: findingsOf(check, seen), sawCut: seen.cut.length > 0 };
  });
}

/** The checks among the exports of protocols, each of a new instance. */
export function checksIn(
  own: Readonly<Record<string, MakeProgram>>,
): (readonly [program: string, check: Check])[] {
  return Object.entries(own).flatMap(([program, make]) => {
    const { check } = make();
    return check === undefined ? [] : [[program, check] as const];
  });
}

/** The answer of a check, or its exception, as a list. */
export function findingsOf(check: Check, view: CrashView): readonly string[] {
  try {
    return textsOf(check(view));
  } catch (error) {
    return [`check throws ${error instanceof Error ? error.message : String(error)}`];
  }
}

/**
 * The violations in the answer of a user's check; an answer of another type is a violation itself.
 */
export function textsOf(answer: unknown): readonly string[] {
  if (answer === undefined || answer === null) return [];
  if (typeof answer === "string") return [answer];
  const isTexts = Array.isArray(answer) && answer.every((text) => typeof text === "string");
  if (isTexts) return answer;
  const found = typeof answer === "object" ? `an object (${Object.keys(answer)})` : String(answer);
  return [
    `check answers ${found}: expected what is wrong, in words, and nothing where all is well`,
  ];
}

/** The rack at the end of a run, as a program's check sees it. */
export function viewOf(record: RunRecord): (program: string) => CrashView {
  const { plan, lives, reports, notes, until } = record;
  const names = plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  const deathsOf = (name: string) =>
    (lives.get(name) ?? []).map(({ to }) => to).filter((to) => to !== Infinity);
  const cut = names.filter((name) => deathsOf(name).length > 0);
  const at = cut.length > 0
    ? Math.max(...cut.flatMap(deathsOf))
    : Math.max(until ?? 0, reports.at(-1)?.time ?? 0, notes.at(-1)?.time ?? 0);
  return (program) => ({
    cut,
    at,
    reports,
    notes,
    hosts: Object.fromEntries(names.map((name): [string, CrashedHost] => {
      return [name, {
        survived: !cut.includes(name),
        options: optionsOf(plan, { host: name, program }),
        recovered: recoveredIn(reports, { host: name, program }),
        scm: (offset, length) =>
          record.scm(name)?.read(offset, offset + length) ?? new Uint8Array(length),
      }];
    })),
  });
}

/** The options of a host's first program of a file; without one, none. */
export function optionsOf(
  plan: RackPlan,
  { host, program }: { readonly host: string; readonly program: string },
): Readonly<Record<string, unknown>> {
  const node = plan.nodes.find(({ name }) => name === host);
  const programs = node?.kind === "host" ? node.config.programs : [];
  return programs.find(({ run }) => run === program)?.options ?? {};
}

/** The answer of a program's recovery when its host was last booted; undefined where it was not. */
export function recoveredIn(
  reports: RunRecord["reports"],
  { host, program }: { readonly host: string; readonly program: string },
): unknown {
  const found = reports.findLast(({ node, topic, value }) =>
    node === host && topic === "recovered" &&
    (value as { program?: unknown } | null)?.program === program
  );
  return (found?.value as { recovered?: unknown } | undefined)?.recovered;
}
