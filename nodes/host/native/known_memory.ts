/**
 * What a record knows of a process's memory: what the card has written there and read from there. A
 * read that finds no more than that needs no bytes in the record. The recording and the replaying side
 * keep it alike.
 */

const PAGE_BYTES = 4_096;
/** Pages beyond which all is forgotten, on both sides at the same read or write: 64 MiB. */
const PAGES_MOST = 16_384;

export class KnownMemory {
  readonly #pages = new Map<number, Uint8Array<ArrayBuffer>>();

  /** Whether it knows these bytes at this address; unknown ones are 0, as new memory is. */
  has(address: number, bytes: Uint8Array): boolean {
    return eachPart(address, bytes.length, (page, inPage, from, to) => {
      const known = this.#pages.get(page);
      if (known === undefined) return isZero(bytes.subarray(from, to));
      return isEqual(bytes.subarray(from, to), known.subarray(inPage, inPage + to - from));
    });
  }

  set(address: number, bytes: Uint8Array): void {
    eachPart(address, bytes.length, (page, inPage, from, to) => {
      this.#page(page).set(bytes.subarray(from, to), inPage);
      return true;
    });
  }

  get(address: number, length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length);
    eachPart(address, length, (page, inPage, from, to) => {
      const known = this.#pages.get(page);
      if (known !== undefined) bytes.set(known.subarray(inPage, inPage + to - from), from);
      return true;
    });
    return bytes;
  }

  #page(page: number): Uint8Array<ArrayBuffer> {
    const known = this.#pages.get(page);
    if (known !== undefined) return known;
    if (this.#pages.size === PAGES_MOST) this.#pages.clear();
    const made = new Uint8Array(PAGE_BYTES);
    this.#pages.set(page, made);
    return made;
  }
}

/** @returns whether `use` has returned true for each part: it ends at the first that does not. */
function eachPart(
  address: number,
  length: number,
  use: (page: number, inPage: number, from: number, to: number) => boolean,
): boolean {
  for (let from = 0; from < length;) {
    const at = address + from, inPage = at % PAGE_BYTES;
    const to = Math.min(length, from + PAGE_BYTES - inPage);
    if (!use((at - inPage) / PAGE_BYTES, inPage, from, to)) return false;
    from = to;
  }
  return true;
}

function isZero(bytes: Uint8Array): boolean {
  for (let i = 0; i < bytes.length; i++) if (bytes[i] !== 0) return false;
  return true;
}

/** Of equal lengths: by words where both lie so, as most of a message does. */
function isEqual(x: Uint8Array, y: Uint8Array): boolean {
  let i = 0;
  if (x.byteOffset % 4 === 0 && y.byteOffset % 4 === 0) {
    const words = x.length >> 2;
    const a = new Uint32Array(x.buffer, x.byteOffset, words);
    const b = new Uint32Array(y.buffer, y.byteOffset, words);
    for (let word = 0; word < words; word++) if (a[word] !== b[word]) return false;
    i = 4 * words;
  }
  for (; i < x.length; i++) if (x[i] !== y[i]) return false;
  return true;
}
