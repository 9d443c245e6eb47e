/**
 * The parts behind the header of some of `persistd`'s messages: a second range to be written, the
 * place of the receive buffers, and the check fields of a pending message. See
 * `persist_protocol.ts`.
 */

/** A few bytes and their address. */
export interface Word {
  readonly va: number;
  readonly bytes: Uint8Array;
}

const WORD_HEADER_BYTES = 12, REGION_BYTES = 8, RING_BYTES = 20;
export const PENDING_TAIL_BYTES = 8;
/** Maximum length of a {@link Word}: a message without data then still fits a control slot. */
export const WORD_BYTES_MAX = 64;

/** Bytes behind the header of a message with a word of this length. */
export function wordTailBytes(length: number): number {
  return WORD_HEADER_BYTES + length;
}

/** The receive buffers of a requester, by address and by number of their use (`recv_ring.ts`). */
export interface RingPlace {
  readonly va: number;
  readonly rkey: number;
  readonly epoch: number;
  /** Generation of the object: a new object of the same name has another one. */
  readonly generation: number;
}

/**
 * Data that stays in the receive buffer until it is stored, if need be by this host's next life: it
 * contains its destination and a checksum. The payload follows the message.
 */
export interface PendingMessage {
  readonly type: "deposit";
  readonly id: number;
  /** Offset into the responder's SCM. */
  readonly scmOffset: number;
  readonly length: number;
  /** Number of the message in its connection, from 1. */
  readonly sequence: number;
  readonly generation: number;
  readonly epoch: number;
  /** CRC of the message with 0 in its place, and of the payload. */
  readonly crc: number;
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** Offset of the object in SCM and, for a requester with pending messages, the ring. */
export function encodeRegionTail(
  { scmOffset, ring }: { readonly scmOffset: number; readonly ring?: RingPlace },
): Uint8Array {
  const tail = new Uint8Array(REGION_BYTES + (ring === undefined ? 0 : RING_BYTES));
  const view = viewOf(tail);
  view.setBigUint64(0, BigInt(scmOffset));
  if (ring === undefined) return tail;
  view.setBigUint64(8, BigInt(ring.va));
  view.setUint32(16, ring.rkey);
  view.setUint32(20, ring.epoch);
  view.setUint32(24, ring.generation);
  return tail;
}

/** The ring of a region's tail; nothing where the tail has none. */
export function decodeRing(tail: Uint8Array): { readonly ring?: RingPlace } {
  if (tail.length < REGION_BYTES + RING_BYTES) return {};
  const view = viewOf(tail);
  const va = Number(view.getBigUint64(8)), rkey = view.getUint32(16);
  return { ring: { va, rkey, epoch: view.getUint32(20), generation: view.getUint32(24) } };
}

export function encodeWord({ va, bytes }: Word): Uint8Array {
  const tail = new Uint8Array(wordTailBytes(bytes.length));
  const view = viewOf(tail);
  view.setBigUint64(0, BigInt(va));
  view.setUint32(8, bytes.length);
  tail.set(bytes, WORD_HEADER_BYTES);
  return tail;
}

/** Undefined where the bytes are not a word, or one that is too long. */
export function decodeWord(tail: Uint8Array): Word | undefined {
  if (tail.length < WORD_HEADER_BYTES) return undefined;
  const view = viewOf(tail);
  const length = view.getUint32(8);
  if (length > WORD_BYTES_MAX || wordTailBytes(length) > tail.length) return undefined;
  const bytes = tail.slice(WORD_HEADER_BYTES, wordTailBytes(length));
  return { va: Number(view.getBigUint64(0)), bytes };
}

export function encodePendingTail(
  { epoch, crc }: Pick<PendingMessage, "epoch" | "crc">,
): Uint8Array {
  const tail = new Uint8Array(PENDING_TAIL_BYTES);
  const view = viewOf(tail);
  view.setUint32(0, epoch);
  view.setUint32(4, crc);
  return tail;
}

export function decodePendingTail(
  tail: Uint8Array,
): Pick<PendingMessage, "epoch" | "crc"> | undefined {
  if (tail.length < PENDING_TAIL_BYTES) return undefined;
  const view = viewOf(tail);
  return { epoch: view.getUint32(0), crc: view.getUint32(4) };
}
