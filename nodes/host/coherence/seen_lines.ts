/** What a program has last seen of a region's lines, for waits that compare with it. */

/** The lines that were seen last are kept, so many at least and twice as many at most. */
const KEPT = 256;

export class SeenLines {
  #recent = new Map<number, Uint8Array>();
  /** Each line is in one of the two. */
  #older = new Map<number, Uint8Array>();

  /** The bytes; the caller may change them. */
  get(line: number): Uint8Array | undefined {
    return this.#recent.get(line) ?? this.#older.get(line);
  }

  /** Copies what a line has now. */
  set(line: number, bytes: Uint8Array): void {
    const known = this.#recent.get(line);
    if (known !== undefined) return known.set(bytes);
    this.#older.delete(line);
    if (this.#recent.size >= KEPT) {
      this.#older = this.#recent;
      this.#recent = new Map();
    }
    this.#recent.set(line, bytes.slice());
  }

  delete(line: number): void {
    if (!this.#recent.delete(line)) this.#older.delete(line);
  }
}
