/** The column `memory` of `operations.ts`: host memory that a packet accesses. */
import { ATOMIC_BYTES } from "../../../fabric/wire/roce/atomic_eth.ts";
import { GRH_BYTES } from "../../../fabric/wire/roce/grh.ts";
import { remoteRegion } from "../dma/memory_region.ts";
import { recvSegments } from "../dma/place_payload.ts";
import type { MemoryAccess } from "../paging/access.ts";
import type { Device } from "../state/device.ts";
import { bytesOf, type Region } from "../state/memory.ts";
import { needOf } from "../state/operation.ts";
import { isFirst, isLast } from "../state/psn.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { isVerdict, type RequestIn } from "../state/responder_state.ts";

export function memoryOfAtomic(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): MemoryAccess | undefined {
  const { va, rkey } = input.packet.atomicEth ?? input.packet.reth!;
  const need = needOf(input)!;
  const region = remoteRegion(device, qp, { key: rkey, va, length: ATOMIC_BYTES, need });
  if (isVerdict(region)) return undefined;
  const word = segmentOf(region, { va, length: ATOMIC_BYTES });
  return { ...word, offset: 0, length: ATOMIC_BYTES, write: true };
}

/** The READ's first response packet; the rest is fetched ahead. */
export function memoryOfRead(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): MemoryAccess | undefined {
  const named = rangeOf(device, qp, input);
  if (named === undefined) return undefined;
  const first = Math.min(input.packet.reth!.length, qp.attributes.pathMtu);
  return { ...named, offset: 0, length: first, ahead: true, write: false, pagesOnly: true };
}

function segmentOf(
  region: Region,
  { va, length }: { readonly va: bigint; readonly length: number },
): Pick<MemoryAccess, "segments"> {
  return { segments: [{ region, va: Number(va), length }] };
}

function rangeOf(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): Pick<MemoryAccess, "segments"> | undefined {
  const { va, rkey, length } = input.packet.reth!;
  if (length === 0) return undefined;
  const region = remoteRegion(device, qp, { key: rkey, va, length, need: needOf(input)! });
  return isVerdict(region) ? undefined : segmentOf(region, { va, length });
}

export function memoryOfWrite(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): MemoryAccess | undefined {
  const { open } = qp.responder;
  const { length } = input.packet.payload;
  const named = isFirst(input.row) ? rangeOf(device, qp, input) : open;
  if (named === undefined || length === 0) return undefined;
  const offset = isFirst(input.row) ? 0 : open!.received;
  const { segments } = named;
  return { segments, offset, length, write: true, ahead: true };
}

/** Checked data goes to memory behind the last packet, all of it (V-02). */
export function memoryOfVerified(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): MemoryAccess | undefined {
  return isLast(input.row) ? wholeMessage(device, qp, input) : memoryOfWrite(device, qp, input);
}

function wholeMessage(device: Device, qp: QueuePair, input: RequestIn): MemoryAccess | undefined {
  const named = isFirst(input.row) ? rangeOf(device, qp, input) : qp.responder.open;
  if (named === undefined) return undefined;
  const { segments } = named;
  return { segments, offset: 0, length: bytesOf(segments), write: true };
}

export function memoryOfSend(
  device: Device,
  qp: QueuePair,
  input: RequestIn,
): MemoryAccess | undefined {
  const { open, granted } = qp.responder;
  const { length } = input.packet.payload;
  if (!isFirst(input.row)) {
    if (open === undefined) return undefined;
    const { segments, received: offset } = open;
    return { segments, offset, length, write: true, ahead: true };
  }
  const segments = recvSegments(device, qp, granted!);
  if (segments === undefined) return undefined;
  const grh = qp.type === "ud" ? GRH_BYTES : 0;
  return { segments, offset: 0, length: grh + length, write: true, ahead: true };
}
