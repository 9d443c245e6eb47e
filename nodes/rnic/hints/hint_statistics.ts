/** What a report says of hints, of a card that takes part in them (H-30). */
import { HINT_KINDS } from "../../../fabric/wire/roce/hint_eth.ts";
import type { Device } from "../state/device.ts";

export function hintStatistics({ hints }: Device): Record<string, number> {
  if (hints === undefined) return {};
  let hintPagesUnused = 0;
  for (const { kind } of hints.charges.values()) if (kind === "page") hintPagesUnused++;
  const isAtomic = (hints.plan.kinds & HINT_KINDS.atomic) !== 0;
  return {
    ...hints.counters,
    hintPagesUnused,
    ...(isAtomic && hints.wordCounters),
    ...(hints.plan.operands && hints.operandCounters),
    ...hints.work?.counters,
  };
}
