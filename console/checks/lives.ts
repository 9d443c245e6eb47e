import type { Time } from "../../fabric/base/time.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import { firstPlace } from "./values.ts";

export interface Life {
  readonly from: Time;
  readonly to: Time;
}

export function livesOf(plan: RackPlan, faults: readonly FaultPlan[]): Map<string, Life[]> {
  const lives = new Map<string, Life[]>();
  for (const { name } of plan.nodes) lives.set(name, [{ from: 0, to: Infinity }]);
  for (const { at, action, node } of faults.toSorted((x, y) => x.at - y.at)) {
    const own = lives.get(node);
    const last = own?.at(-1);
    if (own === undefined || last === undefined) continue;
    const isOn = last.to === Infinity;
    if (action === "kill" && isOn) own[own.length - 1] = { from: last.from, to: at };
    else if (action === "start" && !isOn) own.push({ from: at, to: Infinity });
  }
  return lives;
}

/** By node, oldest first. */
export interface Lives {
  readonly lives: ReadonlyMap<string, readonly Life[]>;
}

/** Number of the life at `time`; −1: the node has no power then. */
export function lifeAt(run: Lives, node: string, time: Time): number {
  const lives = run.lives.get(node) ?? [];
  const place = firstPlace(lives.length, (i) => lives[i]!.to > time);
  return time >= (lives[place]?.from ?? Infinity) ? place : -1;
}

/**
 * Power failures of a node outside the plan: its process was killed, and messages that it had sent
 * before, however long, may be lost with it.
 */
export function unscriptedDeaths({ faults }: RackPlan, { lives }: Lives, node: string): Time[] {
  return (lives.get(node) ?? []).map(({ to }) => to).filter((to) =>
    to !== Infinity &&
    !faults.some((fault) => fault.action === "kill" && fault.node === node && fault.at === to)
  );
}
