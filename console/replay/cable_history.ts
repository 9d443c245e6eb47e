/** Of one cable over the whole run: how much of its rate was used, and what waited to leave over it. */
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { CableHistory } from "../api/cables.ts";
import { HISTORY_POINTS } from "../api/replay_terms.ts";
import type { Sample } from "./recording.ts";

/**
 * From samples, which are the closer together, the more happens: a point is what has left since the
 * point before. A device that comes back counts from 0.
 */
export function cableHistory(
  samples: readonly Sample[],
  { cables }: Pick<RackPlan, "cables">,
  cable: number,
): CableHistory {
  const { a, b, bitsPerSecond } = cables[cable]!;
  const step = Math.max(1, Math.ceil(samples.length / HISTORY_POINTS));
  // The latest one is always there.
  const shown = samples.filter((_, i) => (samples.length - 1 - i) % step === 0);
  const directions = [a, b].map(({ node, port }) => {
    let before: number | undefined;
    const sentBytes: (number | null)[] = [], queuedBytes: (number | null)[] = [];
    for (const { counters } of shown) {
      const counted = counters.get(node);
      const of = (name: string) => {
        const at = counted?.names.indexOf(name) ?? -1;
        return at < 0 ? undefined : counted!.values[at];
      };
      // A switch counts by port, a card has one.
      const sent = of(`port${port}.sentBytes`) ?? of("bytesOut");
      const isAnew = sent !== undefined && sent < (before ?? 0);
      sentBytes.push(sent === undefined ? null : sent - (isAnew ? 0 : before ?? 0));
      queuedBytes.push(of(`port${port}.queuedBytes`) ?? null);
      before = sent;
    }
    const hasQueue = queuedBytes.some((queued) => queued !== null);
    return { from: node, sentBytes, ...(hasQueue && { queuedBytes }) };
  });
  return { at: shown.map(({ at }) => at), bitsPerSecond, directions };
}
