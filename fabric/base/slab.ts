/**
 * Zeroed bytes for things that are made by the million: frames above all. An array buffer of its own
 * costs V8 about a microsecond, a view into a shared one a tenth of that. Bytes are handed out once
 * and never again, so sharing shows only in `buffer` and `byteOffset`, which therefore belong in
 * every `DataView` made over such bytes. A slab lives as long as any part of it does.
 */

const SLAB_BYTES = 64 * 1024;
/** Larger requests are given a buffer of their own: there it is no longer the buffer that costs. */
const SHARED_BYTES_MAX = 8 * 1024;

let slab = new ArrayBuffer(SLAB_BYTES);
let used = 0;

/** `length` zero bytes, aligned to eight. */
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

/** A view that covers exactly these bytes, wherever in a slab they lie. */
export function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

/** The two buffers that bytes were last read of: those under the slabs of wire and of host memory. */
let lastBuffer: ArrayBufferLike = slab, lastView: DataView = new DataView(slab);
let earlierBuffer: ArrayBufferLike = slab, earlierView: DataView = lastView;

/**
 * A view of the whole buffer under the bytes, which begin at their `byteOffset` in it: cheaper than
 * {@link viewOf} where many small bytes of few slabs are read one after the other.
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

/** A copy of bytes: what `slice` gives, at the price of {@link allocate}. */
export function copyOf(bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  const copy = allocate(bytes.length);
  copy.set(bytes);
  return copy;
}
