/** When each node of a run had power, and what its cables were ordered to do wrong. */
import type { Time } from "../../fabric/base/time.ts";
import type { FaultPlan, RackPlan } from "../../fabric/rack/plan/plan.ts";
import type { LinkFaultPlan } from "../../fabric/rack/plan/link_plan.ts";

/** An interval in which a node has power: from `from` on, before `to`. */
export interface Life {
  readonly from: Time;
  readonly to: Time;
}

/** The lives of a plan's nodes, by the power failures and returns that happened. */
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

/** The lives of each node, oldest first. */
export interface Lives {
  readonly lives: ReadonlyMap<string, readonly Life[]>;
}

/** Number of the life in which something happens at `time`; −1 where the node has no power then. */
export function lifeAt(run: Lives, node: string, time: Time): number {
  const lives = run.lives.get(node) ?? [];
  return lives.findIndex(({ from, to }) => time >= from && time < to);
}

/** All that goes wrong with cables, and may therefore be seen on them. */
export function faultsOf({ linkFaults = [] }: RackPlan, cable: number): LinkFaultPlan[] {
  return linkFaults.filter((fault) => fault.cable === cable);
}

/**
 * When a node died in a way that no plan says. A process that is killed may take with it what it had said
 * to have sent, however long before.
 */
export function unscriptedDeaths({ faults }: RackPlan, { lives }: Lives, node: string): Time[] {
  return (lives.get(node) ?? []).map(({ to }) => to).filter((to) =>
    to !== Infinity &&
    !faults.some((fault) => fault.action === "kill" && fault.node === node && fault.at === to)
  );
}
