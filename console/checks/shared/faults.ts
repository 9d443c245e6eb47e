/** Faults of a run after which bytes of a region may be lost (C-10). */
import type { Time } from "../../../fabric/base/time.ts";
import type { RunRecord } from "../run_record.ts";

/** The first power failure, or fault of a cable; Infinity: there was none, and nothing may be lost (C-09). */
export function firstFault({ lives, plan }: Pick<RunRecord, "lives" | "plan">): Time {
  const deaths = [...lives.values()].flat().map(({ to }) => to);
  const cables = (plan.linkFaults ?? []).map(({ at }) => at);
  return Math.min(Infinity, ...deaths, ...cables);
}
