import { hostOfRnic, rnicName } from "../plan/names.ts";
import type { FlipPlan, HostPlan, RnicPlan, StuckBit } from "../plan/plan.ts";

export type DeviceFaultScenario =
  | {
    readonly kind: "flip";
    readonly target: string;
    readonly flip: Omit<FlipPlan, "id">;
  }
  | { readonly kind: "stuck"; readonly host: string; readonly bit: StuckBit };

function rnicAt(target: string): string {
  return hostOfRnic(target) === undefined ? rnicName(target) : target;
}

/** Ids count all device faults, in the scenario's order. */
export function flipsOf(
  faults: readonly DeviceFaultScenario[],
  rnic: string,
): Pick<RnicPlan, "flips"> {
  const flips = faults.flatMap((fault, id) =>
    fault.kind === "flip" && rnicAt(fault.target) === rnic ? [{ id, ...fault.flip }] : []
  );
  return flips.length === 0 ? {} : { flips };
}

export function stuckBitsOf(
  faults: readonly DeviceFaultScenario[],
  host: string,
): Pick<HostPlan, "stuckBits"> {
  const stuckBits = faults.flatMap((fault) =>
    fault.kind === "stuck" && fault.host === host ? [fault.bit] : []
  );
  return stuckBits.length === 0 ? {} : { stuckBits };
}
