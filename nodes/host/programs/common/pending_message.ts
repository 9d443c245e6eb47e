/**
 * A pending message as bytes: the content of a SEND in a receive buffer that survives power
 * failures. It is stored later, perhaps by the host's next life, which checks only by these bytes
 * whether the message is complete.
 */
import { CRC_START, crcUpdate } from "../../../../fabric/wire/roce/icrc.ts";
import { decodeMessage, encodeMessage, HEADER_BYTES } from "./persist_protocol.ts";
import { PENDING_TAIL_BYTES, type PendingMessage } from "./persist_tails.ts";

/** Bytes of a pending message in front of its payload. */
export const PENDING_MESSAGE_BYTES = HEADER_BYTES + PENDING_TAIL_BYTES;
/** The CRC is the message's last word: see `persist_tails.ts`. */
const CRC_AT = PENDING_MESSAGE_BYTES - 4;

function crcOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const head = crcUpdate(CRC_START, view, { from: 0, end: CRC_AT });
  return ~crcUpdate(head, view, { from: PENDING_MESSAGE_BYTES, end: bytes.length }) >>> 0;
}

/** The message and its payload, with the CRC of both. */
export function encodePendingMessage(
  pending: Omit<PendingMessage, "type" | "length" | "crc">,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const length = payload.length;
  const bytes = new Uint8Array(PENDING_MESSAGE_BYTES + length);
  bytes.set(encodeMessage({ ...pending, type: "deposit", length, crc: 0 }));
  bytes.set(payload, PENDING_MESSAGE_BYTES);
  new DataView(bytes.buffer).setUint32(CRC_AT, crcOf(bytes));
  return bytes;
}

/**
 * The pending message in a receive buffer, with its payload; undefined where there is none, or an
 * incomplete one. @param bytes the buffer, from the message's first byte on; it may be longer.
 */
export function decodePendingMessage(
  bytes: Uint8Array,
): { readonly pending: PendingMessage; readonly payload: Uint8Array } | undefined {
  const pending = decodeMessage(bytes);
  if (pending?.type !== "deposit" || PENDING_MESSAGE_BYTES + pending.length > bytes.length) {
    return undefined;
  }
  const whole = bytes.subarray(0, PENDING_MESSAGE_BYTES + pending.length);
  if (crcOf(whole) !== pending.crc) return undefined;
  return { pending, payload: whole.subarray(PENDING_MESSAGE_BYTES) };
}
