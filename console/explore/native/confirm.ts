/** A second live run, with a violation's power failure: it leaves what was derived, or is another run. */
import type { FaultPlan, WritebackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { TraceLine } from "../../../fabric/trace/trace.ts";
import { faultsWith } from "../post_crash_run.ts";
import { ladderAt } from "../ladder.ts";
import { leftOf } from "../survivors.ts";
import { eventsMaxOf, type RackRun, runRack } from "../rerun.ts";
import type { Counterexample, ExploredRack } from "../types.ts";
import { type Image, partsOf } from "./images.ts";

/** Plain data. */
export interface NativeViolation {
  readonly hosts: readonly string[];
  readonly host: string;
  readonly at: Time;
  readonly image: Image;
  readonly writebacks: readonly WritebackPlan[];
}

/** Plain data. */
export interface Repeated extends Pick<Counterexample, "ladder" | "operation"> {
  readonly faults: readonly FaultPlan[];
  /** The first byte of SCM at which the second run has left something else; null: it is the same. */
  readonly differsAt: number | null;
}

export function repeat(
  rack: ExploredRack,
  recording: RackRun,
  { hosts, host, at, image, writebacks }: NativeViolation,
): Repeated {
  const faults = faultsWith(rack.plan.faults, { hosts, at });
  const lines: TraceLine[] = [];
  const run = runRack(rack, {
    ...{ faults, writebacks },
    histories: true,
    eventsMax: eventsMaxOf(recording),
    onTrace: (time, node, step) => void lines.push({ time, node, ...step }),
  });
  const left = leftOf(run, host)!;
  let differsAt: number | null = null;
  for (const { offset, bytes } of partsOf(image)) {
    const found = left.read(offset, offset + bytes.length);
    const place = bytes.findIndex((byte, i) => byte !== found[i]);
    if (place >= 0) differsAt ??= offset + place;
  }
  const { plan, notes } = run;
  const fallen = hosts.filter((name) => run.lives.get(name)?.some(({ to }) => to === at));
  const ladder = ladderAt(lines, { plan, hosts: fallen, at, notes, scm: undefined });
  return { faults, differsAt, ladder: ladder.text, operation: ladder.document };
}
