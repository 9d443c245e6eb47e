/**
 * The card's event queue: a completion queue, named by `set-event-queue`, whose entries are
 * asynchronous events. A full one takes no more events: the driver gives it room
 * for as many as it can leave.
 */
import { entryOfEvent } from "../../../fabric/wire/host_bus/event_entry.ts";
import type {
  CommandOf,
  RnicEvent,
  RnicReply,
} from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device } from "../state/device.ts";
import { complete } from "./completion_queue.ts";

/** The queue has a user then, and cannot be destroyed. */
export function setEventQueue(
  device: Device,
  { cqn }: CommandOf<"set-event-queue">,
): RnicReply | undefined {
  const queue = device.completionQueues.get(cqn);
  if (queue === undefined) return undefined;
  if (device.eventQueue !== undefined) device.eventQueue.users--;
  device.eventQueue = queue;
  queue.users++;
  return { status: "ok", op: "done" };
}

export function queueEvent(device: Device, event: RnicEvent): void {
  complete(device, device.eventQueue!.cqn, entryOfEvent(event));
}
