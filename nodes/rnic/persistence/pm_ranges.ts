/**
 * The ranges that the CPU of flow 2 is to flush (P-26, P-31): a message's own range, and all
 * earlier plain writes of its queue pair's peer.
 */
import {
  encodePersistRanges,
  PERSIST_RANGE_BYTES,
} from "../../../fabric/wire/host_bus/persist_ranges.ts";
import type { Device } from "../state/device.ts";
import { type Bytes, noteDirty, reduceTo, type Span } from "../state/dirty_ranges.ts";
import { hostAddress } from "../dma/memory_window.ts";
import type { QueuePair } from "../state/queue_pair.ts";
import { bytesOf } from "../state/memory.ts";
import type { OpenMessage, RecvWqe } from "../state/responder_state.ts";
import { isLive } from "../dma/translation.ts";
import type { NotifiedRanges } from "../state/persist_records.ts";
import { placePayload, recvSegments } from "../dma/place_payload.ts";

/**
 * The message's next `length` bytes were written, but not persisted. Addresses are the host
 * programs', as keys may be gone when a later message asks for persistence.
 */
export function noteWritten(
  device: Device,
  qp: QueuePair,
  written: {
    readonly opened: Pick<OpenMessage, "segments" | "received">;
    readonly length: number;
  },
): void {
  if (device.persistence.flush !== "cpu") return;
  const { segments, received: from } = written.opened;
  const to = from + written.length;
  let at = 0;
  for (const { region, va, length } of segments) {
    const first = Math.max(from, at), end = Math.min(to, at + length);
    if (first < end) {
      const { persistent } = region;
      const start = hostAddress(region, va + first - at);
      noteWrittenAt(device, qp, { va: start, length: end - first, persistent });
    }
    at += length;
  }
}

/** `written` has the programs' addresses; DRAM is left out. */
export function noteWrittenAt(
  { persistence }: Device,
  qp: QueuePair,
  written: Bytes & { readonly persistent: boolean },
): void {
  // Without an ACK there is no promise, and no message would ever take the list.
  if (persistence.flush !== "cpu" || qp.type !== "rc" || !written.persistent) return;
  noteDirty(qp.responder.dirty, written);
}

const BYTE_COUNT_MAX = 0xffff_ffff;

/**
 * Ranges go to the RECV's memory: wider ones where there is little room, one for all in the CQE
 * where there is none. @returns the CQE's content; undefined where the one range is longer than a
 * CQE can name.
 */
export function writeRanges(
  device: Device,
  qp: QueuePair,
  message: { readonly own: Bytes; readonly spans: readonly Span[]; readonly recv: RecvWqe },
): NotifiedRanges | undefined {
  const { own, spans, recv } = message;
  const { va, length: byteCount } = own;
  if (spans.length === 0) return { va, byteCount, more: 0 };
  const segments = recvSegments(device, qp, recv) ?? [];
  const room = Math.floor(bytesOf(segments) / PERSIST_RANGE_BYTES);
  if (room === 0 || !isLive(segments)) return asOneRange(own, spans);
  const notified = reduceTo(spans, room);
  const payload = encodePersistRanges(notified.map(({ from, to }) => {
    return { va: BigInt(from), length: BigInt(to - from) };
  }));
  placePayload(device, payload, { segments, offset: 0 });
  return { va, byteCount, more: notified.length };
}

function asOneRange({ va, length }: Bytes, spans: readonly Span[]): NotifiedRanges | undefined {
  const [{ from, to }] = reduceTo(spans, 1) as [Span];
  const start = length === 0 ? from : Math.min(from, va);
  const byteCount = (length === 0 ? to : Math.max(to, va + length)) - start;
  return byteCount > BYTE_COUNT_MAX ? undefined : { va: start, byteCount, more: 0 };
}
