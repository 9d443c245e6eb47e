/**
 * Atomic request and its response (`rocev2.md` §1.3). Operands are big-endian on the wire; the
 * memory word is in host byte order.
 */
import type { HeaderOf } from "../../base/fields.ts";

/** Size of the operand of atomic operations, ATOMIC WRITE included. */
export const ATOMIC_BYTES = 8;

export const ATOMIC_ETH_FIELDS = [
  ["va", 64],
  ["rkey", 32],
  ["swapAdd", 64],
  /** 0 for FETCH & ADD. */
  ["compare", 64],
] as const;
export type AtomicEth = HeaderOf<typeof ATOMIC_ETH_FIELDS>;

export function readAtomicEth(view: DataView, at: number): AtomicEth {
  return {
    va: view.getBigUint64(at),
    rkey: view.getUint32(at + 8),
    swapAdd: view.getBigUint64(at + 12),
    compare: view.getBigUint64(at + 20),
  };
}

export function writeAtomicEth(view: DataView, at: number, header: AtomicEth): void {
  view.setBigUint64(at, header.va);
  view.setUint32(at + 8, header.rkey);
  view.setBigUint64(at + 12, header.swapAdd);
  view.setBigUint64(at + 20, header.compare);
}

export const ATOMIC_ACK_ETH_FIELDS = [
  ["original", 64],
] as const;
export type AtomicAckEth = HeaderOf<typeof ATOMIC_ACK_ETH_FIELDS>;

export function readAtomicAckEth(view: DataView, at: number): AtomicAckEth {
  return { original: view.getBigUint64(at) };
}

export function writeAtomicAckEth(view: DataView, at: number, header: AtomicAckEth): void {
  view.setBigUint64(at, header.original);
}
