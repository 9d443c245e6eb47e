/** Where the time of a coherent card goes, beside that of its ports. */
import { PS_PER_NS, type Time } from "../../../fabric/base/time.ts";
import type { Device } from "../state/device.ts";

/**
 * [choice] Looking a line up in a cache or the directory, on the chip: some cycles of an FPGA's or ASIC's block RAM.
 * CCI-P's soft caches and Enzian's directory are given as tens of nanoseconds with all that is around them.
 */
const LOOK_UP_PS: Time = 30 * PS_PER_NS;
/** A message or access has come: it is looked up. What it causes departs later by that. */
export function spendLookUp(device: Device): void {
  device.stageAt += LOOK_UP_PS;
}

/** What has come from one side goes on to the other: the protocol conversion (C-01, C-02). */
export function spendConversion(device: Device): void {
  device.stageAt += device.timing.convertPs;
}
