/**
 * The record of a native program: what passed its host's port (`port.ts`) in one life, in order, from
 * which `replaying_port.ts` serves without the program. `recording_port.ts` writes it.
 *
 * It is a sequence of operations: a byte of {@link OPERATIONS}, and numbers of variable length. What the
 * program said is there in full; of what it was told there is as much as tells whether a replay tells it
 * the same. A reply's lease depends on the packing, and is in neither (`Invariants` in README.md).
 */
import { finish, hashBytes, mix, PRIME1 } from "../../../fabric/base/hash.ts";
import { bufferViewOf, viewOf } from "../../../fabric/base/slab.ts";
import type { NativeStart } from "./port.ts";
import { HEAD, REPLY, REQUEST_NAMES, type RequestRow, REQUESTS } from "./requests.ts";

/** Another version is refused. Goes up with each change of what is written. */
export const RECORD_VERSION = 1;

export const OPERATIONS = {
  /** Version, version of the table of requests, words of the command. */
  started: 1,
  /** A request without a reply before it: the first one. */
  first: 2,
  /** The program ended before its first request. */
  none: 3,
  /** A reply ({@link Told}), and the thread's next request. */
  replied: 4,
  /** A reply, behind which the program ended. */
  gone: 5,
  /** What the card wrote since the last reply ({@link WrittenBytes}). */
  written: 6,
  /** A read that finds what is known ({@link KnownMemory}); its place and length. */
  readKnown: 7,
  /** A read, and its bytes. */
  read: 8,
  /** A read where the process has no memory. */
  readNone: 9,
  /** Bytes that it has printed. */
  stdout: 10,
  stderr: 11,
  /** The exit code. */
  ended: 12,
} as const;

/** A program's child by fork(2) has a record of its own, beginning with its parent's command. */
export function childOf(start: NativeStart, pid: number): NativeStart {
  return { ...start, name: `${start.name}~${pid}` };
}

const WORD_BYTES = 8;
const PLACE = Object.fromEntries(REPLY.map((name, place) => [name, place])) as Readonly<
  Record<typeof REPLY[number], number>
>;

/** What a record has of a reply. */
export interface Told {
  readonly thread: number;
  readonly error: number;
  readonly nowPs: number;
  /** Of the words behind its begin, and what follows them. */
  readonly hash: number;
}

export function toldOf(reply: Uint8Array, thread: number): Told {
  const view = viewOf(reply);
  return {
    thread,
    error: wordAt(view, PLACE.error),
    nowPs: wordAt(view, PLACE.nowPs),
    hash: hashBytes(reply.subarray(REPLY.length * WORD_BYTES), 0),
  };
}

function wordAt(view: DataView, place: number): number {
  const at = place * WORD_BYTES;
  return view.getUint32(at + 4, true) * 2 ** 32 + view.getUint32(at, true);
}

/** Bytes, and a hash of them and their places: 0 of none. */
export interface WrittenBytes {
  readonly bytes: number;
  readonly hash: number;
}

/**
 * What the card has written since the last reply. A write comes whole or in pieces, those of two cards
 * in any order: both is as the host likes it, so the sum of hashes of words is taken.
 */
export class Written {
  #bytes = 0;
  #hash = 0;

  get isEmpty(): boolean {
    return this.#bytes === 0;
  }

  /** Pieces of a write are cut at multiples of 8 B. */
  add(address: number, bytes: Uint8Array): void {
    const view = bufferViewOf(bytes), end = bytes.byteOffset + bytes.length;
    let at = bytes.byteOffset, sum = this.#hash, place = address;
    for (; place % HALF_BYTES !== 0 && at < end; at++, place++) {
      sum += placed(place, view.getUint8(at), 1);
    }
    for (; at + HALF_BYTES <= end; at += HALF_BYTES, place += HALF_BYTES) {
      sum += placed(place, view.getInt32(at, true), 0);
    }
    for (; at < end; at++, place++) sum += placed(place, view.getUint8(at), 1);
    this.#hash = sum % 2 ** 32;
    this.#bytes += bytes.length;
  }

  /** Begins anew. */
  take(): WrittenBytes {
    const taken = { bytes: this.#bytes, hash: this.#hash };
    this.#bytes = this.#hash = 0;
    return taken;
  }
}

/** In [0, 2^32). */
function placed(address: number, word: number, kind: number): number {
  return finish(mix(mix(address | 0, word), (address / 2 ** 32 + kind * PRIME1) | 0));
}

const HALF_BYTES = 4;

/** Writes operations. */
export class RecordWriter {
  #bytes = new Uint8Array(1 << 12);
  #view = viewOf(this.#bytes);
  #used = 0;

  get length(): number {
    return this.#used;
  }

  byte(value: number): void {
    this.#room(1);
    this.#bytes[this.#used++] = value;
  }

  /** A whole number from 0 on, below 2^53. */
  number(value: number): void {
    this.#room(8);
    let rest = value;
    while (rest >= 0x80) {
      this.#bytes[this.#used++] = 0x80 | (rest % 0x80);
      rest = Math.floor(rest / 0x80);
    }
    this.#bytes[this.#used++] = rest;
  }

  /** A whole number of a magnitude below 2^52. */
  difference(value: number): void {
    this.number(value < 0 ? -2 * value - 1 : 2 * value);
  }

  hash(value: number): void {
    this.#room(4);
    this.#view.setUint32(this.#used, value, true);
    this.#used += 4;
  }

  bytes(value: Uint8Array): void {
    this.number(value.length);
    this.#room(value.length);
    this.#bytes.set(value, this.#used);
    this.#used += value.length;
  }

  text(value: string): void {
    this.bytes(new TextEncoder().encode(value));
  }

  /** What has been written since the last call. */
  take(): Uint8Array<ArrayBuffer> {
    const bytes = this.#bytes.slice(0, this.#used);
    this.#used = 0;
    return bytes;
  }

  #room(length: number): void {
    const least = this.#used + length;
    if (least <= this.#bytes.length) return;
    const larger = new Uint8Array(2 ** Math.ceil(Math.log2(least)));
    larger.set(this.#bytes);
    this.#bytes = larger;
    this.#view = viewOf(larger);
  }
}

/** Reads what {@link RecordWriter} has written, block by block: an operation lies in one of them. */
export class RecordReader {
  readonly #next: () => Uint8Array | undefined;
  #bytes: Uint8Array = new Uint8Array(0);
  #at = 0;

  /** @param next the next block; undefined at the end. */
  constructor(next: () => Uint8Array | undefined) {
    this.#next = next;
  }

  /** The next operation, without going on; undefined at the end. */
  get operation(): number | undefined {
    while (this.#at === this.#bytes.length) {
      const bytes = this.#next();
      if (bytes === undefined) return undefined;
      this.#bytes = bytes;
      this.#at = 0;
    }
    return this.#bytes[this.#at];
  }

  byte(): number {
    return this.#bytes[this.#at++]!;
  }

  number(): number {
    let value = 0;
    for (let scale = 1;; scale *= 0x80) {
      const byte = this.byte();
      value += (byte & 0x7f) * scale;
      if (byte < 0x80) return value;
    }
  }

  difference(): number {
    const value = this.number();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  hash(): number {
    const value = viewOf(this.#bytes).getUint32(this.#at, true);
    this.#at += 4;
    return value;
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const length = this.number();
    const bytes = this.#bytes.slice(this.#at, this.#at + length);
    this.#at += length;
    return bytes as Uint8Array<ArrayBuffer>;
  }

  text(): string {
    return new TextDecoder().decode(this.bytes());
  }
}

const REQUEST_AT = HEAD.indexOf("request") * WORD_BYTES;

/**
 * Requests by what has changed since the last one of that name: most of a post is as in the last one.
 * Words go by halves of 32 bits: how many are as they were, and by how much the next one is another.
 */
export class RequestCodec {
  readonly #last = new Map<number, Uint32Array>();

  encode(writer: RecordWriter, request: Uint8Array): void {
    const view = viewOf(request), number = view.getUint32(REQUEST_AT, true);
    const words = wordBytesOf(number, request.length);
    const halves = words / HALF_BYTES, last = this.#lastOf(number, halves);
    writer.number(number);
    writer.number(halves);
    let same = 0;
    for (let i = 0; i < halves; i++) {
      const half = view.getUint32(i * HALF_BYTES, true), difference = (half - last[i]!) | 0;
      if (difference === 0) {
        same++;
        continue;
      }
      writer.number(same + 1);
      writer.difference(difference);
      same = 0;
      last[i] = half;
    }
    writer.number(0);
    if (isWithBytes(number)) writer.bytes(request.subarray(words));
  }

  decode(reader: RecordReader): Uint8Array<ArrayBuffer> {
    const number = reader.number(), halves = reader.number(), last = this.#lastOf(number, halves);
    for (let i = -1, skip = reader.number(); skip > 0; skip = reader.number()) {
      i += skip;
      last[i] = last[i]! + reader.difference();
    }
    const bytes = isWithBytes(number) ? reader.bytes() : NO_BYTES;
    const request = new Uint8Array(halves * HALF_BYTES + bytes.length), view = viewOf(request);
    for (let i = 0; i < halves; i++) view.setUint32(i * HALF_BYTES, last[i]!, true);
    request.set(bytes, halves * HALF_BYTES);
    return request;
  }

  #lastOf(number: number, halves: number): Uint32Array {
    const known = this.#last.get(number);
    if (known !== undefined && known.length >= halves) return known;
    const larger = new Uint32Array(halves);
    if (known !== undefined) larger.set(known);
    this.#last.set(number, larger);
    return larger;
  }
}

const NO_BYTES = new Uint8Array(0);

/** Behind the words of a request with rows there is nothing. */
function isWithBytes(number: number): boolean {
  const row: RequestRow | undefined = rowOf(number);
  return row?.rows === undefined;
}

function wordBytesOf(number: number, length: number): number {
  const row = rowOf(number);
  if (row === undefined || row.rows !== undefined) return length - length % WORD_BYTES;
  return Math.min(length, (HEAD.length + row.args.length) * WORD_BYTES);
}

function rowOf(number: number): RequestRow | undefined {
  const name = REQUEST_NAMES[number];
  return name && REQUESTS[name];
}
