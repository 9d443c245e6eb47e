/**
 * the queue information *is* the queue pair's context: the send queue's for sent requests and
 * received responses, the receive queue's for received requests and their answers. A packet needs
 * its half on the chip; on a miss it waits, and later ones behind it, in order. A queue that was
 * just made or reset is in the cache, as the card has written its context itself.
 */
import type { Device } from "../state/device.ts";
import { LIMITS } from "../state/limits.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { ContextWait } from "../state/queues.ts";
import type { PacketIn } from "../state/responder_state.ts";
import type { ControlFrame } from "../state/tx_frame.ts";
import { traceContextWait } from "../trace/queue_trace.ts";
import { findQueue } from "./queue_information.ts";

export type ContextHalf = "requester" | "responder";

/** A queue pair with a shared receive queue has no receive queue of its own. */
function queueOf({ sqQueue, rqQueue, srq }: QueuePair, half: ContextHalf): number {
  return half === "requester" || srq !== undefined ? sqQueue : rqQueue;
}

function awaitContext(device: Device, qp: QueuePair, half: ContextHalf): ContextWait | undefined {
  if (qp.card !== undefined) return undefined;
  const { cache, contextWaits, counters, hints, now, up } = device;
  const queue = queueOf(qp, half);
  const waiting = contextWaits.get(queue);
  if (waiting !== undefined) {
    if (hints !== undefined) up.redeemContext(hints, { queue, now }, "coming");
    return waiting;
  }
  const entry = cache.find(queue);
  if (entry !== undefined && !(cache.isAbsent && entry.pins === 0)) {
    if (hints !== undefined) up.redeemContext(hints, { queue, now }, "there");
    return undefined;
  }
  if (hints !== undefined) {
    up.redeemContext(hints, { queue, now }, "gone");
    // Its own hint needs the context as the request does: only others' bring it.
    if (half === "responder" && hints.carriers.size + hints.groups.size > 0) {
      up.noteMiss(hints, qp, []);
    }
  }
  counters.contextMisses++;
  return readContext(device, qp, queue);
}

function readContext(device: Device, qp: QueuePair, queue: number): ContextWait {
  const { contextWaits } = device;
  const { life } = qp;
  const wait = { qp, life, queue, packets: [], controls: [], wantsTurn: false };
  contextWaits.set(queue, wait);
  findQueue(device, queue, { kind: "context", wait });
  return wait;
}

/**
 * H-21: the queue whose information a request will need and that is neither on the chip nor on its
 * way.
 */
export function missingContext(device: Device, qp: QueuePair): number | undefined {
  const { cache, contextWaits } = device;
  const queue = queueOf(qp, "responder");
  const isKnown = contextWaits.has(queue) || cache.isAbsent || cache.find(queue) !== undefined;
  return isKnown ? undefined : queue;
}

/** H-21: reads the information of a queue that is neither on the chip nor on its way. */
export function warmContext(device: Device, qp: QueuePair, queue: number): void {
  readContext(device, qp, queue);
}

/** A packet that may not be taken is kept until the context is there, or dropped. */
export function mayTake(
  device: Device,
  qp: QueuePair,
  input: PacketIn,
): "now" | "later" | "too many" {
  const half = input.row.direction === "response" ? "requester" : "responder";
  const wait = awaitContext(device, qp, half);
  if (wait === undefined) return "now";
  if (device.out.tracing && wait.packets.length === 0) {
    const { psn } = input.packet.bth;
    traceContextWait(device, qp, { queue: wait.queue, psn, half });
  }
  if (wait.packets.length >= LIMITS.stalledPackets) return "too many";
  wait.packets.push(input);
  return "later";
}

/** A queue pair that may not begin is scheduled again when it may. */
export function mayBegin(device: Device, qp: QueuePair, half: ContextHalf): boolean {
  const wait = awaitContext(device, qp, half);
  if (wait === undefined) return true;
  if (device.out.tracing && !wait.wantsTurn) {
    traceContextWait(device, qp, { queue: wait.queue, psn: undefined, half });
  }
  wait.wantsTurn = true;
  return false;
}

/** A frame that may not leave is kept until it may. */
export function mayAnswer(device: Device, frame: ControlFrame): boolean {
  const wait = awaitContext(device, frame.qp, "responder");
  wait?.controls.push(frame);
  return wait === undefined;
}

/**
 * The context stays for the turn that the queue pair waits for, as others would evict it from a
 * small cache ({@link releaseContexts}). @returns the waiters; undefined where the queue pair has
 * been reset.
 */
export function takeWaiting(
  device: Device,
  wait: ContextWait,
  entry: QueueEntry,
): ContextWait | undefined {
  const { contextWaits, contextsHeld } = device;
  if (contextWaits.get(wait.queue) !== wait) return undefined;
  contextWaits.delete(wait.queue);
  if (wait.wantsTurn && !contextsHeld.has(wait.queue)) {
    entry.pins++;
    contextsHeld.set(wait.queue, entry);
  }
  return wait;
}

export function releaseContexts({ contextsHeld }: Device, { sqQueue, rqQueue }: QueuePair): void {
  if (contextsHeld.size === 0) return;
  for (const queue of [sqQueue, rqQueue]) {
    const entry = contextsHeld.get(queue);
    if (entry === undefined) continue;
    entry.pins--;
    contextsHeld.delete(queue);
  }
}

export function forgetContext({ contextWaits, contextsHeld }: Device, queue: number): void {
  contextWaits.delete(queue);
  contextsHeld.delete(queue);
}
