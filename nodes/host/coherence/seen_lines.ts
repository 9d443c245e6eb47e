/** The content of a region's lines that a program has last seen, for waits that compare with it. */

/** The most recent lines are kept: at least this many, at most twice as many. */
const KEPT = 256;

export class SeenLines {
  #recent = new Map<number, Uint8Array>();
  /** A line is in only one of the two maps. */
  #older = new Map<number, Uint8Array>();

  /** The bytes; the caller may change them. */
  get(line: number): Uint8Array | undefined {
    return this.#recent.get(line) ?? this.#older.get(line);
  }

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
