/**
 * Whether a queue is paused, and the end of a pause whose queue is gone. What a pause is
 * for, and how it goes on, is in `paused_queue.ts`.
 */
import { type Device, sendReply } from "../state/device.ts";

/** While it is, nothing of the queue is fetched or written, and its completions are held. */
export function isPaused({ pauses }: Device, queue: number): boolean {
  return pauses.size > 0 && pauses.has(queue);
}

/** The queue is emptied or destroyed: its pause ends with it, and a command that waits is refused. */
export function dropPause(device: Device, queue: number): void {
  const pause = device.pauses.get(queue);
  if (pause === undefined) return;
  device.pauses.delete(queue);
  if (pause.command === undefined) return;
  const reason = `Queue ${queue} was emptied meanwhile`;
  sendReply(device, pause.command, { status: "error", errno: "ENOENT", reason });
}
