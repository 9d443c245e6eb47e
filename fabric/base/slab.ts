/**
 * Zeroed bytes for objects that are allocated by the million, such as frames: views into shared
 * buffers, a tenth of the cost of a buffer each. Every `DataView` must use `byteOffset`. A slab
 * lives as long as any part of it.
 */

const SLAB_BYTES = 64 * 1024;
/** Larger requests get a buffer of their own: their cost is dominated by the zeroing. */
const SHARED_BYTES_MAX = 8 * 1024;

let slab = new ArrayBuffer(SLAB_BYTES);
let used = 0;

/** Aligned to 8. */
export function allocate(length: number): Uint8Array<ArrayBuffer> {
  if (length > SHARED_BYTES_MAX) return new Uint8Array(length);
  if (used + length > SLAB_BYTES) {
    slab = new ArrayBuffer(SLAB_BYTES);
    used = 0;
  }
  const bytes = new Uint8Array(slab, used, length);
  used = (used + length + 7) & ~7;
  return bytes;
}

const KEPT_SLAB_BYTES = 1024;
let keptSlab = new ArrayBuffer(KEPT_SLAB_BYTES);
let keptUsed = 0;

/**
 * For bytes that may be kept as long as the run lasts, such as a cache's lines: a slab holds only
 * sixteen of 64 B.
 */
export function allocateKept(length: number): Uint8Array<ArrayBuffer> {
  if (length > KEPT_SLAB_BYTES) return new Uint8Array(length);
  if (keptUsed + length > KEPT_SLAB_BYTES) {
    keptSlab = new ArrayBuffer(KEPT_SLAB_BYTES);
    keptUsed = 0;
  }
  const bytes = new Uint8Array(keptSlab, keptUsed, length);
  keptUsed = (keptUsed + length + 7) & ~7;
  return bytes;
}

export function keptCopyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = allocateKept(bytes.length);
  copy.set(bytes);
  return copy;
}

export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

let lastBuffer: ArrayBufferLike = slab, lastView: DataView = new DataView(slab);
let earlierBuffer: ArrayBufferLike = slab, earlierView: DataView = lastView;

/**
 * Of the whole buffer. Cheaper than {@link viewOf} for many small pieces of few slabs in sequence.
 */
export function bufferViewOf(bytes: Uint8Array): DataView {
  const { buffer } = bytes;
  if (buffer === lastBuffer) return lastView;
  const view = buffer === earlierBuffer ? earlierView : new DataView(buffer);
  earlierBuffer = lastBuffer;
  earlierView = lastView;
  lastBuffer = buffer;
  lastView = view;
  return view;
}

export function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = allocate(bytes.length);
  copy.set(bytes);
  return copy;
}

/** One after the other. */
export function joined(parts: readonly Uint8Array[]): Uint8Array<ArrayBuffer> {
  const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    all.set(part, at);
    at += part.length;
  }
  return all;
}
