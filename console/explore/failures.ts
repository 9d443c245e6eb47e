import { failuresOf } from "../checks/programs.ts";
import { endOf, judgeProtocols } from "../reports/protocol_checks.ts";
import type { RackRun } from "./rerun.ts";
import { recordOf, unsoundness } from "./survivors.ts";
import type { ExploredRack, ExploreOptions } from "./types.ts";

export const OF_PROGRAMS = "programs";

export function failureIn(
  rack: ExploredRack,
  run: RackRun,
  { claims = false }: Pick<ExploreOptions, "claims">,
): { readonly checker: string; readonly found: string } | undefined {
  const record = recordOf(run, claims);
  const [program] = failuresOf([
    ...record.reports,
    ...run.unfinished,
  ]);
  if (program !== undefined) return { checker: OF_PROGRAMS, found: program.text };
  const [unsound] = unsoundness(run, claims);
  if (unsound !== undefined) return unsound;
  for (
    const { program, findings: [found] } of judgeProtocols(endOf(record, rack.own), rack.around)
  ) {
    if (found !== undefined) return { checker: program, found };
  }
  return undefined;
}
