/**
 * How full a ring is, as the RNIC tells in queue information. The driver itself frees units by
 * completions; the RNIC's pointer says which ones it has taken before those come.
 */
import { ringDistance } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeEntry,
  decodeField,
  entryAddress,
  fieldAddress,
  fieldBytes,
  type QueueFields,
  SPACES,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { refuseQp, verbError } from "./device.ts";
import { awaitRing } from "./resize_queue.ts";
import type { Steps } from "../cpu/program.ts";
import type { Device, Qp, Ring, VerbError } from "./objects.ts";

/** How full a queue is, in units of its ring. */
export interface QueueFill {
  /** The next unit that the RNIC reads, or an earlier one: never a later one. */
  readonly read: number;
  /** The last unit filled. */
  readonly write: number;
  /** Units filled and not taken; with those that are free they are `depth − 1`. */
  readonly filled: number;
  /** Units free: never too many. */
  readonly free: number;
}

/** How full the send or the receive queue of a pair is. ENOENT where its RNIC has failed since. */
export function* queueFill(qp: Qp, which: "send" | "recv"): Steps<QueueFill | VerbError> {
  const { device } = qp;
  const gone = refuseQp(qp);
  if (gone !== undefined) return gone;
  const ring = which === "send" ? qp.sq : qp.rq;
  let read: number, depth: number;
  do {
    yield* awaitRing(device, ring);
    read = yield* takenUpTo(device, ring);
    ({ depth } = ring);
    yield* device.cpu.settle();
    // What was read is about the old ring where another program resizes the queue meanwhile.
  } while (ring.resizing || ring.depth !== depth);
  const { write } = ring;
  const filled = ringDistance(read, (write + 1) % depth, depth);
  return { read, write, filled, free: depth - 1 - filled };
}

/**
 * The read pointer in host memory, or the end of what has completed where that is later. The RNIC's
 * copy is behind by less than a quarter of the ring, counted from any completion that is there
 * (`tellPointer` of the RNIC): nearer to full than that it could be of the pass before, and is not
 * believed; nor at all where the RNIC tells it at evictions only.
 */
export function* takenUpTo({ cpu, state }: Device, ring: Ring): Steps<number> {
  const { queue, tail, depth } = ring;
  if (!isCopyOf(state, ring)) return tail;
  const address = fieldAddress(state.store, state, { queue, field: "rnicPointer" });
  const copy = decodeField("rnicPointer", yield* cpu.read(address, fieldBytes("rnicPointer")));
  // Time may have passed: what has completed meanwhile is taken.
  return ringDistance(ring.tail, copy, depth) <= ring.used ? copy : ring.tail;
}

/** Whether the RNIC's copy of its pointer can be of this pass of the ring alone. */
function isCopyOf(
  { readPointer }: Device["state"],
  { used, depth }: Pick<Ring, "used" | "depth">,
): boolean {
  return readPointer === "batched" && used <= depth - depth / 4;
}

/**
 * All that is stored of a queue, a read of each space. The pointer that the RNIC moves is given as completions
 * tell it, where that is later (mlx5: a CQE's `wqe_counter`): in every scheme it is never ahead of the RNIC, and never
 * behind the last completion that was taken. With `readPointer: batched` it is less than a quarter of the ring behind
 * any completion that is there, taken or not; by default (`at-eviction`) the word in memory is where the RNIC keeps
 * the queue that has left its cache, and means nothing to a host before. At `store: device` all may be what a queue of
 * this host's earlier life has left, see `DeviceState.kept`.
 * ENOENT for a number that no queue can have.
 */
export function* queueInformation(
  { cpu, state }: Device,
  queue: number,
): Steps<QueueFields | VerbError> {
  if (!(queue >= 0 && queue < state.queues)) {
    return verbError("ENOENT", `There is no queue ${queue}`);
  }
  const found: Partial<QueueFields> = {};
  for (const space of SPACES) {
    const length = state.store.bytes[space];
    if (length === 0) continue;
    const at = entryAddress(state.store, state, { queue, space });
    Object.assign(found, decodeEntry(state.store, space, yield* cpu.read(at, length)));
  }
  yield* cpu.settle();
  const stored = found as QueueFields;
  return { ...stored, rnicPointer: seenPointer(state, queue, stored) };
}

/** The RNIC's pointer as it is stored, or the end of what this host has seen completed where that is later. */
function seenPointer(
  state: Device["state"],
  queue: number,
  { rnicPointer, depth }: QueueFields,
): number {
  for (const { sq, rq } of state.queuePairs.values()) {
    const ring = sq.queue === queue ? sq : rq?.queue === queue ? rq : undefined;
    if (ring?.depth !== depth) continue;
    return isCopyOf(state, ring) && ringDistance(ring.tail, rnicPointer, depth) <= ring.used
      ? rnicPointer
      : ring.tail;
  }
  for (const { ring, caps } of state.sharedReceiveQueues.values()) {
    if (ring.queue !== queue || ring.depth !== depth) continue;
    // Receives complete in any order, but are taken in the ring's: as many as have completed, at least.
    const outstanding = caps.maxWr - ring.free.length;
    const seen = (ring.write + 1 - outstanding + depth) % depth;
    return isCopyOf(state, { used: outstanding, depth }) &&
        ringDistance(seen, rnicPointer, depth) <= outstanding
      ? rnicPointer
      : seen;
  }
  for (const { place: { queue: number, taken }, entries } of state.completionQueues.values()) {
    if (number !== queue || entries !== depth) continue;
    const seen = taken % depth;
    // The copy follows the entries, a quarter of the ring behind them at most: half is neither that nor ahead.
    return state.readPointer === "batched" && ringDistance(rnicPointer, seen, depth) > depth / 2
      ? rnicPointer
      : seen;
  }
  return rnicPointer;
}
