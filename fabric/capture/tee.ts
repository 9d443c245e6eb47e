import type { Observation, ObservationScope, Observer } from "./observation.ts";

/** Each scope includes those before it. */
const SCOPES: readonly ObservationScope[] = ["notes", "wire", "frames", "all"];

export function teeOf(observers: readonly (Observer | undefined)[]): Observer | undefined {
  const all = observers.filter((observer) => observer !== undefined);
  if (all.length < 2) return all[0];
  return {
    scope: widestOf(all.map(({ scope }) => scope))!,
    see(observation) {
      for (const observer of all) if (isIn(observer.scope, observation)) observer.see(observation);
    },
    commit(span) {
      for (const observer of all) observer.commit(span);
    },
  };
}

export function widestOf(
  scopes: readonly (ObservationScope | undefined)[],
): ObservationScope | undefined {
  return SCOPES.findLast((scope) => scopes.includes(scope));
}

function isIn(scope: ObservationScope, seen: Observation): boolean {
  if (seen.kind === "note" || seen.kind === "report" || scope === "all") return true;
  if (scope === "notes") return false;
  if (seen.kind === "step") return scope === "frames" && seen.step.busy === undefined;
  return seen.frame !== undefined;
}
