/**
 * A deposit as bytes: what a SEND brings into a receive buffer that survives power failures. It is stored
 * later, maybe by the host's next life, which has only these bytes to tell whether all of them arrived.
 */
import { CRC_START, crcUpdate } from "../../../../fabric/wire/roce/icrc.ts";
import { decodeMessage, encodeMessage, HEADER_BYTES } from "./persist_protocol.ts";
import { type Deposit, DEPOSIT_TAIL_BYTES } from "./persist_tails.ts";

/** Bytes of a deposit in front of its payload. */
export const DEPOSIT_BYTES = HEADER_BYTES + DEPOSIT_TAIL_BYTES;
/** The CRC is the message's last word: see `persist_tails.ts`. */
const CRC_AT = DEPOSIT_BYTES - 4;

function crcOf(bytes: Uint8Array): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const head = crcUpdate(CRC_START, view, { from: 0, end: CRC_AT });
  return ~crcUpdate(head, view, { from: DEPOSIT_BYTES, end: bytes.length }) >>> 0;
}

/** The message and its payload, with the CRC of both. */
export function encodeDeposit(
  deposit: Omit<Deposit, "type" | "length" | "crc">,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const length = payload.length;
  const bytes = new Uint8Array(DEPOSIT_BYTES + length);
  bytes.set(encodeMessage({ ...deposit, type: "deposit", length, crc: 0 }));
  bytes.set(payload, DEPOSIT_BYTES);
  new DataView(bytes.buffer).setUint32(CRC_AT, crcOf(bytes));
  return bytes;
}

/**
 * The deposit that a receive buffer holds, with its payload; undefined where it holds none, or not all
 * of it. @param bytes the buffer, from the message's first byte on; it may be longer.
 */
export function decodeDeposit(
  bytes: Uint8Array,
): { readonly deposit: Deposit; readonly payload: Uint8Array } | undefined {
  const deposit = decodeMessage(bytes);
  if (deposit?.type !== "deposit" || DEPOSIT_BYTES + deposit.length > bytes.length) {
    return undefined;
  }
  const whole = bytes.subarray(0, DEPOSIT_BYTES + deposit.length);
  if (crcOf(whole) !== deposit.crc) return undefined;
  return { deposit, payload: whole.subarray(DEPOSIT_BYTES) };
}
