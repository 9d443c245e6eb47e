/**
 * The fill of a ring, by the RNIC's pointer in queue information. It shows earlier than
 * completions which units the RNIC has taken.
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

/** The fill of a queue, in units of its ring. */
export interface QueueFill {
  /** The next unit that the RNIC reads, or an earlier one: never a later one. */
  readonly read: number;
  /** The last unit filled. */
  readonly write: number;
  /** Units filled and not taken; with the free ones they are `depth − 1`. */
  readonly filled: number;
  /** Free units: a lower bound. */
  readonly free: number;
}

/** The fill of a pair's send or receive queue. ENOENT where its RNIC has failed since. */
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
    // The pointer is the old ring's where another program resizes the queue.
  } while (ring.resizing || ring.depth !== depth);
  const { write } = ring;
  const filled = ringDistance(read, (write + 1) % depth, depth);
  return { read, write, filled, free: depth - 1 - filled };
}

/**
 * The pointer's copy in host memory, or the end of the completed units where that is later. The
 * copy is behind by less than a quarter of the ring, counted from any present completion (the
 * RNIC's `tellPointer`). In a fuller ring it could be of the pass before, and is ignored, as it
 * always is where the RNIC writes it at evictions only.
 */
export function* takenUpTo({ cpu, state }: Device, ring: Ring): Steps<number> {
  const { queue, tail, depth } = ring;
  if (!isCopyOf(state, ring)) return tail;
  const address = fieldAddress(state.store, state, { queue, field: "rnicPointer" });
  const copy = decodeField("rnicPointer", yield* cpu.read(address, fieldBytes("rnicPointer")));
  // Units that have completed meanwhile count as taken.
  return ringDistance(ring.tail, copy, depth) <= ring.used ? copy : ring.tail;
}

function isCopyOf(
  { readPointer }: Device["state"],
  { used, depth }: Pick<Ring, "used" | "depth">,
): boolean {
  return readPointer === "batched" && used <= depth - depth / 4;
}

/**
 * All stored information of a queue, by one read of each space. The RNIC's pointer is the
 * stored one, or the one by completions where that is later (mlx5: a CQE's `wqe_counter`): in every
 * scheme it is never ahead of the RNIC, and never behind the last completion that was taken. With
 * `readPointer: batched` it is less than a quarter of the ring behind any present completion, taken
 * or not; by default (`at-eviction`) the RNIC writes the word in memory when the queue leaves its
 * cache, and a host cannot use it before. With `store: device` the information may be of a queue of
 * this host's earlier life, see `DeviceState.kept`. ENOENT for an invalid number.
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
    // Receives complete in any order, but were taken in the ring's: at least as many as have
    // completed.
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
    // The copy is at most a quarter of the ring behind: a distance above half means ahead.
    return state.readPointer === "batched" && ringDistance(rnicPointer, seen, depth) > depth / 2
      ? rnicPointer
      : seen;
  }
  return rnicPointer;
}
