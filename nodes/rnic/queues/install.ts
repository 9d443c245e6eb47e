/**
 * Queues come and go by command: their numbers, their entries in spaces 1 and 2, and the state in
 * space 1 that the host looks at. Space 3 is the host's alone.
 */
import {
  encodeSpace1,
  encodeSpace2,
  type QueueState,
  type Space1,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device, QueueOwner } from "../state/device.ts";
import { dmaWrite } from "../dma/dma.ts";
import { forgetPieces } from "./blue_flame.ts";
import { createEntry, spaceAddress, writeBack, writeSpace1 } from "./queue_information.ts";

/** The lowest queue numbers that are free, undefined where there are not as many. */
export function freeQueues(device: Device, count: number): number[] | undefined {
  const most = device.spaces?.queues ?? 0;
  const free: number[] = [];
  for (let queue = 0; queue < most && free.length < count; queue++) {
    if (device.owners[queue] === undefined) free.push(queue);
  }
  return free.length === count ? free : undefined;
}

interface NewQueue {
  readonly queue: number;
  readonly ring: RingPlace;
  readonly unitBytes: number;
  readonly state: QueueState;
  /** The RNIC's own pointer; an empty ring's by default. */
  readonly own?: number;
}

/** Lays out an empty queue: spaces 1 and 2 in host memory, and the entry in the cache. */
export function installQueue(device: Device, owner: QueueOwner, plan: NewQueue): void {
  const { queue, ring, unitBytes, state } = plan;
  const { kind } = owner;
  forgetQueue(device, queue);
  device.owners[queue] = owner;
  const depth = ring.units;
  // The RNIC's own pointer: next to take of a send or receive queue, last filled of a CQ.
  const own = plan.own ?? (kind === "cq" ? depth - 1 : 0);
  const entry = createEntry(device, {
    queue,
    kind,
    owner: "qp" in owner ? owner.qp.qpn : queue,
    wqeAddress: ring.address,
    indexAddress: spaceAddress(device, queue, 1),
    depth,
    unitBytes,
    state,
    valid: true,
    pointer: own,
    recycled: false,
  });
  writeBack(device, device.cache.insert(entry, device.now));
  writeSpace1(device, entry);
  writeSpace2(device, queue, encodeSpace2({ depth, unitBytes }));
}

/** Writes bytes of space 2 for the host. */
export function writeSpace2(
  device: Device,
  queue: number,
  data: Uint8Array<ArrayBuffer>,
  offset = 0,
): void {
  dmaWrite(device, {
    address: spaceAddress(device, queue, 2) + offset,
    data,
  });
}

/** Space 1 of a queue number that is free. */
const NO_QUEUE: Space1 = {
  wqeAddress: 0,
  indexAddress: 0,
  kind: "sq",
  state: "reset",
  valid: false,
  owner: 0,
  pointer: 0,
};

/** Offset of the state's byte in a space 1 entry. */
const STATE_OFFSET = 17;

/** Writes a queue's state for the host: one byte, as the rest may be newer in memory than on the chip. */
export function writeState(device: Device, queue: number, state: QueueState): void {
  const entry = device.cache.find(queue);
  if (entry !== undefined) entry.state = state;
  dmaWrite(device, {
    address: spaceAddress(device, queue, 1) + STATE_OFFSET,
    data: encodeSpace1({ ...NO_QUEUE, state }).slice(STATE_OFFSET, STATE_OFFSET + 1),
  });
}

/** The queue is gone: its number is free, its entry invalid. */
export function removeQueue(device: Device, queue: number): void {
  forgetQueue(device, queue);
  device.owners[queue] = undefined;
  device.locked.delete(queue);
  dmaWrite(device, {
    address: spaceAddress(device, queue, 1),
    data: encodeSpace1(NO_QUEUE),
  });
}

/** Drops what the chip knows of the queue; a look-up under way has no waiter any more. */
function forgetQueue(device: Device, queue: number): void {
  device.cache.remove(queue);
  forgetPieces(device, queue);
  const load = device.loads.get(queue);
  if (load === undefined) return;
  load.void = true;
  device.loads.delete(queue);
}
