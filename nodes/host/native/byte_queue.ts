/** Bytes in the order in which they came, from pieces of any length. */
export class ByteQueue {
  #pieces: Uint8Array<ArrayBuffer>[] = [];
  /** Bytes of the first piece that were taken. */
  #taken = 0;
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** Appends bytes, which must not change any more. */
  push(bytes: Uint8Array<ArrayBuffer>): void {
    if (bytes.length === 0) return;
    this.#pieces.push(bytes);
    this.#length += bytes.length;
  }

  /** A copy of the first `most` bytes, or of all, where they are fewer. */
  peek(most: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(Math.min(most, this.#length));
    let at = 0, from = this.#taken;
    for (const piece of this.#pieces) {
      if (at === bytes.length) break;
      const part = piece.subarray(from, from + bytes.length - at);
      bytes.set(part, at);
      at += part.length;
      from = 0;
    }
    return bytes;
  }

  /** {@link peek}, and removes them. */
  take(most: number): Uint8Array<ArrayBuffer> {
    const bytes = this.peek(most);
    this.#length -= bytes.length;
    let left = this.#taken + bytes.length, whole = 0;
    for (const { length } of this.#pieces) {
      if (left < length) break;
      left -= length;
      whole++;
    }
    this.#pieces.splice(0, whole);
    this.#taken = left;
    return bytes;
  }

  clear(): void {
    this.#pieces = [];
    this.#taken = 0;
    this.#length = 0;
  }
}
