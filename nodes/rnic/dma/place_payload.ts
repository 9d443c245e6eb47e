/** Payload on its way to memory. */
import { PieceWalker } from "./translation.ts";
import type { Device } from "../state/device.ts";
import type { MemorySegment, Region } from "../state/memory.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { flipped } from "../state/flips.ts";
import { dmaWrite } from "./dma.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { RecvWqe } from "../state/responder_state.ts";
import type { VendorError } from "../../../fabric/wire/host_bus/vendor_error.ts";
import { ACCESS } from "../../../fabric/wire/host_bus/rnic_command.ts";
import { type MessageOf, tellPlaced } from "../trace/trace.ts";
import { localFault, localSegments } from "./memory_region.ts";

const walker = new PieceWalker();

/** @returns when the bus has taken all of it. */
export function placePayload(
  device: Device,
  payload: Uint8Array<ArrayBuffer>,
  place: {
    readonly segments: readonly MemorySegment[];
    readonly offset: number;
    /** V-08's faults of the bus damage WRITEs only. */
    readonly isWrite?: boolean;
    readonly of?: MessageOf;
  },
): Time {
  const { segments, offset, isWrite = false, of } = place;
  let freeAt = device.stageAt;
  walker.start(segments, { offset, length: payload.length, most: payload.length });
  while (walker.next()) {
    if (walker.isNull) continue;
    const { bytes } = walker;
    const whole = bytes === payload.length;
    const piece = whole ? payload : payload.subarray(walker.offset, walker.offset + bytes);
    const data = isWrite ? flipped(device, "bus", piece) : piece;
    const noSnoop = writesNoSnoop(device, walker);
    const { address, persistent } = walker;
    if (of !== undefined) tellPlaced(device, of, { address, length: bytes });
    freeAt = dmaWrite(device, { address, data, noSnoop, persistent });
  }
  return freeAt;
}

/** @returns undefined where a key of the WQE does not grant its memory. */
export function recvSegments(
  device: Device,
  qp: QueuePair,
  recv: RecvWqe,
): MemorySegment[] | undefined {
  const pd = qp.srq?.pd ?? qp.pd;
  return localSegments(device, recv.sges, { pd, need: ACCESS.localWrite });
}

export function receiveFault(device: Device, qp: QueuePair, { sges }: RecvWqe): VendorError {
  return localFault(device, sges, { pd: qp.srq?.pd ?? qp.pd, need: ACCESS.localWrite });
}

/**
 * NS bit of writes into a region. Where the processor evaluates it, it asks for flow 1 (P-02) for
 * all persistent memory, as an LSB read behind it flushes data that waits in the IIO, never the LLC
 * (P-03, P-04, P-24), and a FLUSH or a READ names memory, not writes (P-10, P-50). Nothing can make
 * data in DRAM persistent: it goes where cores find it soonest.
 */
export function writesNoSnoop(device: Device, memory: Pick<Region, "persistent">): boolean {
  const { flow, noSnoop } = device.persistence;
  return noSnoop && flow === 1 && memory.persistent;
}
