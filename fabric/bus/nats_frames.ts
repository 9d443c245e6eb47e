/**
 * Messages in NATS's protocol (docs.nats.io, "Client protocol"):
 *
 *     PUB <subject> [reply] <size>␍␊<payload>␍␊
 *     MSG <subject> <sid> [reply] <size>␍␊<payload>␍␊
 *
 * All other operations pass unchanged between the server and the client of nats-core.
 */
import { textOf } from "../base/text_table.ts";
import { BusError } from "./bus.ts";

/** `payload` is a view of memory that is not reused. */
export type Hear = (payload: Uint8Array<ArrayBuffer>, subject: string, reply: string) => void;

const SLAB_BYTES = 64 * 1024;
const LEAST_READ_BYTES = 8 * 1024;
/** Above the limit of any server: a stream with a larger size is invalid. */
const PAYLOAD_BYTES_MAX = 64 << 20;

const CR = 13, LF = 10, SPACE = 32, DIGIT_0 = 48;
const LETTER_H = 72, LETTER_M = 77;
const CRLF_BYTES = 2;

const spaces = new Int32Array(5);

export class Incoming {
  readonly #hearers: ReadonlyMap<number, Hear>;
  #slab = new Uint8Array(SLAB_BYTES);
  #from = 0;
  #to = 0;
  #wanted = 0;

  constructor(hearers: ReadonlyMap<number, Hear>) {
    this.#hearers = hearers;
  }

  get room(): Uint8Array<ArrayBuffer> {
    const length = this.#slab.length;
    if (length - this.#to < LEAST_READ_BYTES || length - this.#from < this.#wanted) {
      // Delivered messages are views of the old one.
      const slab = new Uint8Array(Math.max(SLAB_BYTES, this.#wanted + LEAST_READ_BYTES));
      slab.set(this.#slab.subarray(this.#from, this.#to));
      this.#to -= this.#from;
      this.#from = 0;
      this.#slab = slab;
    }
    return this.#slab.subarray(this.#to);
  }

  /**
   * @returns all other complete operations, each by itself.
   * @throws BusError `lost` for an invalid stream.
   */
  take(count: number): readonly Uint8Array[] {
    this.#to += count;
    this.#wanted = 0;
    const others: Uint8Array[] = [];
    while (this.#from < this.#to) {
      const end = this.#takeOne(others);
      if (end === undefined) break;
      this.#from = end;
    }
    return others;
  }

  /** @returns the end of the first operation; undefined if it is not complete. */
  #takeOne(others: Uint8Array[]): number | undefined {
    const slab = this.#slab, from = this.#from, to = this.#to;
    const first = slab[from];
    let end = from, count = 0;
    for (;; end++) {
      if (end === to) {
        this.#wanted = end - from + 1;
        return undefined;
      }
      const byte = slab[end];
      if (byte === LF) break;
      if (byte === SPACE) spaces[count++] = end;
    }
    end++;
    // MSG, and HMSG with headers, which only the server's own answers have.
    if (first !== LETTER_M && first !== LETTER_H) {
      others.push(slab.subarray(from, end));
      return end;
    }
    const isMessage = first === LETTER_M && (count === 3 || count === 4);
    if (!isMessage && (first === LETTER_M || count > spaces.length)) {
      throw notUnderstood(slab, from);
    }
    const lineEnd = end - CRLF_BYTES, last = spaces[count - 1]!;
    const size = numberIn(slab, last + 1, lineEnd);
    if (!(size <= PAYLOAD_BYTES_MAX)) throw notUnderstood(slab, from);
    const payloadAt = end;
    end += size + CRLF_BYTES;
    if (end > to) {
      this.#wanted = end - from;
      return undefined;
    }
    const hear = isMessage
      ? this.#hearers.get(numberIn(slab, spaces[1]! + 1, spaces[2]!))
      : undefined;
    if (hear === undefined) {
      others.push(slab.subarray(from, end));
      return end;
    }
    const reply = count === 4 ? textOf(slab, spaces[2]! + 1, last) : "";
    const subject = textOf(slab, spaces[0]! + 1, spaces[1]!);
    hear(new Uint8Array(slab.buffer, payloadAt, size), subject, reply);
    return end;
  }
}

function numberIn(bytes: Uint8Array, from: number, to: number): number {
  let value = from < to ? 0 : NaN;
  for (let i = from; i < to; i++) {
    const digit = bytes[i]! - DIGIT_0;
    value = digit >= 0 && digit <= 9 ? value * 10 + digit : NaN;
  }
  return value;
}

function notUnderstood(slab: Uint8Array, from: number): BusError {
  return new BusError("lost", `Cannot read what the server says: ${textOf(slab, from, from + 64)}`);
}

const encoder = new TextEncoder();
/**
 * A rack's processes have few subjects, answers many. All are dropped when more come; those in use
 * soon return.
 */
const HEADS_MAX = 1024;

export class Outgoing {
  readonly #heads = new Map<string, Uint8Array>();
  #buffer = new Uint8Array(SLAB_BYTES);
  #used = 0;
  #spare = new Uint8Array(SLAB_BYTES);

  get isEmpty(): boolean {
    return this.#used === 0;
  }

  knows(subject: string): boolean {
    return this.#heads.has(subject);
  }

  publish(subject: string, payload: Uint8Array, reply = ""): void {
    const { length } = payload;
    const head = this.#headOf(subject);
    const asked = reply === "" ? undefined : encoder.encode(`${reply} `);
    const digits = digitsOf(length);
    const end = head.length + (asked?.length ?? 0) + digits + length + 2 * CRLF_BYTES;
    const bytes = this.#roomFor(end);
    let at = this.#used;
    bytes.set(head, at);
    at += head.length;
    if (asked !== undefined) {
      bytes.set(asked, at);
      at += asked.length;
    }
    for (let i = at + digits - 1, rest = length; i >= at; i--, rest = (rest - rest % 10) / 10) {
      bytes[i] = DIGIT_0 + rest % 10;
    }
    at += digits;
    bytes[at++] = CR;
    bytes[at++] = LF;
    bytes.set(payload, at);
    at += length;
    bytes[at++] = CR;
    bytes[at++] = LF;
    this.#used = at;
  }

  append(operations: Uint8Array): void {
    this.#roomFor(operations.length).set(operations, this.#used);
    this.#used += operations.length;
  }

  /** They have to be written before the next call, which reuses their memory. */
  take(): Uint8Array<ArrayBuffer> {
    const taken = this.#buffer.subarray(0, this.#used);
    const next = this.#spare;
    this.#spare = this.#buffer.length > SLAB_BYTES ? new Uint8Array(SLAB_BYTES) : this.#buffer;
    this.#buffer = next;
    this.#used = 0;
    return taken;
  }

  #headOf(subject: string): Uint8Array {
    let head = this.#heads.get(subject);
    if (head !== undefined) return head;
    head = encoder.encode(`PUB ${subject} `);
    if (this.#heads.size === HEADS_MAX) this.#heads.clear();
    this.#heads.set(subject, head);
    return head;
  }

  #roomFor(length: number): Uint8Array {
    const needed = this.#used + length;
    if (needed > this.#buffer.length) {
      const larger = new Uint8Array(Math.max(needed, 2 * this.#buffer.length));
      larger.set(this.#buffer.subarray(0, this.#used));
      this.#buffer = larger;
    }
    return this.#buffer;
  }
}

function digitsOf(count: number): number {
  let digits = 1;
  for (let rest = count; rest >= 10; rest /= 10) digits++;
  return digits;
}
