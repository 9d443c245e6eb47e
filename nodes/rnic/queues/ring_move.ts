/**
 * A send or receive queue moves to another ring or depth, paused and at rest. A WQE keeps
 * its distance from the read pointer, which is taken modulo the new depth: the driver computes the
 * same. In the same memory a larger ring moves only WQEs behind the old ring's end, a smaller one
 * none.
 */
import { filledUnits, ringDistance } from "../../../fabric/wire/host_bus/queue_information.ts";
import { allocate, viewOf } from "../../../fabric/base/slab.ts";
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { renumberWqe, unitsOfWqe, WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import { dmaRead, dmaWrite } from "../dma/dma.ts";
import type { Device, QueueOwner } from "../state/device.ts";
import type { Continuation } from "../state/dma_state.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { writeSpace2 } from "./install.ts";
import { coversQueueInformation, writeSpace1 } from "./queue_information.ts";

/** Positions and slots have 16 bits. */
const UNITS_MAX = 2 ** 16;

export type UnitsRead = Omit<Extract<Continuation, { readonly kind: "ring-units" }>, "kind">;

export function refuseMove(
  device: Device,
  entry: QueueEntry,
  ring: RingPlace,
): { readonly errno: "EINVAL" | "EBUSY"; readonly reason: string } | undefined {
  const { queue, kind } = entry;
  const { units } = ring;
  if (kind === "cq") {
    const reason = `Queue ${queue} is a completion queue: resize-cq changes its depth`;
    return { errno: "EINVAL", reason };
  }
  if (!Number.isInteger(units) || units < 2 || units > UNITS_MAX || (units & (units - 1)) !== 0) {
    const reason = `The depth must be a power of two from 2 to ${UNITS_MAX}: it is ${units}`;
    return { errno: "EINVAL", reason };
  }
  // The RNIC writes the moved units.
  const memory = { address: ring.address, length: units * entry.unitBytes };
  if (coversQueueInformation(device, memory)) {
    return { errno: "EINVAL", reason: `${units} units of queue ${queue} reach queue information` };
  }
  if (units >= entry.depth) return undefined;
  const first = oldestOf(device.owners[queue]!) ?? entry.own;
  const length = ringDistance(first, entry.own, entry.depth) + filled(entry);
  if (length === 0 || (first + length <= units && length < units)) return undefined;
  const reason = `WQEs of queue ${queue} reach from unit ${first} to ${first + length - 1}: ` +
    `${units} units do not hold them`;
  return { errno: "EBUSY", reason };
}

function filled({ own, host, depth }: QueueEntry): number {
  return filledUnits(own, host, depth);
}

function oldestOf(owner: QueueOwner): number | undefined {
  switch (owner.kind) {
    case "sq":
      return owner.qp.requester.work.peek()?.position ??
        (owner.qp.sq.partial === undefined ? undefined : owner.qp.sq.partialPosition);
    case "rq":
      return receivesOf(owner.qp)[0]?.position;
    case "srq":
    case "cq":
      return undefined;
  }
}

function receivesOf({ rq, responder }: QueuePair): { position: number }[] {
  const held = [responder.open?.recv, responder.granted].filter((recv) => recv !== undefined);
  for (let at = rq.fetched.first; at < rq.fetched.end; at++) held.push(rq.fetched.at(at)!);
  return held;
}

/** @returns 0 where no unit changes its address. */
export function unitsToMove(entry: QueueEntry, { address, units }: RingPlace): number {
  const unread = filled(entry);
  const stays = address === entry.wqeAddress &&
    (units < entry.depth || entry.own + unread <= entry.depth);
  return stays ? 0 : unread;
}

export function readUnits(device: Device, entry: QueueEntry, read: UnitsRead): void {
  const { own, depth, unitBytes, wqeAddress } = entry;
  const done = (read.before?.length ?? 0) / unitBytes;
  const at = (own + done) % depth;
  const units = Math.min(read.move.units - done, depth - at);
  dmaRead(device, {
    address: wqeAddress + at * unitBytes,
    length: units * unitBytes,
    continuation: { kind: "ring-units", ...read },
  });
}

export function writeUnits(
  device: Device,
  { own, unitBytes, queue }: QueueEntry,
  to: { readonly ring: RingPlace; readonly bytes: Uint8Array<ArrayBuffer> },
): void {
  const { ring: { address, units }, bytes } = to;
  const owner = device.owners[queue]!;
  const at = own % units;
  if (owner.kind === "sq") renumber(owner.qp, bytes, { at, units });
  const straight = Math.min(bytes.length, (units - at) * unitBytes);
  dmaWrite(device, { address: address + at * unitBytes, data: bytes.slice(0, straight) });
  if (straight < bytes.length) dmaWrite(device, { address, data: bytes.slice(straight) });
}

/** Each WQE contains its position, by which its completion names it. */
function renumber(
  { sq }: QueuePair,
  bytes: Uint8Array<ArrayBuffer>,
  place: { readonly at: number; readonly units: number },
): void {
  let unit = sq.partial === undefined
    ? 0
    : unitsOfWqe(viewOf(sq.partial))! - sq.partial.length / WQE_UNIT_BYTES;
  while (unit * WQE_UNIT_BYTES < bytes.length) {
    const view = viewOf(bytes.subarray(unit * WQE_UNIT_BYTES));
    renumberWqe(view, (place.at + unit) % place.units);
    unit += unitsOfWqe(view) ?? 1;
  }
}

/**
 * Changes the chip, then spaces 1 and 2. The host's pointer counts as stored now: older ones in
 * space 3 or a doorbell are then known as older.
 */
export function takeRing(device: Device, entry: QueueEntry, ring: RingPlace): void {
  const owner = device.owners[entry.queue]!;
  const unread = filled(entry);
  const { own, depth } = entry;
  const to = ring.units;
  const placeOf = (position: number) =>
    (own % to + to - ringDistance(position, own, depth) % to) % to;
  renumberChip(owner, placeOf);
  entry.wqeAddress = ring.address;
  entry.depth = to;
  entry.own = own % to;
  entry.host = (entry.own + unread + to - 1) % to;
  entry.stamp = Math.max(device.now, entry.stamp + 1);
  entry.recycled = true;
  device.moved.set(entry.queue, { pointer: entry.host, stamp: entry.stamp });
  if (owner.kind === "sq") owner.qp.rings.sq = ring;
  else if (owner.kind === "rq") owner.qp.rings.rq = ring;
  else if (owner.kind === "srq") owner.srq.ring = ring;
  writeSpace1(device, entry);
  writeSpace2(device, entry);
}

function renumberChip(owner: QueueOwner, placeOf: (position: number) => number): void {
  if (owner.kind === "sq") {
    const { sq, requester: { work } } = owner.qp;
    for (let at = work.first; at < work.end; at++) {
      const wqe = work.at(at)!;
      wqe.position = placeOf(wqe.position);
      wqe.index = placeOf(wqe.index);
    }
    if (sq.partial === undefined) return;
    sq.partialPosition = placeOf(sq.partialPosition);
    renumberWqe(viewOf(sq.partial), sq.partialPosition);
  } else if (owner.kind === "rq") {
    for (const recv of receivesOf(owner.qp)) recv.position = placeOf(recv.position);
  }
}

export function joined(head: Uint8Array, tail: Uint8Array): Uint8Array<ArrayBuffer> {
  const bytes = allocate(head.length + tail.length);
  bytes.set(head);
  bytes.set(tail, head.length);
  return bytes;
}
