import { targetName } from "../../fabric/rack/plan/cable_names.ts";
import { framesText, type LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";
import type { RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { FinalReply } from "../../fabric/rack/assembly/run_file.ts";
import { formatRate } from "../../fabric/rack/plan/units.ts";
import { formatTime, type Time } from "../../fabric/base/time.ts";
import { foldedTable } from "./fold_variants.ts";

export interface FaultRow {
  readonly variant: string;
  /** In the plan; faults ordered at run time come after the scenario's. */
  readonly fault: number;
  readonly action: LinkFaultPlan["action"];
  /** `a-rnic/tor`, or `a-rnic->tor` for one way. */
  readonly target: string;
  readonly terms: string;
  /** Frames that it could have affected and did, while the sender had power. */
  readonly seen: number;
  readonly hit: number;
  readonly directions: ReadonlyArray<
    { readonly direction: string; readonly seen: number; readonly hit: number }
  >;
}

/** In the plan's order; a heal ends other faults and has no row. */
export function faultRows(
  variant: string,
  { plan, finals }: {
    readonly plan: RackPlan;
    readonly finals: readonly Pick<FinalReply, "linkFaults">[];
  },
): FaultRow[] {
  const counts = finals.flatMap(({ linkFaults }) => linkFaults);
  return (plan.linkFaults ?? []).filter(({ action }) => action !== "heal").map((fault) => {
    const byDirection = new Map<string, { seen: number; hit: number }>();
    for (const { direction, seen, hit } of counts.filter((each) => each.fault === fault.id)) {
      const sum = byDirection.get(direction) ?? { seen: 0, hit: 0 };
      byDirection.set(direction, { seen: sum.seen + seen, hit: sum.hit + hit });
    }
    const directions = [...byDirection].map(([direction, sum]) => ({ direction, ...sum }))
      .sort((x, y) => x.direction < y.direction ? -1 : 1);
    return {
      variant,
      fault: fault.id,
      action: fault.action,
      target: targetName(plan, fault),
      terms: termsOf(fault, plan.linkFaults),
      seen: directions.reduce((sum, { seen }) => sum + seen, 0),
      hit: directions.reduce((sum, { hit }) => sum + hit, 0),
      directions,
    };
  });
}

/** `1% of RC ACKNOWLEDGE, from 10 us, until 2 ms`. */
function termsOf(fault: LinkFaultPlan, all: readonly LinkFaultPlan[] = []): string {
  const { count, delayPs, bitsPerSecond, jitterPs, overtakenBy, holdPs, sealed, at } = fault;
  const until = endOf(fault, all);
  const how = [
    ...(sealed === true ? ["past icrc"] : []),
    ...(count === undefined ? [] : [`at most ${count}`]),
    ...(delayPs === undefined ? [] : [`by ${formatTime(delayPs)}`]),
    ...(bitsPerSecond === undefined ? [] : [`at ${formatRate(bitsPerSecond)}`]),
    ...(jitterPs === undefined ? [] : [`and up to ${formatTime(jitterPs)}`]),
    ...(overtakenBy === undefined ? [] : [`behind ${overtakenBy}`]),
    ...(holdPs === undefined ? [] : [`for ${formatTime(holdPs)}`]),
    ...(at === 0 ? [] : [`from ${formatTime(at)}`]),
    ...(until === undefined ? [] : [`until ${formatTime(until)}`]),
  ];
  return [framesText(fault), ...how].join(", ");
}

function endOf(fault: LinkFaultPlan, all: readonly LinkFaultPlan[]): Time | undefined {
  const heals = all.filter(({ action, cable, direction, at }) =>
    action === "heal" && cable === fault.cable && at > fault.at &&
    (direction === "both" || direction === fault.direction)
  );
  const ends = [...heals.map(({ at }) => at), ...(fault.until === undefined ? [] : [fault.until])];
  return ends.length === 0 ? undefined : Math.min(...ends);
}

const DID: Readonly<Record<LinkFaultPlan["action"], string>> = {
  loss: "lost",
  corrupt: "corrupted",
  duplicate: "duplicated",
  reorder: "held back",
  delay: "delayed",
  rate: "slowed down",
  cut: "lost",
  heal: "",
};

/** Each fault once, with the sums of all runs of a scenario. */
export function faultTable(rows: readonly FaultRow[]): string {
  return foldedTable(rows, ({ action, target, terms }) => [action, target, terms].join(), [
    { title: "fault", value: ({ action }) => action },
    { title: "cable", value: ({ target }) => target },
    { title: "terms", value: ({ terms }) => terms },
    { title: "frames", value: ({ hit }) => hit },
    { title: "of", value: ({ seen }) => seen },
    { title: "what", value: ({ action }) => DID[action] },
  ]);
}
