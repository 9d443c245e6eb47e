/** A 32-bit hash of bytes. Not cryptographic: it detects damage, not forgery. */
import { bufferViewOf } from "./slab.ts";

// Odd constants of xxHash32 and MurmurHash3.
export const PRIME1 = 0x9e37_79b1, PRIME4 = 0x27d4_eb2f;
const PRIME2 = 0x85eb_ca6b, PRIME3 = 0xc2b2_ae35;

/**
 * Of the first `length` bytes, in [0, 2^32). Four lanes of four bytes each, for the processor's
 * parallelism.
 */
export function hashBytes(bytes: Uint8Array, seed: number, length = bytes.length): number {
  const view = bufferViewOf(bytes);
  let a = seed | 0, b = a ^ PRIME1, c = a ^ PRIME2, d = a ^ PRIME3;
  let at = bytes.byteOffset;
  const end = at + length;
  for (; at + 16 <= end; at += 16) {
    a = Math.imul(a ^ view.getInt32(at, true), PRIME1);
    a ^= a >>> 15;
    b = Math.imul(b ^ view.getInt32(at + 4, true), PRIME2);
    b ^= b >>> 15;
    c = Math.imul(c ^ view.getInt32(at + 8, true), PRIME3);
    c ^= c >>> 15;
    d = Math.imul(d ^ view.getInt32(at + 12, true), PRIME4);
    d ^= d >>> 15;
  }
  let hash = mix(mix(mix(a, b), c), d);
  for (; at + 4 <= end; at += 4) hash = mix(hash, view.getInt32(at, true));
  for (; at < end; at++) hash = mix(hash, view.getUint8(at));
  return finish(mix(hash, length));
}

export function mix(hash: number, word: number): number {
  const mixed = Math.imul(((hash << 13) | (hash >>> 19)) ^ Math.imul(word, PRIME2), PRIME1);
  return mixed ^ (mixed >>> 15);
}

/** MurmurHash3's finalizer. */
export function finish(hash: number): number {
  let mixed = Math.imul(hash ^ (hash >>> 16), PRIME2);
  mixed = Math.imul(mixed ^ (mixed >>> 13), PRIME3);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}
