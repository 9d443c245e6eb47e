/** What a protocol of the user's says of its own runs: `check` of its file, at the end of `rack run`. */
import { importPrograms } from "../nodes/files.ts";
import type { Check, CrashedHost, CrashView } from "../nodes/host/protocol.ts";
import { lifeAt, type RunRecord } from "../tests/checkers/run_record.ts";
import type { Prepared } from "./prepare.ts";

/** What a protocol's check has found wrong with a run; none where all is well. */
export interface ProtocolVerdict {
  /** The protocol, as the scenario names it. */
  readonly program: string;
  readonly findings: readonly string[];
}

/** Asks every protocol of a scenario that has a check. @throws InputError for a file that is none. */
export async function checkProtocols(
  prepared: Pick<Prepared, "programs">,
  record: RunRecord,
): Promise<ProtocolVerdict[]> {
  const { checks } = await importPrograms(prepared);
  const view = viewOf(record);
  return Object.entries(checks).map(([program, check]) => {
    return { program, findings: findingsOf(check, view(program)) };
  });
}

/** What a check answers, or that it throws, as a list. */
export function findingsOf(check: Check, view: CrashView): readonly string[] {
  try {
    const found = check(view) ?? [];
    return typeof found === "string" ? [found] : found;
  } catch (error) {
    return [`check throws ${error instanceof Error ? error.message : String(error)}`];
  }
}

/** The rack at the end of a run, as a program's check sees it. */
export function viewOf(record: RunRecord): (program: string) => CrashView {
  const { plan, lives, reports, notes, until } = record;
  const at = Math.max(until ?? 0, reports.at(-1)?.time ?? 0, notes.at(-1)?.time ?? 0);
  const names = plan.nodes.filter(({ kind }) => kind === "host").map(({ name }) => name);
  const cut = names.filter((name) =>
    (lives.get(name)?.length ?? 1) > 1 || lifeAt(record, name, at) < 0
  );
  return (program) => ({
    cut,
    at,
    reports,
    notes,
    hosts: Object.fromEntries(names.map((name): [string, CrashedHost] => {
      const recovered = reports.findLast(({ node, topic, value }) =>
        node === name && topic === "recovered" && isOf(program, value)
      );
      return [name, {
        survived: !cut.includes(name),
        recovered: (recovered?.value as { recovered?: unknown } | undefined)?.recovered,
        scm: (offset, length) =>
          record.scm(name)?.read(offset, offset + length) ?? new Uint8Array(length),
      }];
    })),
  });
}

function isOf(program: string, value: unknown): boolean {
  return (value as { program?: unknown } | null)?.program === program;
}
