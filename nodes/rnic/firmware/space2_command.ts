/**
 * Changes of a queue's space 2: by value, under the lock, or with another ring. The
 * queue is paused meanwhile (`queues/paused_queue.ts`), so the answer comes later.
 */
import { LOCK_ANSWER_BYTES } from "../../../fabric/wire/host_bus/lock_answer.ts";
import type { CommandOf, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { answer } from "../queues/pause.ts";
import { pauseQueue, releaseLock } from "../queues/paused_queue.ts";
import { coversQueueInformation } from "../queues/queue_information.ts";
import type { Device } from "../state/device.ts";
import { DONE, noSuch, refusal } from "../state/reply.ts";

function refusePause(device: Device, queue: number): RnicReply | undefined {
  if (device.owners[queue] === undefined) return noSuch("queue", queue);
  const pause = device.pauses.get(queue);
  if (pause === undefined) return undefined;
  const found = pause.task.kind === "lock" ? "locked already" : "being changed";
  return refusal("EBUSY", `Space 2 of queue ${queue} is ${found}`);
}

export function writeSpace2(
  device: Device,
  { queue, offset, data }: CommandOf<"write-space2">,
  command: number,
): RnicReply | "later" {
  const wrong = refusePause(device, queue);
  if (wrong !== undefined) return wrong;
  const most = device.store.bytes[2];
  if (!(offset >= 0) || data.length === 0 || offset + data.length > most) {
    const range = `[${offset}, ${offset + data.length})`;
    return refusal("EINVAL", `Bytes ${range} must lie within the entry's ${most}`);
  }
  pauseQueue(device, queue, { task: { kind: "write", offset, data }, asker: { command } });
  return "later";
}

export function lockSpace2(
  device: Device,
  { queue, answerAt, by }: CommandOf<"lock-space2">,
  command: number,
): RnicReply | "later" {
  if (device.store.bytes[2] === 0) {
    return refusal("EINVAL", "The placement has no field in space 2");
  }
  if (answerAt !== undefined) {
    const word = { address: answerAt, length: LOCK_ANSWER_BYTES };
    const reason = `The answer's word at 0x${answerAt.toString(16)} lies in queue information`;
    if (coversQueueInformation(device, word)) return refusal("EINVAL", reason);
  }
  const asker = answerAt === undefined ? { command } : { answerAt };
  const denied = refusePause(device, queue);
  if (denied !== undefined) device.counters.locksDenied++;
  if (denied === undefined) {
    pauseQueue(device, queue, { task: { kind: "lock", ...(by !== undefined && { by }) }, asker });
  } else if (device.owners[queue] === undefined) return denied;
  else answer(device, asker, denied);
  return answerAt === undefined ? "later" : DONE;
}

export function unlockSpace2(
  device: Device,
  { queue }: CommandOf<"unlock-space2">,
  command: number,
): RnicReply | "later" {
  if (device.owners[queue] === undefined) return noSuch("queue", queue);
  const pause = device.pauses.get(queue);
  if (pause?.stage !== "locked") {
    return refusal("EINVAL", `Space 2 of queue ${queue} is not locked, or no longer`);
  }
  releaseLock(device, pause, command);
  return "later";
}

export function expandQueue(
  device: Device,
  { queue, ring }: CommandOf<"expand-queue">,
  command: number,
): RnicReply | "later" {
  const wrong = refusePause(device, queue);
  if (wrong !== undefined) return wrong;
  pauseQueue(device, queue, { task: { kind: "move", ring }, asker: { command } });
  return "later";
}
