import { finalVerb } from "../../../fabric/bus/access.ts";
import type { FinalPage } from "../../../fabric/rack/assembly/run_file.ts";
import type { RackPlan } from "../../../fabric/rack/plan/plan.ts";
import type { RackLink } from "./racks.ts";

export type Counters = Readonly<Record<string, Readonly<Record<string, number>>>>;

export interface LiveCounters {
  readonly nodes: Counters;
  /** Without power: their processes do not answer. */
  readonly missing: readonly string[];
}

/** A process answers at once, unless it computes a long span: then the next look will find it. */
const TIMEOUT_MS = 250;

/** Asks every process of the rack, all at once. */
export async function countersOf({ rack, control }: RackLink): Promise<LiveCounters> {
  const nodes: Record<string, Readonly<Record<string, number>>> = {};
  const missing: string[] = [];
  await Promise.all(rack.file.partitions.map(async ({ name }) => {
    // Reports of programs grow with a run; none are wanted.
    const body = { after: Number.MAX_SAFE_INTEGER };
    const answer = await control.attempt<FinalPage>(finalVerb(name), body, {
      timeoutMs: TIMEOUT_MS,
    });
    if (answer === undefined || !("ok" in answer)) missing.push(name);
    else Object.assign(nodes, answer.ok.statistics);
  }));
  return { nodes, missing: missing.sort() };
}

export interface CableTraffic {
  readonly cable: number;
  readonly from: string;
  readonly frames: number;
  readonly bytes: number;
}

/** Of network cables, each direction by its transmitter's counters: one without power has none. */
export function trafficOf(
  { cables }: Pick<RackPlan, "cables">,
  counters: Counters,
): CableTraffic[] {
  return cables.flatMap(({ kind, a, b }, cable) =>
    kind !== "network" ? [] : [a, b].flatMap(({ node, port }): CableTraffic[] => {
      const of = counters[node] ?? {}, name = `port${port}`;
      // A switch counts by port, a card has one.
      const frames = of[`${name}.sentFrames`] ?? of["framesOut"];
      const bytes = of[`${name}.sentBytes`] ?? of["bytesOut"];
      return frames === undefined || bytes === undefined
        ? []
        : [{ cable, from: node, frames, bytes }];
    })
  );
}
