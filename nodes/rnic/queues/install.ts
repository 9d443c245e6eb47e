/** Creation and removal of queues. Space 3 is the host's alone. */
import {
  encodeEntry,
  type QueueFields,
  type QueueState,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { RingPlace } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { Device, QueueOwner } from "../state/device.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { dmaWrite } from "../dma/dma.ts";
import { forgetContext } from "./context.ts";
import { dropDoorbells, forgetPieces } from "./doorbell_space.ts";
import { dropPause } from "./pause.ts";
import {
  createEntry,
  spaceAddress,
  writeBack,
  writeField,
  writeSpace1,
} from "./queue_information.ts";

/**
 * The search begins at the lowest number that may be free: n queues take n looks, not n² / 2
 * . @returns undefined where there are not enough.
 */
export function freeQueues(device: Device, count: number): number[] | undefined {
  const { owners, lowestFree, spaces } = device;
  const most = spaces?.queues ?? 0;
  const free: number[] = [];
  for (let queue = lowestFree.queue; queue < most && free.length < count; queue++) {
    if (owners[queue] === undefined) free.push(queue);
  }
  lowestFree.queue = free[0] ?? most;
  return free.length === count ? free : undefined;
}

export function freeSlot({ slots, lowestFree }: Device): number {
  while (slots[lowestFree.slot] !== undefined) lowestFree.slot++;
  return lowestFree.slot;
}

export function leaveSlot({ slots, lowestFree }: Device, { slot }: QueuePair): void {
  slots[slot] = undefined;
  lowestFree.slot = Math.min(lowestFree.slot, slot);
}

/**
 * The card's own pointer; in the classic scheme the host's, which the card reads there
 * (Q-10).
 */
function indexAddress(device: Device, queue: number): number {
  return spaceAddress(device, queue, device.scheme === "classic" ? 3 : 1);
}

interface NewQueue {
  readonly queue: number;
  readonly ring: RingPlace;
  readonly unitBytes: number;
  readonly state: QueueState;
  readonly own?: number;
}

export function installQueue(device: Device, owner: QueueOwner, plan: NewQueue): void {
  const { queue, ring, unitBytes, state } = plan;
  const { kind } = owner;
  forgetQueue(device, queue);
  device.owners[queue] = owner;
  const depth = ring.units;
  const own = plan.own ?? (kind === "cq" ? depth - 1 : 0);
  const entry = createEntry(device, {
    queue,
    kind,
    owner: "qp" in owner ? owner.qp.qpn : queue,
    wqeAddress: ring.address,
    indexAddress: indexAddress(device, queue),
    depth,
    unitBytes,
    state,
    valid: true,
    rnicPointer: own,
    recycled: false,
  });
  writeBack(device, device.cache.insert(entry, device.now));
  writeSpace1(device, entry);
  writeSpace2(device, entry);
}

/** */
export function writeSpace2(device: Device, entry: QueueEntry): void {
  const { store } = device;
  if (store.bytes[2] === 0) return;
  dmaWrite(device, {
    address: spaceAddress(device, entry.queue, 2),
    data: encodeEntry(store, 2, entry),
  });
}

const NO_QUEUE: Partial<QueueFields> = {
  wqeAddress: 0,
  indexAddress: 0,
  kind: "sq",
  state: "reset",
  valid: false,
  owner: 0,
  rnicPointer: 0,
};

export function writeState(device: Device, queue: number, state: QueueState): void {
  const entry = device.cache.find(queue);
  if (entry !== undefined) entry.state = state;
  writeField(device, queue, { field: "state", value: state });
}

export function removeQueue(device: Device, queue: number): void {
  forgetQueue(device, queue);
  device.owners[queue] = undefined;
  device.lowestFree.queue = Math.min(device.lowestFree.queue, queue);
  dmaWrite(device, {
    address: spaceAddress(device, queue, 1),
    data: encodeEntry(device.store, 1, NO_QUEUE),
  });
}

/** A look-up under way loses its waiters. */
function forgetQueue(device: Device, queue: number): void {
  dropPause(device, queue);
  forgetContext(device, queue);
  device.moved.delete(queue);
  device.cache.remove(queue);
  forgetPieces(device, queue);
  dropDoorbells(device, queue);
  const load = device.loads.get(queue);
  if (load === undefined) return;
  for (const { kind } of [...load.waiters, ...load.late]) {
    if (kind === "doorbell") device.counters.doorbellsRefused++;
  }
  load.void = true;
  device.loads.delete(queue);
}
