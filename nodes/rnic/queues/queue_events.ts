/**
 * Events of queue pairs about completions: they follow those, which may wait for queue information.
 */
import type { RnicEvent } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type Device, raiseEvent } from "../state/device.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { CompletionQueue } from "../state/queues.ts";

export function raiseBehind(device: Device, cqn: number, event: RnicEvent): void {
  const cq = device.completionQueues.get(cqn)!;
  cq.events.push({ behind: cq.written + cq.pending.length, event });
  raiseDue(device, cq);
}

/** An overflowed queue writes nothing more: all of its events are due. */
export function raiseDue(device: Device, { events, written, overflowed }: CompletionQueue): void {
  for (let next = events.peek(); next !== undefined; next = events.peek()) {
    if (next.behind > written && !overflowed) return;
    events.shift();
    raiseEvent(device, next.event);
  }
}

/** Raises SQ_DRAINED, once, where the host asked for it. Called whenever work has completed. */
export function checkDrained(device: Device, qp: QueuePair): void {
  if (!qp.sq.drainNotify || qp.state !== "sqd") return;
  if (qp.requester.work.peek()?.started === true) return;
  qp.sq.drainNotify = false;
  raiseBehind(device, qp.sendCq, { type: "SQ_DRAINED", qpn: qp.qpn });
}
