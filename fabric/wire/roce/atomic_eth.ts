/**
 * Atomic request and response (`rocev2.md` §1.3). Operands are big-endian on the wire; the memory
 * word is in host byte order.
 */
/** Operand of atomic operations, ATOMIC WRITE included. */
export const ATOMIC_BYTES = 8;

export const ATOMIC_ETH_FIELDS = [
  ["va", 64],
  ["rkey", 32],
  ["swapAdd", 64],
  /** 0 for FETCH & ADD. */
  ["compare", 64],
] as const;

export const ATOMIC_ACK_ETH_FIELDS = [
  ["original", 64],
] as const;
