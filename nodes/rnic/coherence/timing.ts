/** Where the time of a coherent card goes, beside that of its ports. */
import type { Device } from "../state/device.ts";

/** A message or access has come: it is looked up. What it causes departs later by that. */
export function spendLookUp(device: Device): void {
  device.stageAt += device.timing.lookUpPs;
}

/** What has come from one side goes on to the other: the protocol conversion (C-01, C-02). */
export function spendConversion(device: Device): void {
  device.stageAt += device.timing.convertPs;
}
