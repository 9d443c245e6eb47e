/**
 * A wire format as a table of fields, for comparison with the specification; size, type, reader and
 * writer follow from it. Most packets' headers have hand-written ones, for speed; `headers_test.ts`
 * compares them.
 */
import { assert, fail } from "./assert.ts";

/**
 * Width in bits, most significant bit first. Without a name the field is reserved: written as zero,
 * ignored when read. (One that must be preserved has a name.)
 */
export type Field = readonly [name: string, bits: number];

/** 1 bit is a flag, 64 and 128 bits are a bigint, other widths a number. */
type ValueOf<Bits extends number> = Bits extends 1 ? boolean
  : Bits extends 64 | 128 ? bigint
  : number;

export type HeaderOf<Table extends readonly Field[]> = {
  readonly [Row in Table[number] as Row[0] extends "" ? never : Row[0]]: ValueOf<Row[1]>;
};

/** In bytes. */
export function sizeOf(table: readonly Field[]): number {
  const bits = table.reduce((sum, [, width]) => sum + width, 0);
  assert(bits % 8 === 0, `A header is a whole number of bytes, not ${bits} bits`);
  return bits / 8;
}

export function readFields<Table extends readonly Field[]>(
  table: Table,
  source: { readonly view: DataView; readonly at: number },
): HeaderOf<Table> {
  const { view, at } = source;
  const header: Record<string, number | bigint | boolean> = {};
  let bit = at * 8;
  for (let i = 0; i < table.length; i++) {
    const [name, width] = table[i]!;
    if (name !== "") {
      const value = width > NUMBER_BITS_MAX
        ? readBigBits(view, bit, width)
        : readBits(view, bit, width);
      header[name] = width === 1 ? value === 1 : width < 64 ? Number(value) : value;
    }
    bit += width;
  }
  return header as HeaderOf<Table>;
}

/** Over zeroed bytes. */
export function writeFields<Table extends readonly Field[]>(
  table: Table,
  header: HeaderOf<Table>,
  target: { readonly view: DataView; readonly at: number },
): void {
  const { view, at } = target;
  const values = header as Readonly<Record<string, number | bigint | boolean>>;
  let bit = at * 8;
  for (let i = 0; i < table.length; i++) {
    const [name, width] = table[i]!;
    if (name !== "") {
      const given = values[name]!;
      const value = typeof given === "boolean" ? Number(given) : given;
      if (!(value >= 0 && value < ENDS[width]!)) fail(`${name} = ${value} exceeds ${width} bits`);
      if (width > NUMBER_BITS_MAX) writeBigBits(view, bit, { value: BigInt(value), width });
      else writeBits(view, bit, { value: Number(value), width });
    }
    bit += width;
  }
}

/** By width, the first value that exceeds it: a power takes longer than the rest of a field. */
const ENDS: readonly number[] = Array.from({ length: 129 }, (_, width) => 2 ** width);

/** Wider fields are read and written as bigints. */
const NUMBER_BITS_MAX = 32;

function readBits(view: DataView, bit: number, width: number): number {
  const first = bit >> 3, end = (bit + width + 7) >> 3;
  // Most fields are whole bytes: a hint has hundreds.
  if ((bit & 7) === 0) {
    if (width === 8) return view.getUint8(first);
    if (width === 16) return view.getUint16(first);
    if (width === 24) return view.getUint8(first) * 0x1_0000 + view.getUint16(first + 1);
    if (width === 32) return view.getUint32(first);
  }
  let value = 0;
  for (let i = first; i < end; i++) value = value * 256 + view.getUint8(i);
  return Math.floor(value / 2 ** (end * 8 - bit - width)) % 2 ** width;
}

function readBigBits(view: DataView, bit: number, width: number): bigint {
  const first = bit >> 3, end = (bit + width + 7) >> 3;
  if ((bit & 7) === 0 && width === 64) return view.getBigUint64(first);
  let value = 0n;
  for (let i = first; i < end; i++) value = (value << 8n) | BigInt(view.getUint8(i));
  return (value >> BigInt(end * 8 - bit - width)) & ((1n << BigInt(width)) - 1n);
}

function writeBits(view: DataView, bit: number, field: { value: number; width: number }): void {
  const first = bit >> 3, end = (bit + field.width + 7) >> 3;
  if ((bit & 7) === 0) {
    const { value, width } = field;
    if (width === 8) return view.setUint8(first, value);
    if (width === 16) return view.setUint16(first, value);
    if (width === 32) return view.setUint32(first, value);
    if (width === 24) {
      view.setUint8(first, value >> 16);
      return view.setUint16(first + 1, value & 0xffff);
    }
  }
  let rest = field.value * 2 ** (end * 8 - bit - field.width);
  for (let i = end - 1; i >= first; i--) {
    view.setUint8(i, view.getUint8(i) | (rest % 256));
    rest = Math.floor(rest / 256);
  }
}

function writeBigBits(view: DataView, bit: number, field: { value: bigint; width: number }): void {
  const first = bit >> 3, end = (bit + field.width + 7) >> 3;
  if ((bit & 7) === 0 && field.width === 64) return view.setBigUint64(first, field.value);
  let rest = field.value << BigInt(end * 8 - bit - field.width);
  for (let i = end - 1; i >= first; i--) {
    view.setUint8(i, view.getUint8(i) | Number(rest & 0xffn));
    rest >>= 8n;
  }
}
