/** Allocates chunks at their first write. Unwritten bytes are the initial image's, or zeros. */
import { assert, fail } from "../../../fabric/base/assert.ts";

export const CHUNK_BYTES = 64 * 1024;

/** Initial content: exactly `length` bytes. Called once for each chunk. */
export type ImageReader = (offset: number, length: number) => Uint8Array;

/** The effect of broken cells on bytes: the same array where no cell is broken, else a copy. */
export type Stick = (offset: number, bytes: Uint8Array) => Uint8Array;

const ZEROS = new Uint8Array(CHUNK_BYTES);

export class SparseBytes {
  readonly bytes: number;
  readonly #chunks = new Map<number, Uint8Array>();
  readonly #image: ImageReader | undefined;
  readonly #stick: Stick | undefined;
  #lastIndex = -1;
  #last: Uint8Array = ZEROS;

  constructor(bytes: number, image?: ImageReader, stick?: Stick) {
    this.bytes = bytes;
    this.#image = image;
    this.#stick = stick;
  }

  get residentBytes(): number {
    let chunks = 0;
    for (const chunk of this.#chunks.values()) if (chunk !== ZEROS) chunks++;
    return chunks * CHUNK_BYTES;
  }

  read(offset: number, target: Uint8Array): void {
    this.#check(offset, target.length);
    let done = 0;
    while (done < target.length) {
      const index = Math.floor((offset + done) / CHUNK_BYTES);
      const from = offset + done - index * CHUNK_BYTES;
      const length = Math.min(CHUNK_BYTES - from, target.length - done);
      target.set(this.#chunk(index).subarray(from, from + length), done);
      done += length;
    }
  }

  write(offset: number, given: Uint8Array): void {
    this.#check(offset, given.length);
    const source = this.#stick?.(offset, given) ?? given;
    let done = 0;
    while (done < source.length) {
      const index = Math.floor((offset + done) / CHUNK_BYTES);
      const from = offset + done - index * CHUNK_BYTES;
      const length = Math.min(CHUNK_BYTES - from, source.length - done);
      const whole = length === source.length;
      this.#writable(index).set(whole ? source : source.subarray(done, done + length), from);
      done += length;
    }
  }

  /**
   * Reads the range's chunks from the image. Required before the image's source changes (the SCM
   * file, at output commit): a later read would return future bytes.
   */
  touch(offset: number, length: number): void {
    if (length === 0) return;
    const last = Math.floor((offset + length - 1) / CHUNK_BYTES);
    for (let index = Math.floor(offset / CHUNK_BYTES); index <= last; index++) this.#chunk(index);
  }

  #check(offset: number, length: number): void {
    if (!(offset >= 0 && offset + length <= this.bytes)) {
      fail(`Access to ${length} B at ${offset} of a memory of ${this.bytes} B`);
    }
  }

  #chunk(index: number): Uint8Array {
    if (index === this.#lastIndex) return this.#last;
    let chunk = this.#chunks.get(index);
    if (chunk === undefined) {
      chunk = this.#initial(index);
      this.#chunks.set(index, chunk);
    }
    this.#lastIndex = index;
    this.#last = chunk;
    return chunk;
  }

  #writable(index: number): Uint8Array {
    const chunk = this.#chunk(index);
    if (chunk !== ZEROS) return chunk;
    const fresh = new Uint8Array(CHUNK_BYTES);
    this.#chunks.set(index, fresh);
    this.#last = fresh;
    return fresh;
  }

  #initial(index: number): Uint8Array {
    if (this.#image === undefined && this.#stick === undefined) return ZEROS;
    const offset = index * CHUNK_BYTES;
    const length = Math.min(CHUNK_BYTES, this.bytes - offset);
    const given = this.#image?.(offset, length) ?? new Uint8Array(length);
    const image = this.#stick?.(offset, given) ?? given;
    assert(
      image.length === length,
      `The image gave ${image.length} B of the ${length} B asked for`,
    );
    if (isZero(image)) return ZEROS;
    const chunk = new Uint8Array(CHUNK_BYTES);
    chunk.set(image);
    return chunk;
  }
}

export function overlay(
  bytes: Uint8Array,
  offset: number,
  segments: Iterable<{ readonly offset: number; readonly data: Uint8Array }>,
): void {
  for (const { offset: at, data } of segments) {
    const from = Math.max(at, offset), to = Math.min(at + data.length, offset + bytes.length);
    if (from < to) bytes.set(data.subarray(from - at, to - at), from - offset);
  }
}

function isZero(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}
