/**
 * BlueFlame at the RNIC: collects the driver's stores into write-combined buffers, and takes the
 * WQE from there if it is whole when its doorbell is, and is the next of its queue. Else the card
 * fetches it from the ring, which has it too.
 */
import {
  BUFFER_BYTES,
  type BufferPlace,
  decodeBlueFlameDoorbell,
  WORD_BYTES,
} from "../../../fabric/wire/host_bus/blue_flame.ts";
import { filledUnits } from "../../../fabric/wire/host_bus/queue_information.ts";
import { allocate, viewOf } from "../../../fabric/base/slab.ts";
import { unitsOfWqe, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Device } from "../state/device.ts";
import { rights } from "../state/life_cycle.ts";
import { LIMITS } from "../state/limits.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { DoorbellContent, TakenDoorbell, WriteCombined } from "../state/queues.ts";
import { isPaused } from "./pause.ts";
import { takeWork } from "./send_queue.ts";
import { traceUnits } from "../trace/queue_trace.ts";

const WORDS = BUFFER_BYTES / WORD_BYTES;
const DOORBELL_WORDS = 2;

/**
 * Takes some words of a buffer. Each comes once per doorbell, in any order, all before those of the next (`sfence`).
 * @returns the doorbell, once it is whole; "refused" where these are no words of a buffer, or the doorbell is none
 * of its queue.
 */
export function takePiece(
  device: Device,
  { buffer, at }: BufferPlace,
  data: Uint8Array,
): TakenDoorbell | "refused" | undefined {
  if (buffer >= 2 * LIMITS.queues || at + data.length > BUFFER_BYTES) return "refused";
  if (data.length === 0 || (at | data.length) % WORD_BYTES !== 0) return "refused";
  // The other buffer's WQE has lost its doorbell: its remaining words would become part of a later
  // WQE.
  device.blueFlame.delete(buffer ^ 1);
  let collected = device.blueFlame.get(buffer);
  if (collected === undefined) {
    collected = { bytes: allocate(BUFFER_BYTES), words: allocate(WORDS) };
    device.blueFlame.set(buffer, collected);
  }
  const { bytes, words } = collected;
  for (let from = 0; from < data.length; from += WORD_BYTES) {
    const word = (at + from) / WORD_BYTES;
    // Late words belong to an abandoned WQE.
    words[word] = words[word] === LATE ? MISSING : HERE;
    if (words[word] === HERE) bytes.set(data.subarray(from, from + WORD_BYTES), at + from);
  }
  for (let word = WORDS - DOORBELL_WORDS; word < WORDS; word++) {
    if (words[word] !== HERE) return undefined;
  }
  return takeDoorbell(device, buffer, collected);
}

const MISSING = 0, HERE = 1, LATE = 2;

function takeDoorbell(
  device: Device,
  buffer: number,
  { bytes, words }: WriteCombined,
): TakenDoorbell | "refused" {
  const doorbell = decodeBlueFlameDoorbell(bytes);
  const isOfQueue = doorbell !== undefined && doorbell.queue === buffer >>> 1;
  let missing = 0;
  if (isOfQueue) {
    for (let word = doorbell.start / WORD_BYTES; word < WORDS; word++) {
      if (words[word] !== HERE) missing++;
      words[word] = words[word] === HERE ? MISSING : LATE;
    }
  }
  if (missing === 0) device.blueFlame.delete(buffer);
  if (!isOfQueue) return "refused";
  const { queue, write, wqeStart, wqeBytes } = doorbell;
  if (missing > 0) return { queue, write };
  return { queue, write, wqe: bytes.subarray(wqeStart, wqeStart + wqeBytes) };
}

/**
 * Takes the WQE where a fetch would bring the same: the next of its queue, and the newest. @returns
 * whether it was taken.
 */
export function takeCarried(
  device: Device,
  entry: QueueEntry,
  carried: { readonly qp: QueuePair } & DoorbellContent,
): boolean {
  const { qp, wqe, write } = carried;
  if (wqe === undefined || write === undefined) return false;
  const units = Math.ceil(wqe.length / WQE_UNIT_BYTES);
  const bytes = allocate(units * WQE_UNIT_BYTES);
  bytes.set(wqe);
  if (unitsOfWqe(viewOf(bytes)) !== units || !isNext(entry, write, units) || !hasRoom(device, qp)) {
    device.counters.blueFlameFetched++;
    return false;
  }
  device.counters.blueFlameTaken++;
  if (device.out.tracing) {
    const { queue, own: from } = entry;
    traceUnits(device, queue, { step: "wqe-carried", from, to: from + units });
  }
  takeWork(device, { qp, entry, units }, bytes);
  return true;
}

function isNext(
  { own, host, stamp, depth }: QueueEntry,
  write: NonNullable<TakenDoorbell["write"]>,
  units: number,
): boolean {
  return write.stamp === stamp && write.pointer === host && filledUnits(own, host, depth) === units;
}

function hasRoom(device: Device, { sq, sqQueue, state, requester }: QueuePair): boolean {
  const { startsWork, flushesSends } = rights(state);
  return !sq.busy && !isPaused(device, sqQueue) && sq.partial === undefined &&
    (startsWork || flushesSends) &&
    requester.work.length < LIMITS.workPerQueuePair;
}
