/**
 * Doorbells: writes into the device's registers, kept in order until the scheduling module
 * takes them; a taken entry is free again.
 */
import type { RegisterWrite } from "../../../fabric/wire/host_bus/pcie.ts";
import {
  CQ_ARM_OFFSET,
  decodeCqArm,
  decodeDoorbell,
  DOORBELL_OFFSET,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import { arm } from "./completion_queue.ts";
import type { Device } from "../state/device.ts";

/** A core has written to the BAR. What is no doorbell is counted and ignored. */
export function writeRegister(device: Device, write: RegisterWrite): void {
  if (write.offset === DOORBELL_OFFSET) {
    const doorbell = decodeDoorbell(write.data);
    if (doorbell !== undefined) {
      device.counters.doorbells++;
      device.doorbells.push(doorbell);
      return;
    }
  } else if (write.offset === CQ_ARM_OFFSET) {
    const request = decodeCqArm(write.data);
    if (request !== undefined) return arm(device, request);
  }
  device.counters.doorbellsRefused++;
}
