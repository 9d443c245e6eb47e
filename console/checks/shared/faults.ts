/** Faults of a run after which bytes of a region may be lost, or a far host be fenced (C-10). */
import type { Time } from "../../../fabric/base/time.ts";
import { hostOfRnic } from "../../../fabric/rack/plan/names.ts";
import type { LinkFaultPlan } from "../../../fabric/rack/plan/link_plan.ts";
import type { RunRecord } from "../run_record.ts";

type Faulty = Pick<RunRecord, "lives" | "plan">;

/** [from, to): until the power is back, or the cable's fault ends. */
export interface FaultSpan {
  readonly from: Time;
  /** Infinity: to the end of the run. */
  readonly to: Time;
}

/** Failures elsewhere fence neither from the other (decision 13). */
export interface Pair {
  readonly host: string;
  readonly home: string;
}

/** Infinity: there was none, and nothing may be lost (C-09). */
export function firstFault(run: Faulty): Time {
  return Math.min(Infinity, ...faultSpans(run).map(({ from }) => from));
}

/**
 * @param pair only faults that may part these two, as a lease is of a pair of cards (decision 13).
 * Switches, and cables between them, are of all pairs.
 */
export function faultSpans({ lives, plan }: Faulty, pair?: Pair): FaultSpan[] {
  const kinds = new Map(plan.nodes.map(({ name, kind }) => [name, kind]));
  /** Of a host or of a card; undefined: a switch. */
  const hostOf = (node: string) => {
    const kind = kinds.get(node);
    if (kind === "switch") return undefined;
    return kind === "rnic" ? hostOfRnic(node) : node;
  };
  const concerns = (nodes: readonly string[]) => {
    if (pair === undefined) return true;
    const own = nodes.map(hostOf).filter((host) => host !== undefined);
    return own.length === 0 || own.some((host) => host === pair.host || host === pair.home);
  };
  const power = [...lives].flatMap(([node, own]) =>
    concerns([node])
      ? own.flatMap(({ to }, i) =>
        to === Infinity ? [] : [{ from: to, to: own[i + 1]?.from ?? Infinity }]
      )
      : []
  );
  const { linkFaults = [] } = plan;
  const cables = linkFaults.flatMap((fault) => {
    const { a, b } = plan.cables[fault.cable]!;
    if (fault.action === "heal" || !concerns([a.node, b.node])) return [];
    return [{ from: fault.at, to: endOf(fault, linkFaults) }];
  });
  return [...power, ...cables];
}

/**
 * A heal ends all earlier faults of its cable, in its direction; a fault of both ends with the
 * later of both.
 */
function endOf(
  { cable, at, until = Infinity, direction }: LinkFaultPlan,
  all: readonly LinkFaultPlan[],
): Time {
  const ends = (direction === "both" ? ["a", "b"] : [direction]).map((side) => {
    const heals = all.filter((each) =>
      each.action === "heal" && each.cable === cable && each.at > at &&
      (each.direction === "both" || each.direction === side)
    );
    return Math.min(until, ...heals.map((each) => each.at));
  });
  return Math.max(...ends);
}
