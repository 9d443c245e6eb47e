/** `paused_queue.ts` has the tasks and stages of a pause. */
import { encodeLockAnswer } from "../../../fabric/wire/host_bus/lock_answer.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { dmaWrite } from "../dma/dma.ts";
import { type Device, sendReply } from "../state/device.ts";
import type { Asker, Pause } from "../state/queues.ts";

export function isPaused({ pauses }: Device, queue: number): boolean {
  return pauses.size > 0 && pauses.has(queue);
}

/** The queue is emptied or destroyed: a waiting command is refused. */
export function dropPause(device: Device, queue: number): void {
  const pause = device.pauses.get(queue);
  if (pause === undefined) return;
  device.pauses.delete(queue);
  const reason = `Queue ${queue} was emptied meanwhile`;
  answerPause(device, pause, { status: "error", errno: "ENOENT", reason });
}

export function answerPause(device: Device, pause: Pause, reply: RnicReply): void {
  if (pause.asker !== undefined) answer(device, pause.asker, reply);
  pause.asker = undefined;
}

/** Answers by message or in memory. */
export function answer(device: Device, asker: Asker, reply: RnicReply): void {
  if ("command" in asker) return sendReply(device, asker.command, reply);
  const isGranted = reply.status === "ok" && reply.op === "lock-space2";
  const data = encodeLockAnswer(isGranted ? { until: reply.until } : "denied");
  dmaWrite(device, { address: asker.answerAt, data });
}
