/**
 * Shared receive queues (`rocev2.md` §4.5). Receives complete in any order, so each WQE contains
 * the number of a slot, which its completion returns; freed slots are reused, while the ring only
 * advances.
 */
import { encodeSrqWqe, SRQ_SEGMENT_BYTES } from "../../../fabric/wire/host_bus/srq_wqe.ts";
import {
  allocated,
  contiguous,
  dropEvents,
  failed,
  giveBack,
  inTime,
  perform,
  powerOfTwo,
  refusePd,
  refuseStale,
  refuseUnacknowledged,
  request,
  storePointer,
  verbError,
} from "./device.ts";
import type { Steps } from "../cpu/program.ts";
import { LIMITS, refuseBeyond } from "./limits.ts";
import { noRoom, refuseElements } from "./refuse_send.ts";
import { depthFor, memoryOf, resizeRing } from "./resize_queue.ts";
import type { Pd, PostError, RecvRequest, Srq, SrqOptions, SrqRing, VerbError } from "./objects.ts";
import { refuseSrqInUse } from "./query/users.ts";
import { postAll, ringDoorbell, shownWrId } from "./rings.ts";

/** Creates a shared receive queue. EINVAL for invalid sizes. */
export function* createSrq(pd: Pd, options: SrqOptions): Steps<Srq | VerbError> {
  const { device } = pd;
  const { maxWr, maxSge = 1 } = options;
  const gone = refusePd(pd);
  if (gone !== undefined) return gone;
  const tooMany = refuseReceives(maxWr) ?? refuseBeyond("maxSge", maxSge, LIMITS.sharedElements);
  if (tooMany !== undefined) return tooMany;
  const depth = depthFor(maxWr);
  const stride = SRQ_SEGMENT_BYTES + (maxSge === 1 ? 16 : 16 * powerOfTwo(maxSge));
  const buffer = allocated(() => device.cpu.allocateContiguous(depth * stride));
  if (failed(buffer)) return buffer;
  const place = { address: contiguous(buffer), units: depth };
  const command = { op: "create-srq", ring: place, stride, pd: pd.handle } as const;
  const reply = inTime(yield* request(device.cpu, "create-srq", command), device, pd.epoch);
  if (failed(reply)) {
    device.cpu.free(buffer);
    return reply;
  }
  const { srqn } = reply;
  const ring: SrqRing = {
    queue: srqn,
    stamp: 0,
    ...memoryOf(buffer),
    depth,
    resizing: false,
    stride,
    write: depth - 1,
    free: Array.from({ length: maxWr }, (_, slot) => maxWr - 1 - slot),
    wrIds: new Array(maxWr).fill(undefined),
  };
  device.state.held.set(ring, ring.address);
  storePointer(device, ring, ring.write);
  if (device.cpu.auditing) device.cpu.note({ kind: "emptied", queue: "shared", qpn: srqn });
  pd.uses.count++;
  const uses = { count: 0, alive: true };
  const srq: Srq = { device, pd, srqn, caps: { maxWr, maxSge }, ring, uses };
  device.state.sharedReceiveQueues.set(srqn, srq);
  return srq;
}

function refuseReceives(maxWr: number): VerbError | undefined {
  return refuseBeyond("maxWr", maxWr, LIMITS.receives);
}

function refuseUse(srq: Srq): VerbError | undefined {
  if (!srq.uses.alive) return verbError("EINVAL", "The shared receive queue is gone");
  return refuseStale(srq.device, srq.pd.epoch);
}

/**
 * `maxWr` (IBV_SRQ_MAX_WR) resizes the queue in use: EINVAL for an invalid size, EBUSY where
 * more receives are outstanding, so it is never below an armed limit. `limit` (IBV_SRQ_LIMIT) arms
 * SRQ_LIMIT_REACHED: raised once, when fewer receives are posted; 0 disarms it. EINVAL for a limit
 * beyond the size. Where one of the two is refused, neither has changed.
 */
export function* modifySrq(
  srq: Srq,
  change: { readonly limit?: number; readonly maxWr?: number },
): Steps<VerbError | undefined> {
  const { limit, maxWr } = change;
  const wrong = refuseUse(srq) ?? refuseLimit(limit, maxWr ?? srq.caps.maxWr) ??
    (maxWr === undefined ? undefined : yield* resizeSrq(srq, maxWr));
  if (wrong !== undefined || limit === undefined) return wrong;
  return yield* perform(srq.device.cpu, { op: "modify-srq", srqn: srq.srqn, limit });
}

function refuseLimit(limit: number | undefined, maxWr: number): VerbError | undefined {
  if (limit === undefined || (Number.isInteger(limit) && limit >= 0 && limit <= maxWr)) {
    return undefined;
  }
  return verbError("EINVAL", `The limit must be 0 to ${maxWr}: it is ${limit}`);
}

function* resizeSrq(srq: Srq, maxWr: number): Steps<VerbError | undefined> {
  const { ring, caps } = srq;
  const invalid = refuseReceives(maxWr);
  if (invalid !== undefined) return invalid;
  const outstanding = caps.maxWr - ring.free.length;
  if (outstanding > maxWr) {
    return verbError("EBUSY", `${outstanding} receives are outstanding, more than ${maxWr}`);
  }
  // A smaller size limits receives from now on; a larger one once the ring has it.
  if (maxWr < caps.maxWr) setSlots(srq, maxWr);
  const wrong = yield* resizeRing({ queue: "shared", ring, srq }, depthFor(maxWr));
  setSlots(srq, wrong === undefined ? maxWr : caps.maxWr);
  return wrong;
}

function setSlots(srq: Srq, maxWr: number): void {
  const { ring } = srq;
  const outstanding = srq.caps.maxWr - ring.free.length;
  const free: number[] = [];
  for (let slot = 0; free.length < maxWr - outstanding; slot++) {
    if (ring.wrIds[slot] === undefined) free.push(slot);
  }
  ring.free.splice(0, ring.free.length, ...free.reverse());
  srq.caps = { ...srq.caps, maxWr };
}

/** Sizes and limit; the limit is 0 where it is not armed, or was reached. */
export function* querySrq(
  srq: Srq,
): Steps<Required<SrqOptions> & { readonly limit: number } | VerbError> {
  const wrong = refuseUse(srq);
  if (wrong !== undefined) return wrong;
  const reply = yield* request(srq.device.cpu, "query-srq", { op: "query-srq", srqn: srq.srqn });
  return failed(reply) ? reply : { ...srq.caps, limit: reply.limit };
}

/**
 * EBUSY while queue pairs use it or one of its events is unacknowledged, EINVAL the second time. Its posted
 * receives are dropped.
 */
export function* destroySrq(srq: Srq): Steps<VerbError | undefined> {
  const wrong = refuseUse(srq) ?? refuseUnacknowledged(srq.device.context, srq.ring) ??
    refuseSrqInUse(srq);
  if (wrong !== undefined) return wrong;
  // The card may reuse its number as soon as it has the command.
  srq.uses.alive = false;
  const refused = yield* perform(srq.device.cpu, { op: "destroy-srq", srqn: srq.srqn });
  if (refused !== undefined) {
    srq.uses.alive = true;
    return refused;
  }
  dropEvents(srq.device.context, srq.ring);
  const { sharedReceiveQueues } = srq.device.state;
  // The card may have reused the number before it answered.
  if (sharedReceiveQueues.get(srq.srqn)?.ring === srq.ring) sharedReceiveQueues.delete(srq.srqn);
  giveBack(srq.device, srq.ring);
  srq.pd.uses.count--;
  return undefined;
}

function enqueue(srq: Srq, recv: RecvRequest): VerbError | undefined {
  const { device, ring, caps } = srq;
  const { sges, wrId = 0 } = recv;
  const wrong = refuseUse(srq);
  if (wrong !== undefined) return wrong;
  if (sges.length > caps.maxSge) {
    return verbError(
      "EINVAL",
      `sges has ${sges.length} elements: expected at most maxSge, ${caps.maxSge}`,
    );
  }
  const tooLong = refuseElements(sges);
  if (tooLong !== undefined) return verbError("EINVAL", tooLong);
  const slot = ring.free.pop();
  if (slot === undefined) {
    return noRoom(`${caps.maxWr} receives are outstanding`, "maxWr");
  }
  device.cpu.charge(device.state.timing.postPs);
  const at = (ring.write + 1) % ring.depth;
  device.cpu.store(ring.address + at * ring.stride, encodeSrqWqe({ slot, sges }, ring.stride));
  ring.wrIds[slot] = wrId;
  ring.write = at;
  if (device.cpu.auditing) {
    const posted = {
      kind: "posted",
      queue: "shared",
      wqe: slot,
      wrId: shownWrId(wrId),
      signaled: true,
    } as const;
    device.cpu.note({ ...posted, qpn: srq.srqn });
  }
  return undefined;
}

/** Posts receives for all queue pairs of the queue, with one doorbell; errors as of `postRecv`. */
export function postSrqRecv(
  srq: Srq,
  requests: RecvRequest | readonly RecvRequest[],
): Steps<PostError | undefined> {
  const { device, ring } = srq;
  return postAll(requests, {
    device,
    queue: ring,
    enqueue: (recv) => enqueue(srq, recv),
    ring: () => ringDoorbell(device, ring),
  });
}
