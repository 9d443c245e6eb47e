/**
 * Read-back (V-03): behind its DMA writes the card reads the same memory and compares it with the
 * data. A read may go out when the write of its bytes is with the bus: reads do not pass earlier
 * writes, so each sees its own (P-03). In flow 1 the last read has pushed all writes of the message
 * into the persistence domain, as an LSB read does (V-09, P-24).
 */
import { readRequests } from "../../../fabric/wire/host_bus/pcie.ts";
import type { Device } from "../state/device.ts";
import { canRead, dmaRead } from "../dma/dma.ts";
import type { Place, ReadBack } from "../state/responder_state.ts";
import { isLive, PieceWalker } from "../dma/translation.ts";
import { readBackDone } from "./write_verify.ts";
import type { MemorySegment } from "../state/memory.ts";
import { awaitAccess, checkAccess } from "../paging/access.ts";
import { isWaiting } from "../paging/memory_waits.ts";
import { mayMiss } from "../state/paging_state.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import type { TranslationTable } from "../state/translation_table.ts";
import { writesNoSnoop } from "../dma/place_payload.ts";

const walker = new PieceWalker();

/**
 * It must be created before its own DMA writes, as it records other writes to its memory, which are
 * no damage.
 */
export function createReadBack(
  device: Device,
  look: Pick<ReadBack, "qp" | "service" | "firstPsn" | "segments" | "expected"> & {
    readonly byCrc: boolean;
  },
): ReadBack {
  const { byCrc, ...write } = look;
  const bytes = look.expected.length;
  const readBack: ReadBack = {
    ...write,
    data: byCrc ? new Uint8Array(bytes) : undefined,
    places: placesOf(look.segments, bytes),
    covered: undefined,
    placed: 0,
    next: 0,
    missing: 0,
    queued: false,
    differs: false,
    failed: false,
    awaited: false,
  };
  device.verify.readBacks.add(readBack);
  return readBack;
}

function placesOf(segments: readonly MemorySegment[], length: number): Place[] {
  const places: Place[] = [];
  walker.start(segments, { offset: 0, length, most: length });
  while (walker.next()) {
    const { address, bytes, offset } = walker;
    if (address >= 0) places.push({ address, bytes, offset });
  }
  return places;
}

/** Pages have moved: others' writes are found at their present addresses. */
export function relocateReadBacks({ verify }: Device, table: TranslationTable): void {
  for (const readBack of verify.readBacks) {
    const { segments, expected } = readBack;
    if (!segments.some(({ region }) => region.table === table)) continue;
    readBack.places = placesOf(segments, expected.length);
  }
}

export function resumeLooks({ verify }: Device, qp: QueuePair): void {
  const waiting = verify.cold.splice(0);
  for (const readBack of waiting) {
    if (readBack.qp !== qp) verify.cold.push(readBack);
    else if (verify.readBacks.has(readBack) && !readBack.queued) {
      readBack.queued = true;
      verify.looking.push(readBack);
    }
  }
}

function hasPage(device: Device, readBack: ReadBack): boolean {
  if (!mayMiss(device.paging)) return true;
  const { qp, segments, next: offset, placed, expected } = readBack;
  const length = Math.min(device.timing.dmaReadBytes, expected.length - offset, placed - offset);
  const access = { segments, offset, length, write: false, pagesOnly: true };
  const by = { kind: "look", qp } as const;
  // One of them waits for all.
  const isThere = isWaiting(device, qp, "look")
    ? checkAccess(device, access, by) === "ready"
    : awaitAccess(device, access, by);
  if (!isThere) device.verify.cold.push(readBack);
  return isThere;
}

export function lookUpTo(device: Device, readBack: ReadBack, placed: number): void {
  readBack.placed = placed;
  if (!readBack.queued) {
    readBack.queued = true;
    device.verify.looking.push(readBack);
  }
  takeShare(device);
}

/** All of it may be read back. */
export function awaitReadBack(device: Device, readBack: ReadBack): void {
  readBack.awaited = true;
  device.counters.verifyReadBacks++;
  const { length } = readBack.expected;
  if (readBack.placed < length) lookUpTo(device, readBack, length);
  finishWhenComplete(device, readBack);
}

/**
 * Less than half of the engine's limit; peers' READs and atomics, served before {@link
 * runReadBacks}, get the other half if they want it.
 */
function takeShare(device: Device): void {
  const { verify, timing: { dmaReadsMax, dmaReadBytes } } = device;
  // Where one read fills the engine, others have their turn first.
  const most = Math.min(dmaReadsMax >> 1, dmaReadsMax - readRequests(dmaReadBytes));
  while (verify.requestsOut < most && readNext(device));
}

/**
 * Uses the part of the engine that others leave, and at least the turn behind them; called at the
 * end of every step.
 */
export function runReadBacks(device: Device): void {
  const { verify, dma } = device;
  while (verify.looking.length > 0 && canRead(dma.responder) && readNext(device));
  while (verify.requestsOut === 0 && readNext(device));
}

function readNext(device: Device): boolean {
  const { verify: { looking, readBacks }, timing } = device;
  const readBack = looking.shift();
  if (readBack === undefined) return false;
  readBack.queued = false;
  if (!readBacks.has(readBack) || readBack.failed) return true;
  const { segments, expected, next: offset, placed } = readBack;
  if (!isLive(segments)) {
    readBack.failed = true;
    finishWhenComplete(device, readBack);
    return true;
  }
  if (!hasPage(device, readBack)) return true;
  const length = expected.length - offset;
  walker.start(segments, { offset, length, most: timing.dmaReadBytes });
  if (!walker.next() || offset + walker.bytes > placed) return true;
  readBack.next += walker.bytes;
  readBack.missing++;
  device.verify.requestsOut += readRequests(walker.bytes);
  if (readBack.next < placed) {
    readBack.queued = true;
    looking.push(readBack);
  }
  dmaRead(device, {
    address: walker.address,
    length: walker.bytes,
    // A read with flow 2 would look beside the writes (P-02).
    noSnoop: writesNoSnoop(device, walker),
    medium: walker.persistent,
    continuation: { kind: "read-back", readBack, offset, length: walker.bytes },
  });
  return true;
}

/** `data` is undefined where the host refused. */
export function takeReadBack(
  device: Device,
  piece: { readonly readBack: ReadBack; readonly offset: number; readonly length: number },
  data: Uint8Array<ArrayBuffer> | undefined,
): void {
  const { readBack, offset, length } = piece;
  device.verify.requestsOut -= readRequests(length);
  // A queue pair that has failed or was reset has no waiting answer.
  if (device.verify.readBacks.has(readBack)) {
    readBack.missing--;
    // Deregistered memory is another's.
    if (data === undefined || !isLive(readBack.segments)) readBack.failed = true;
    else takePiece(readBack, data, offset);
    finishWhenComplete(device, readBack);
  }
  takeShare(device);
}

function finishWhenComplete(device: Device, readBack: ReadBack): void {
  const { missing, failed, next, expected, awaited } = readBack;
  if (!awaited || missing > 0) return;
  if (!failed && next < expected.length) return;
  if (device.verify.readBacks.delete(readBack)) readBackDone(device, readBack);
}

function takePiece(
  readBack: ReadBack,
  piece: Uint8Array<ArrayBuffer>,
  offset: number,
): void {
  const { expected, data, covered } = readBack;
  for (let i = 0; i < piece.length; i++) {
    const at = offset + i;
    const byte = covered?.[at] === 1 ? expected[at]! : piece[i]!;
    if (data !== undefined) data[at] = byte;
    else if (byte !== expected[at]) readBack.differs = true;
  }
}
