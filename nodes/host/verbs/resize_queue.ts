/**
 * Resizes queues in use. The RNIC moves unread WQEs (`nodes/rnic/queues/ring_move.ts`); the
 * driver computes the same places. Meanwhile posts to the queue, and polls of its completion queue,
 * wait: completions may name units of either ring.
 */
import { ringDistance } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeEntry,
  encodeEntry,
  type QueueFields,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import { NEVER } from "../../../fabric/base/time.ts";
import type { RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { WQE_UNIT_BYTES } from "../../../fabric/wire/host_bus/wqe.ts";
import type { Buffer } from "../memory/address_map.ts";
import type { Steps } from "../cpu/program.ts";
import {
  allocated,
  contiguous,
  failed,
  powerOfTwo,
  refuseStale,
  request,
  roomOf,
  storePointer,
  verbError,
} from "./device.ts";
import type {
  Cq,
  Device,
  DeviceState,
  Qp,
  RecvRing,
  RingMemory,
  SendRing,
  Srq,
  SrqRing,
  VerbError,
  WrId,
} from "./objects.ts";

type Resumed = Extract<RnicReply, { readonly op: "queue-resumed" }>;

export type Resizable =
  | { readonly queue: "send"; readonly ring: SendRing; readonly qp: Qp }
  | { readonly queue: "recv"; readonly ring: RecvRing; readonly qp: Qp }
  | { readonly queue: "shared"; readonly ring: SrqRing; readonly srq: Srq };

export function resizedSignal(cq: Cq): string {
  return `cq-resized-${cq.cqn}`;
}

function resumedSignal(queue: number): string {
  return `queue-resumed-${queue}`;
}

export function* awaitRing(
  { cpu }: Device,
  ring: Pick<RingMemory, "resizing"> & { readonly queue: number },
): Steps<void> {
  while (ring.resizing) yield* cpu.waitSignal(resumedSignal(ring.queue), NEVER);
}

export function resizableOf(state: DeviceState, queue: number): Resizable | undefined {
  for (const qp of state.queuePairs.values()) {
    if (qp.sq.queue === queue) return { queue: "send", ring: qp.sq, qp };
    if (qp.srq === undefined && qp.rq.queue === queue) return { queue: "recv", ring: qp.rq, qp };
  }
  const srq = state.sharedReceiveQueues.get(queue);
  return srq === undefined ? undefined : { queue: "shared", ring: srq.ring, srq };
}

function deviceOf(target: Resizable): Device {
  return target.queue === "shared" ? target.srq.device : target.qp.device;
}

function epochOf(target: Resizable): number {
  return target.queue === "shared" ? target.srq.pd.epoch : target.qp.pd.epoch;
}

function unitBytesOf({ queue, ring }: Resizable): number {
  return queue === "send" ? WQE_UNIT_BYTES : ring.stride;
}

function cqOf(target: Resizable): Cq | undefined {
  if (target.queue === "shared") return undefined;
  return target.queue === "send" ? target.qp.sendCq : target.qp.recvCq;
}

export function changedSpace2(
  target: Resizable,
  change: { readonly offset: number; readonly data: Uint8Array },
): Pick<QueueFields, "depth" | "unitBytes" | "wqeAddress"> {
  const { store } = deviceOf(target).state;
  const { physical: wqeAddress, depth } = target.ring;
  const now = { depth, unitBytes: unitBytesOf(target), wqeAddress };
  const bytes = encodeEntry(store, 2, now);
  bytes.set(change.data, change.offset);
  return { ...now, ...decodeEntry(store, 2, bytes) };
}

/**
 * EBUSY where the part to be cut holds WQEs, also ones that the RNIC has read but programs have not
 * polled. @returns undefined where the queue can have the depth.
 */
export function refuseDepth(target: Resizable, depth: number): VerbError | undefined {
  const { ring } = target;
  if (depth >= ring.depth) return undefined;
  if (target.queue === "shared") {
    const { maxWr } = target.srq.caps;
    if (maxWr < depth) return undefined;
    return verbError("EINVAL", `${maxWr} receives need more than ${depth} units`);
  }
  const { tail, used } = target.ring;
  if (used === 0 || (tail + used <= depth && used < depth)) return undefined;
  const last = (tail + used - 1) % ring.depth;
  const reason =
    `WQEs from unit ${tail} to ${last} are outstanding: ${depth} units do not hold them`;
  return verbError("EBUSY", reason);
}

/**
 * Holds the queue while the RNIC changes it by `ask`, then records its new place. @returns why it
 * is refused, without any change.
 */
export function* whileHeld(
  target: Resizable,
  place: RingMemory,
  ask: () => Steps<Resumed | VerbError>,
): Steps<VerbError | undefined> {
  const device = deviceOf(target);
  const { ring } = target;
  const cq = cqOf(target);
  if (ring.resizing || cq?.place.resizing) return verbError("EBUSY", "The queue is being resized");
  ring.resizing = true;
  if (cq !== undefined) cq.place.resizing = true;
  try {
    const reply = yield* ask();
    if (failed(reply)) return reply;
    const stale = refuseStale(device, epochOf(target));
    if (stale !== undefined) return stale;
    takePlace(target, place, reply);
    return undefined;
  } finally {
    ring.resizing = false;
    device.cpu.signal(resumedSignal(ring.queue));
    if (cq !== undefined) {
      cq.place.resizing = false;
      device.cpu.signal(resizedSignal(cq));
    }
  }
}

function takePlace(target: Resizable, place: RingMemory, reply: Resumed): void {
  const device = deviceOf(target);
  const { ring } = target;
  const { read, written, stamp } = reply;
  const from = ring.depth, to = place.depth;
  if (target.queue === "shared") {
    const unread = ringDistance(read, (ring.write + 1) % from, from);
    ring.write = ((read % to) + unread + to - 1) % to;
  } else {
    const { tail } = target.ring;
    const toTail = ((read % to) + to - ringDistance(tail, read, from) % to) % to;
    moveRecord(target, { toTail, to });
    const { qpn } = target.qp;
    const { moved } = cqOf(target)!.place;
    const names = { from: { depth: from, tail }, to: { depth: to, tail: toTail } };
    if (from !== to || tail !== toTail) {
      moved.push({ qpn, queue: target.queue, before: written, ...names });
    }
  }
  if (place.address !== ring.address) {
    device.cpu.free({ address: ring.address });
    device.state.held.set(ring, place.address);
  }
  ring.address = place.address;
  ring.physical = place.physical;
  ring.depth = to;
  ring.room = place.room;
  ring.stamp = Math.max(ring.stamp, stamp);
  storePointer(device, ring, ring.write);
}

function moveRecord(
  target: Exclude<Resizable, { readonly queue: "shared" }>,
  { toTail, to }: { readonly toTail: number; readonly to: number },
): void {
  const { ring, qp: { qpn, device } } = target;
  const wrIds: WrId[] = [];
  const wqes: number[] = [];
  const units = new Uint8Array(to);
  const posted: SendRing["posted"] = [];
  let at = ring.tail, next = toTail;
  for (let i = 0; i < ring.requests; i++) {
    const taken = target.queue === "send" ? target.ring.units[at]! : 1;
    wrIds[next] = ring.wrIds[at]!;
    wqes.push(next);
    if (target.queue === "send") {
      units[next] = taken;
      posted[next] = target.ring.posted[at]!;
    }
    at = (at + taken) % ring.depth;
    next = (next + taken) % to;
  }
  ring.wrIds = wrIds;
  if (target.queue === "send") Object.assign(target.ring, { units, posted });
  ring.tail = toTail;
  ring.write = (toTail + ring.used + to - 1) % to;
  if (device.cpu.auditing) {
    device.cpu.note({ kind: "moved", queue: target.queue, qpn, wqes });
  }
}

/** Resizes in place where the memory has room, else in new memory. ENOMEM without. */
export function* resizeRing(target: Resizable, depth: number): Steps<VerbError | undefined> {
  const { ring } = target;
  const device = deviceOf(target);
  if (depth === ring.depth) return undefined;
  const wrong = refuseDepth(target, depth);
  if (wrong !== undefined) return wrong;
  const bytes = depth * unitBytesOf(target);
  let place: RingMemory = { ...ring, depth };
  let fresh: Buffer | undefined;
  if (bytes > ring.room) {
    const buffer = allocated(() => device.cpu.allocateContiguous(bytes));
    if (failed(buffer)) return buffer;
    fresh = buffer;
    place = { ...place, ...memoryOf(buffer) };
  }
  const { queue } = ring;
  const command = {
    op: "expand-queue",
    queue,
    ring: { address: place.physical, units: depth },
  } as const;
  const refused = yield* whileHeld(
    target,
    place,
    () => request(device.cpu, "queue-resumed", command),
  );
  if (refused !== undefined && fresh !== undefined) device.cpu.free(fresh);
  return refused;
}

export function memoryOf(buffer: Buffer): Pick<RingMemory, "address" | "physical" | "room"> {
  return { address: buffer.address, physical: contiguous(buffer), room: roomOf(buffer) };
}

/** One unit stays free. */
export function depthFor(requests: number, unitsEach = 1): number {
  return powerOfTwo(requests * unitsEach + 1);
}
