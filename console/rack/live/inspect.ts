/** Asks a device of a running rack what it is doing, without any effect on the run. */
import type { DeviceInspection } from "../../../fabric/inspection.ts";
import type { Time } from "../../../fabric/base/time.ts";
import type { RackLink } from "./racks.ts";

export interface Inspected extends DeviceInspection {
  /** The device's partition has processed every event before this. */
  readonly reachedPs: Time;
}

export type InspectDevice = (
  link: RackLink,
  node: string,
  options?: { readonly loss?: boolean },
) => Promise<Inspected>;
