/**
 * the queue information *is* the queue pair's context. A packet of a queue pair is received or sent while its
 * half of the context is on the chip: the send queue's information for requests that are sent and responses that
 * are received, the receive queue's for received requests and their answers. There is one cache and one rule, and
 * doorbells fill it, too. A queue that was just made or reset is in the cache, as the card has written its context
 * itself. On a miss the packet waits, and later ones behind it, in order.
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

/** A queue pair that receives from a shared queue has one queue of its own. */
function queueOf({ sqQueue, rqQueue, srq }: QueuePair, half: ContextHalf): number {
  return half === "requester" || srq !== undefined ? sqQueue : rqQueue;
}

/** @returns the wait for the context, undefined where it is on the chip. */
function awaitContext(device: Device, qp: QueuePair, half: ContextHalf): ContextWait | undefined {
  // The firmware's own contexts are always on the chip.
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
 * H-21: the queue whose information a request to the queue pair will need, where it is neither on the chip nor on
 * its way; else undefined.
 */
export function missingContext(device: Device, qp: QueuePair): number | undefined {
  const { cache, contextWaits } = device;
  const queue = queueOf(qp, "responder");
  const isKnown = contextWaits.has(queue) || cache.isAbsent || cache.find(queue) !== undefined;
  return isKnown ? undefined : queue;
}

/** Reads a context that {@link missingContext} named: no packet waits for it yet. */
export function warmContext(device: Device, qp: QueuePair, queue: number): void {
  readContext(device, qp, queue);
}

/** Whether a packet may be taken now: else it is kept until the context is there, or dropped. */
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

/** Whether the queue pair may begin a data frame now: else it is scheduled again when it may. */
export function mayBegin(device: Device, qp: QueuePair, half: ContextHalf): boolean {
  const wait = awaitContext(device, qp, half);
  if (wait === undefined) return true;
  if (device.out.tracing && !wait.wantsTurn) {
    traceContextWait(device, qp, { queue: wait.queue, psn: undefined, half });
  }
  wait.wantsTurn = true;
  return false;
}

/** Whether a responder's control frame may leave now: else it is kept until it may. */
export function mayAnswer(device: Device, frame: ControlFrame): boolean {
  const wait = awaitContext(device, frame.qp, "responder");
  wait?.controls.push(frame);
  return wait === undefined;
}

/**
 * The context has come. It stays for the turn that the queue pair waits for: others may come first, and would evict
 * it from a small cache ({@link releaseContexts}).
 * @returns the waiters; undefined where the queue pair has been reset.
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

/** The queue pair has had its turn. */
export function releaseContexts({ contextsHeld }: Device, { sqQueue, rqQueue }: QueuePair): void {
  if (contextsHeld.size === 0) return;
  for (const queue of [sqQueue, rqQueue]) {
    const entry = contextsHeld.get(queue);
    if (entry === undefined) continue;
    entry.pins--;
    contextsHeld.delete(queue);
  }
}

/** The queue is made anew, or gone: drops its waiters. */
export function forgetContext({ contextWaits, contextsHeld }: Device, queue: number): void {
  contextWaits.delete(queue);
  contextsHeld.delete(queue);
}
