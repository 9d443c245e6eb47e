import type { Time } from "../../fabric/base/time.ts";

const FIRST = 16, GROWTH = 1.5;

/** Eight bytes each, or four each of whole ones below 2^32. */
export class Numbers {
  readonly #Kind: typeof Float64Array | typeof Uint32Array;
  #values: Float64Array | Uint32Array | undefined;
  length = 0;

  constructor(Kind: typeof Float64Array | typeof Uint32Array = Float64Array) {
    this.#Kind = Kind;
  }

  push(value: number): void {
    let values = this.#values;
    if (values === undefined || this.length === values.length) {
      const grown = new this.#Kind(values === undefined ? FIRST : Math.ceil(GROWTH * this.length));
      if (values !== undefined) grown.set(values);
      this.#values = values = grown;
    }
    values[this.length++] = value;
  }

  at(index: number): number {
    return this.#values![index]!;
  }

  /** The values ascend. */
  countBelow(limit: number): number {
    let low = 0, high = this.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#values![middle]! < limit) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  drop(count: number): void {
    if (count === 0) return;
    const left = this.#values!.subarray(count, this.length);
    const values = new this.#Kind(Math.max(FIRST, left.length));
    values.set(left);
    this.#values = values;
    this.length = left.length;
  }

  subtract(number: number): void {
    for (let i = 0; i < this.length; i++) this.#values![i]! -= number;
  }
}

/** Times of the rows ascend. */
export function countBefore(rows: readonly { readonly time: Time }[], at: Time): number {
  let low = 0, high = rows.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (rows[middle]!.time < at) low = middle + 1;
    else high = middle;
  }
  return low;
}

const CHUNK_BYTES = 1 << 20;

/** In chunks that no collector looks into. */
export class ByteLog {
  readonly #chunks: (Uint8Array<ArrayBuffer> | undefined)[] = [];
  #begin = 0;
  #free = CHUNK_BYTES;

  /** At most a chunk from `at` on; {@link take} reports the used part. */
  room(most: number): { readonly at: number; readonly bytes: Uint8Array<ArrayBuffer> } {
    if (this.#free + most > CHUNK_BYTES) {
      this.#chunks.push(new Uint8Array(CHUNK_BYTES));
      this.#free = 0;
    }
    const bytes = this.#chunks.at(-1)!.subarray(this.#free, this.#free + most);
    return { at: CHUNK_BYTES * (this.#chunks.length - 1) + this.#free, bytes };
  }

  take(length: number): void {
    this.#free += length;
  }

  /** Copies at most a chunk; returns its place. */
  keep(bytes: Uint8Array): number {
    const { at, bytes: room } = this.room(bytes.length);
    room.set(bytes);
    this.take(bytes.length);
    return at;
  }

  read(place: number, length: number): Uint8Array<ArrayBuffer> {
    const at = place % CHUNK_BYTES;
    return this.#chunks[Math.floor(place / CHUNK_BYTES)]!.subarray(at, at + length);
  }

  dropBefore(place: number): void {
    const last = Math.floor(place / CHUNK_BYTES);
    for (let i = Math.floor(this.#begin / CHUNK_BYTES); i < last; i++) this.#chunks[i] = undefined;
    this.#begin = place;
  }

  get heldBytes(): number {
    return CHUNK_BYTES * (this.#chunks.length - 1) + this.#free - this.#begin;
  }
}
