/**
 * Time runs down in proportion; an instant with several steps takes a row for each, and a long
 * pause is cut short, with a mark: so no two labels overlap, and later steps stand lower. Several
 * ladders share one axis, on which each begins at 0.
 */
import type { Time } from "../../../fabric/base/time.ts";

/** By step, in their order: since the begin of the operation. */
export type LadderTimes = readonly { readonly sincePs: Time }[];

export interface LayoutOptions {
  readonly rowPx: number;
  readonly pxPerUs: number;
  readonly pauseMaxPx: number;
}

export interface LaidInstant {
  readonly sincePs: Time;
  readonly y: number;
  /** The pause before it was cut short. */
  readonly isAfterBreak: boolean;
}

export interface LadderLayout {
  readonly height: number;
  readonly instants: readonly LaidInstant[];
  /** By ladder, then by step: the middle of its row. */
  readonly rows: readonly (readonly number[])[];
  /** Before the first and after the last instant: its place. */
  readonly yOf: (sincePs: Time) => number;
}

const PS_PER_US = 1_000_000;

export function layoutLadders(
  ladders: readonly LadderTimes[],
  { rowPx, pxPerUs, pauseMaxPx }: LayoutOptions,
): LadderLayout {
  const counts = ladders.map(countByTime);
  const times = [...new Set(counts.flatMap((each) => [...each.keys()]))].sort((x, y) => x - y);
  const instants: LaidInstant[] = [];
  const free = ladders.map(() => rowPx / 2);
  let top = rowPx / 2;
  for (const [i, sincePs] of times.entries()) {
    const pause = i === 0 ? 0 : (sincePs - times[i - 1]!) / PS_PER_US * pxPerUs;
    const own = counts.flatMap((each, ladder) => each.has(sincePs) ? [free[ladder]!] : []);
    const y = Math.max(top + Math.min(pause, pauseMaxPx), ...own);
    instants.push({ sincePs, y, isAfterBreak: pause > pauseMaxPx });
    for (const [ladder, each] of counts.entries()) {
      const rows = each.get(sincePs) ?? 0;
      if (rows > 0) free[ladder] = y + rows * rowPx;
    }
    top = y;
  }
  const places = new Map(instants.map(({ sincePs, y }) => [sincePs, y]));
  return {
    height: Math.max(...free) - rowPx / 2,
    instants,
    rows: ladders.map((steps) => {
      const met = new Map<Time, number>();
      return steps.map(({ sincePs }) => {
        const before = met.get(sincePs) ?? 0;
        met.set(sincePs, before + 1);
        return places.get(sincePs)! + before * rowPx;
      });
    }),
    yOf: (sincePs) => between(instants, sincePs),
  };
}

function countByTime(steps: LadderTimes): Map<Time, number> {
  const counts = new Map<Time, number>();
  for (const { sincePs } of steps) counts.set(sincePs, (counts.get(sincePs) ?? 0) + 1);
  return counts;
}

function between(instants: readonly LaidInstant[], sincePs: Time): number {
  const next = instants.findIndex((each) => each.sincePs >= sincePs);
  const after = next < 0 ? instants.at(-1) : instants[next];
  const before = next < 0 ? after : instants[next - 1] ?? after;
  if (after === undefined || before === undefined) return 0;
  const span = after.sincePs - before.sincePs;
  if (span === 0 || sincePs < before.sincePs) return after.y;
  return before.y + (after.y - before.y) * Math.min(1, (sincePs - before.sincePs) / span);
}
