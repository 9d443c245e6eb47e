/** A real run as data, so that it can be changed: what checkers look at, before they have looked. */
import { type FrameSeen, isFrameSeen } from "../../fabric/capture/observation.ts";
import type { TimedRecord } from "../../fabric/audit.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import { NEVER, PS_PER_S } from "../../fabric/base/time.ts";
import type { Checker, ImageView, ReportSeen, RunRecord } from "../../console/checks/run_record.ts";
import { WireLedger } from "../../console/checks/wire_ledger.ts";
import { type RackOptions, SimulatedRack } from "./simulated_rack.ts";
import type { Life } from "../../console/checks/lives.ts";

export interface SeenRun {
  readonly plan: RackPlan;
  readonly until?: number;
  readonly lives: ReadonlyMap<string, readonly Life[]>;
  readonly reports: readonly ReportSeen[];
  readonly notes: readonly TimedRecord[];
  /** In the order in which they were seen. */
  readonly frames: readonly FrameSeen[];
  readonly scm: (host: string) => ImageView | undefined;
  readonly durable: readonly { readonly time: number; readonly node: string }[];
}

/** Runs a scenario to its end. @throws AssertionError where a promise of the rack is broken. */
export function seenRun(
  scenario: string,
  { programs }: Pick<RackOptions, "programs"> = {},
): SeenRun {
  const frames: FrameSeen[] = [];
  const rack = new SimulatedRack(scenario, {
    ...(programs && { programs }),
    observer: {
      scope: "wire",
      see: (seen) => {
        if (isFrameSeen(seen)) frames.push({ ...seen, frame: seen.frame.slice() });
      },
      commit: () => {},
    },
  }).run();
  const { plan, lives, reports, notes, scm, durable = [] } = rack.record(10 * PS_PER_S);
  const until = rack.simulator.next === NEVER ? {} : { until: 10 * PS_PER_S };
  return { plan, lives, reports, notes, frames, scm, durable: [...durable], ...until };
}

/** What was seen of frames is the same for all runs that have the same ones. */
const LEDGERS = new WeakMap<readonly FrameSeen[], WireLedger>();

function ledgerOf({ plan, lives, frames }: SeenRun): WireLedger {
  const known = LEDGERS.get(frames);
  if (known !== undefined) return known;
  const wire = new WireLedger(plan, lives);
  for (const frame of frames) wire.see(frame);
  LEDGERS.set(frames, wire);
  return wire;
}

/** How many things a checker finds wrong with a run. */
export function findingsIn(run: SeenRun, checker: Checker): number {
  const { frames: _, ...rest } = run;
  return checker.check({ ...rest, wire: ledgerOf(run) }).length;
}

/** The same run, of which these bytes of a host's SCM are others. */
export function withBytes<Run extends Pick<RunRecord, "scm">>(
  run: Run,
  of: { readonly host: string; readonly at: number; readonly bytes: Uint8Array },
): Run {
  const { at, bytes } = of;
  return {
    ...run,
    scm: (host: string): ImageView | undefined => {
      const view = run.scm(host);
      if (view === undefined || host !== of.host) return view;
      return {
        read(from, to) {
          const found = view.read(from, to).slice();
          for (let i = Math.max(from, at); i < Math.min(to, at + bytes.length); i++) {
            found[i - from] = bytes[i - at]!;
          }
          return found;
        },
      };
    },
  };
}
