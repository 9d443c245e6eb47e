/** Converts a scenario's device faults (V-08) into entries of the devices' plans. */
import type { FlipSection, StuckSection } from "../scenario/fault_schema.ts";
import type { FlipPlan, HostPlan, RnicPlan, StuckBit } from "../plan/plan.ts";

/** A fault inside a host's machine: in its card, or in its persistent memory. */
export type DeviceFaultScenario =
  | { readonly kind: "flip"; readonly host: string; readonly flip: Omit<FlipPlan, "id"> }
  | { readonly kind: "stuck"; readonly host: string; readonly bit: StuckBit };

/** What is wrong with an item, and at which of its keys (undefined: the whole item). */
export interface DeviceFaultProblem {
  readonly key?: string;
  readonly found: string;
  readonly expected: string;
}

/** Reads `{ rnic: b, flip: 1%, where: bus }`, or returns a conflict between its keys. */
export function readFlip(section: FlipSection): DeviceFaultScenario | DeviceFaultProblem {
  const { rnic, flip: share, where = "buffer", from, until, nth, count } = section;
  if (nth !== undefined && (share < 1 || count !== undefined)) {
    return { key: "nth", found: "nth and a share or count", expected: "nth alone, with all" };
  }
  if (until !== undefined && until <= (from ?? 0)) {
    return { key: "until", found: "an end before the beginning", expected: "a time after from" };
  }
  const flip: Omit<FlipPlan, "id"> = {
    where,
    at: from ?? 0,
    ...(until !== undefined && { until }),
    ...(share < 1 && { share }),
    ...(nth !== undefined && { nth }),
    ...(count !== undefined && { count }),
  };
  return { kind: "flip", host: rnic, flip };
}

/** Reads `{ scm: b, stuck: 4096, bit: 3, value: 1 }`. */
export function readStuck(section: StuckSection): DeviceFaultScenario {
  const { scm: host, stuck: offset, bit = 0, value = 1 } = section;
  return { kind: "stuck", host, bit: { offset, bit, value: value === 1 ? 1 : 0 } };
}

/** Bit flips in a host's card; ids count all device faults, in the scenario's order. */
export function flipsOf(
  faults: readonly DeviceFaultScenario[],
  host: string,
): Pick<RnicPlan, "flips"> {
  const flips = faults.flatMap((fault, id) =>
    fault.kind === "flip" && fault.host === host ? [{ id, ...fault.flip }] : []
  );
  return flips.length === 0 ? {} : { flips };
}

/** Broken cells of the SCM of a host. */
export function stuckBitsOf(
  faults: readonly DeviceFaultScenario[],
  host: string,
): Pick<HostPlan, "stuckBits"> {
  const stuckBits = faults.flatMap((fault) =>
    fault.kind === "stuck" && fault.host === host ? [fault.bit] : []
  );
  return stuckBits.length === 0 ? {} : { stuckBits };
}
