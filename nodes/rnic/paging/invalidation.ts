/**
 * The host takes pages back. No access begins from the command on; its reply waits until those
 * under way have ended: DMA reads, and atomics. DMA writes are ahead of the reply on the bus. None
 * of these accesses needs a further page: the reply always comes.
 */
import { type Device, sendReply } from "../state/device.ts";
import type { Invalidation } from "../state/paging_state.ts";
import type { ReadRequest } from "../state/dma_state.ts";

/** Called at the end of every step. */
export function answerInvalidations(device: Device): void {
  const { invalidations } = device.paging;
  while (invalidations.length > 0 && !isInUse(device, invalidations[0]!)) {
    const { id } = invalidations.shift()!;
    sendReply(device, id, { status: "ok", op: "done" });
  }
}

function isInUse(device: Device, invalidation: Invalidation): boolean {
  const { dma, atomicWords } = device;
  const { frames, pageBytes } = invalidation;
  if (frames.size === 0) return false;
  const isRead = (request: ReadRequest | undefined) =>
    request !== undefined && touches(invalidation, request.address, request.length);
  if (dma.outstanding.some(isRead)) return true;
  if (dma.gather.waiting.some(isRead) || dma.responder.waiting.some(isRead)) return true;
  for (const address of atomicWords.keys()) {
    if (frames.has(address - address % pageBytes)) return true;
  }
  return false;
}

function touches({ frames, pageBytes }: Invalidation, address: number, length: number): boolean {
  for (let at = address - address % pageBytes; at < address + length; at += pageBytes) {
    if (frames.has(at)) return true;
  }
  return false;
}
