/** Replies of the firmware without a result: done, or refused. */
import type { Device } from "./device.ts";
import type { RingPlace, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";

export const DONE: RnicReply = { status: "ok", op: "done" };

/** `reason` has what was found and expected. */
export function refusal(
  errno: Extract<RnicReply, { status: "error" }>["errno"],
  reason: string,
): RnicReply {
  return { status: "error", errno, reason };
}

export function noSuch(object: string, number: number): RnicReply {
  return refusal("ENOENT", `There is no ${object} ${number}`);
}

export function noQueueLeft({ spaces }: Device): RnicReply {
  return refusal("ENOMEM", `All ${spaces!.queues} queues are taken`);
}

export function ringFault(name: string, ring: RingPlace, most: number): string | undefined {
  const { units } = ring;
  const isPower = Number.isInteger(units) && units >= 2 && units <= most &&
    (units & (units - 1)) === 0;
  return isPower
    ? undefined
    : `${name} units must be a power of two from 2 to ${most}: they are ${units}`;
}
