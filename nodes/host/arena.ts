/**
 * Small byte arrays cut from larger slabs: making a typed array of its own costs more than
 * everything else that is done to 64 bytes. What is handed out is never taken back or reused; a slab
 * lives as long as one of its pieces is held.
 */

const SLAB_BYTES = 64 * 1024;
/** From here on, an array of its own costs little beside its bytes. */
const OWN_BYTES = 8 * 1024;

let slab = new Uint8Array(SLAB_BYTES);
let used = 0;

/**
 * `length` zero bytes. Their `byteOffset` is rarely 0: whoever lays a DataView over them says so.
 */
export function takeBytes(length: number): Uint8Array<ArrayBuffer> {
  if (length >= OWN_BYTES) return new Uint8Array(length);
  if (used + length > SLAB_BYTES) {
    slab = new Uint8Array(SLAB_BYTES);
    used = 0;
  }
  const from = used;
  // Pieces begin on 8 bytes, so that the word-wise copies underneath stay fast.
  used += (length + 7) & ~7;
  return slab.subarray(from, from + length);
}

/** A copy of `source` that nobody else holds. */
export function copyBytes(source: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = takeBytes(source.length);
  copy.set(source);
  return copy;
}
