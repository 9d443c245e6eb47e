/**
 * Messages of a fixed shape ↔ sealed CBOR, the bytes of `encodeSealed(row)`, for a third of its
 * work. Other data (a program's options) goes through `codec.ts`.
 */
import { bufferViewOf } from "../base/slab.ts";
import { NEVER, type Time } from "../base/time.ts";
import { textOf } from "../base/text_table.ts";
import { decodeItem, DEPTH_MAX, encode, isSealed, itemEnd, seal, SEAL_BYTES } from "./codec.ts";

export interface Format<T> {
  write(out: RowWriter, value: T): void;
  /** Meaningless if the reader is {@link RowReader.isBad} afterwards. */
  read(row: RowReader): T;
}

export type ReadBy<F> = F extends Format<infer T> ? T : never;

const UNSIGNED = 0, NEGATIVE = 0x20, BYTES = 0x40, TEXT = 0x60, ARRAY = 0x80;
const FALSE = 0xf4, TRUE = 0xf5, NULL = 0xf6, FLOAT64 = 0xfb;
const MAJOR = 0xe0, LOW = 0x1f;
const IN_1 = 24, IN_2 = 25, IN_4 = 26;
const UNDEFINED = Uint8Array.of(0xf7);
const UINT32_END = 2 ** 32;
const NUMBER_BYTES_MAX = 9;
const ASCII_END = 0x80;

const SLAB_BYTES = 64 * 1024;
const encoder = new TextEncoder();

/** Messages are cut from slabs that are never written again. */
export class RowWriter {
  #slab = new Uint8Array(SLAB_BYTES);
  #view = new DataView(this.#slab.buffer);
  #from = 0;
  #at = 0;

  /** The remains of a failed message are dropped. */
  begin(): void {
    this.#at = this.#from;
  }

  seal(): Uint8Array<ArrayBuffer> {
    this.#need(SEAL_BYTES);
    const from = this.#from, end = this.#at + SEAL_BYTES;
    this.#from = this.#at = end;
    const message = new Uint8Array(this.#slab.buffer, from, end - from);
    seal(message);
    return message;
  }

  array(length: number): void {
    this.#head(ARRAY, length);
  }

  number(value: number): void {
    if (value >= 0 && value < UINT32_END && Number.isInteger(value)) {
      return this.#head(UNSIGNED, value);
    }
    if (value < 0 && value >= -UINT32_END && Number.isInteger(value)) {
      return this.#head(NEGATIVE, -1 - value);
    }
    this.#need(NUMBER_BYTES_MAX);
    this.#slab[this.#at] = FLOAT64;
    this.#view.setFloat64(this.#at + 1, value);
    this.#at += NUMBER_BYTES_MAX;
  }

  flag(value: boolean): void {
    this.#byte(value ? TRUE : FALSE);
  }

  nothing(): void {
    this.#byte(NULL);
  }

  text(value: string): void {
    const { length } = value;
    if (length >= IN_1) return this.#anyText(value);
    this.#need(1 + length);
    const slab = this.#slab;
    let at = this.#at;
    slab[at++] = TEXT + length;
    for (let i = 0; i < length; i++) {
      const code = value.charCodeAt(i);
      if (code >= ASCII_END) return this.#anyText(value);
      slab[at++] = code;
    }
    this.#at = at;
  }

  #anyText(value: string): void {
    const bytes = encoder.encode(value);
    this.#head(TEXT, bytes.length);
    this.#copy(bytes);
  }

  bytes(value: Uint8Array): void {
    this.#head(BYTES, value.length);
    this.#copy(value);
  }

  plain(value: unknown): void {
    if (typeof value === "number") return this.number(value);
    if (typeof value === "string") return this.text(value);
    if (typeof value === "boolean") return this.flag(value);
    if (value === null) return this.nothing();
    if (value instanceof Uint8Array) return this.bytes(value);
    if (!Array.isArray(value)) return this.#copy(encode(value));
    this.array(value.length);
    for (const item of value) {
      if (item === undefined) this.#copy(UNDEFINED);
      else this.plain(item);
    }
  }

  #head(major: number, argument: number): void {
    this.#need(NUMBER_BYTES_MAX);
    const slab = this.#slab, at = this.#at;
    if (argument < IN_1) {
      slab[at] = major + argument;
      this.#at = at + 1;
    } else if (argument < 0x100) {
      slab[at] = major + IN_1;
      slab[at + 1] = argument;
      this.#at = at + 2;
    } else if (argument < 0x1_0000) {
      slab[at] = major + IN_2;
      slab[at + 1] = argument >> 8;
      slab[at + 2] = argument;
      this.#at = at + 3;
    } else {
      slab[at] = major + IN_4;
      this.#view.setUint32(at + 1, argument);
      this.#at = at + 5;
    }
  }

  #byte(value: number): void {
    this.#need(1);
    this.#slab[this.#at++] = value;
  }

  #copy(bytes: Uint8Array): void {
    this.#need(bytes.length);
    this.#slab.set(bytes, this.#at);
    this.#at += bytes.length;
  }

  #need(length: number): void {
    if (this.#at + length <= this.#slab.length) return;
    const begun = this.#slab.subarray(this.#from, this.#at);
    const slab = new Uint8Array(Math.max(SLAB_BYTES, 2 * (begun.length + length)));
    slab.set(begun);
    this.#slab = slab;
    this.#view = new DataView(slab.buffer);
    this.#from = 0;
    this.#at = begun.length;
  }
}

/** The first unexpected item makes the reader bad, for good. */
export class RowReader {
  isBad = false;
  #bytes: Uint8Array<ArrayBuffer> = new Uint8Array();
  #at = 0;
  #end = 0;

  open(sealed: Uint8Array): void {
    this.#bytes = sealed as Uint8Array<ArrayBuffer>;
    this.#at = 0;
    this.#end = sealed.length - SEAL_BYTES;
    this.isBad = !isSealed(sealed);
  }

  get isRead(): boolean {
    return !this.isBad && this.#at === this.#end;
  }

  bad(): undefined {
    this.isBad = true;
  }

  array(): number {
    const length = this.#head(ARRAY);
    // Every item takes at least one byte, so a larger count is invalid.
    if (length <= this.#end - this.#at) return length;
    this.isBad = true;
    return 0;
  }

  arrayOf(length: number): void {
    if (this.#head(ARRAY) !== length) this.isBad = true;
  }

  number(): number {
    if (this.#at >= this.#end) return this.#none();
    const head = this.#bytes[this.#at]!;
    if (head < IN_1) {
      this.#at++;
      return head;
    }
    const major = head & MAJOR;
    if (major === UNSIGNED) return this.#head(UNSIGNED);
    if (major === NEGATIVE) return -1 - this.#head(NEGATIVE);
    const at = this.#at + 1, next = this.#at + NUMBER_BYTES_MAX;
    if (head !== FLOAT64 || next > this.#end) return this.#none();
    this.#at = next;
    return bufferViewOf(this.#bytes).getFloat64(this.#bytes.byteOffset + at);
  }

  count(): number {
    const value = this.number();
    if (!Number.isSafeInteger(value) || value < 0) this.isBad = true;
    return value;
  }

  flag(): boolean {
    const head = this.#byte();
    if (head !== TRUE && head !== FALSE) this.isBad = true;
    return head === TRUE;
  }

  text(): string {
    const from = this.#span(TEXT);
    return this.isBad ? "" : textOf(this.#bytes, from, this.#at);
  }

  bytes(): Uint8Array<ArrayBuffer> {
    const from = this.#span(BYTES);
    return this.isBad ? new Uint8Array() : this.#bytes.subarray(from, this.#at);
  }

  /** Reads a null, if one is next. @returns whether it was. */
  nothing(): boolean {
    if (this.#at >= this.#end || this.#bytes[this.#at] !== NULL) return false;
    this.#at++;
    return true;
  }

  /** Undefined if it is no plain data. @param depth maximum nesting of containers. */
  plain(depth = DEPTH_MAX): unknown {
    const head = this.#at < this.#end ? this.#bytes[this.#at]! : this.#none();
    switch (head & MAJOR) {
      case BYTES:
        return this.bytes();
      case TEXT:
        return this.text();
      case ARRAY:
        return this.#plainArray(depth);
      case UNSIGNED:
      case NEGATIVE:
        // Wider ones are bigints.
        if ((head & LOW) <= IN_4) return this.number();
    }
    switch (head) {
      case FLOAT64:
        return this.number();
      case FALSE:
      case TRUE:
        return this.flag();
      case NULL:
        this.#at++;
        return null;
    }
    return this.#other(depth);
  }

  #plainArray(depth: number): unknown[] {
    const items: unknown[] = [], length = this.array();
    if (depth === 0) this.isBad = true;
    for (let i = 0; i < length && !this.isBad; i++) items.push(this.plain(depth - 1));
    return items;
  }

  #other(depth: number): unknown {
    const from = this.#at;
    const end = itemEnd(this.#bytes, from, { length: this.#end, depthMax: depth });
    if (end === undefined) return this.bad();
    this.#at = end;
    const item = decodeItem(this.#bytes.subarray(from, end));
    if (item === undefined && this.#bytes[from] !== UNDEFINED[0]) this.isBad = true;
    return item;
  }

  #head(major: number): number {
    const bytes = this.#bytes;
    let at = this.#at;
    const argument = bytes[at++]! ^ major;
    if (argument < IN_1) {
      this.#at = at;
      return at <= this.#end ? argument : this.#none();
    }
    const width = argument === IN_1 ? 1 : argument === IN_2 ? 2 : argument === IN_4 ? 4 : 0;
    if (width === 0 || at + width > this.#end) return this.#none();
    let value = 0;
    for (let i = 0; i < width; i++) value = value * 256 + bytes[at++]!;
    this.#at = at;
    return value;
  }

  #span(major: number): number {
    const length = this.#head(major), from = this.#at;
    if (length > this.#end - from) this.isBad = true;
    else this.#at = from + length;
    return from;
  }

  #byte(): number {
    return this.#at < this.#end ? this.#bytes[this.#at++]! : this.#none();
  }

  #none(): number {
    this.isBad = true;
    return 0;
  }
}

const writer = new RowWriter(), reader = new RowReader();

export interface SealedBytes<T> {
  toBytes(message: T): Uint8Array<ArrayBuffer>;
  /**
   * Undefined for bytes that are no such message. Byte strings in the result are views of `bytes`.
   */
  fromBytes(bytes: Uint8Array): T | undefined;
}

export function sealedBytesOf<T>(format: Format<T>): SealedBytes<T> {
  return {
    toBytes(message) {
      writer.begin();
      format.write(writer, message);
      return writer.seal();
    },
    fromBytes(bytes) {
      reader.open(bytes);
      if (reader.isBad) return undefined;
      const message = format.read(reader);
      return reader.isRead ? message : undefined;
    },
  };
}

export function isTime(value: unknown): boolean {
  return value === NEVER || (Number.isSafeInteger(value) && (value as number) >= 0);
}

function numberWhere(isOne: (value: number) => boolean): Format<number> {
  return {
    write: (out, value) => out.number(value),
    read(row) {
      const value = row.number();
      if (!isOne(value)) row.bad();
      return value;
    },
  };
}

export const count: Format<number> = {
  write: (out, value) => out.number(value),
  read: (row) => row.count(),
};
export const int: Format<number> = numberWhere(Number.isSafeInteger);
export const time: Format<Time> = numberWhere(isTime);
export const text: Format<string> = {
  write: (out, value) => out.text(value),
  read: (row) => row.text(),
};
export const flag: Format<boolean> = {
  write: (out, value) => out.flag(value),
  read: (row) => row.flag(),
};

export function plain<T>(isOne: (value: unknown) => boolean): Format<T> {
  return {
    write: (out, value) => out.plain(value),
    read(row) {
      const value = row.plain();
      if (!isOne(value)) row.bad();
      return value as T;
    },
  };
}

export function orNull<T>(format: Format<T>): Format<T | null> {
  return {
    write: (out, value) => value === null ? out.nothing() : format.write(out, value),
    read: (row) => row.nothing() ? null : format.read(row),
  };
}

export function listOf<T>(format: Format<T>): Format<readonly T[]> {
  return {
    write(out, values) {
      out.array(values.length);
      for (const value of values) format.write(out, value);
    },
    read(row) {
      const values: T[] = [], length = row.array();
      for (let i = 0; i < length && !row.isBad; i++) values.push(format.read(row));
      return values;
    },
  };
}

export function tupleOf<T extends readonly unknown[]>(
  ...formats: { readonly [I in keyof T]: Format<T[I]> }
): Format<T> {
  const all: readonly Format<unknown>[] = formats;
  return {
    write(out, values) {
      out.array(all.length);
      for (let i = 0; i < all.length; i++) all[i]!.write(out, values[i]);
    },
    read(row) {
      const values: unknown[] = [];
      row.arrayOf(all.length);
      for (let i = 0; i < all.length && !row.isBad; i++) values.push(all[i]!.read(row));
      return values as unknown as T;
    },
  };
}

export function rowOf<Fields extends Readonly<Record<string, Format<unknown>>>>(
  fields: Fields,
): Format<{ readonly [K in keyof Fields]: ReadBy<Fields[K]> }> {
  const keys = Object.keys(fields);
  const formats = Object.values(fields);
  // With all fields from the start, so that its shape does not change while it is filled.
  const blank = Object.fromEntries(keys.map((key) => [key, undefined as unknown]));
  return {
    write(out, value) {
      out.array(keys.length);
      const message = value as Readonly<Record<string, unknown>>;
      for (let i = 0; i < keys.length; i++) formats[i]!.write(out, message[keys[i]!]);
    },
    read(row) {
      const message = { ...blank };
      row.arrayOf(keys.length);
      for (let i = 0; i < keys.length && !row.isBad; i++) {
        message[keys[i]!] = formats[i]!.read(row);
      }
      return message as { readonly [K in keyof Fields]: ReadBy<Fields[K]> };
    },
  };
}
