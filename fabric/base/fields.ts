/**
 * A wire format as a table of fields in wire order, for comparison with the specification; size,
 * type, reader and writer follow from it. Headers of every packet also have fast hand-written ones.
 */
import { assert } from "./assert.ts";

/**
 * Name and width in bits, most significant bit first. A field without a name is reserved: written
 * as zero and ignored when read. (A reserved field that must be preserved has a name.)
 */
export type Field = readonly [name: string, bits: number];

/** 1 bit is a flag, 64 and 128 bits are a bigint, other widths a number. */
type ValueOf<Bits extends number> = Bits extends 1 ? boolean
  : Bits extends 64 | 128 ? bigint
  : number;

/** The plain object that a table describes. */
export type HeaderOf<Table extends readonly Field[]> = {
  readonly [Row in Table[number] as Row[0] extends "" ? never : Row[0]]: ValueOf<Row[1]>;
};

/** Size in bytes of the header. */
export function sizeOf(table: readonly Field[]): number {
  const bits = table.reduce((sum, [, width]) => sum + width, 0);
  assert(bits % 8 === 0, `A header is a whole number of bytes, not ${bits} bits`);
  return bits / 8;
}

/** Reads a header field by field: slow, for control messages and for tests. */
export function readFields<Table extends readonly Field[]>(
  table: Table,
  source: { readonly view: DataView; readonly at: number },
): HeaderOf<Table> {
  const header: Record<string, number | bigint | boolean> = {};
  let bit = source.at * 8;
  for (const [name, width] of table) {
    if (name !== "") {
      const value = readBits(source.view, { bit, width });
      header[name] = width === 1 ? value === 1n : width >= 64 ? value : Number(value);
    }
    bit += width;
  }
  return header as HeaderOf<Table>;
}

/** Writes a header field by field over zeroed bytes. */
export function writeFields<Table extends readonly Field[]>(
  table: Table,
  header: HeaderOf<Table>,
  target: { readonly view: DataView; readonly at: number },
): void {
  const values = header as Readonly<Record<string, number | bigint | boolean>>;
  let bit = target.at * 8;
  for (const [name, width] of table) {
    if (name !== "") {
      const value = BigInt(values[name]!);
      assert(
        value >= 0n && value >> BigInt(width) === 0n,
        `${name} = ${value} exceeds ${width} bits`,
      );
      writeBits(target.view, value, { bit, width });
    }
    bit += width;
  }
}

interface BitRange {
  readonly bit: number;
  readonly width: number;
}

function readBits(view: DataView, { bit, width }: BitRange): bigint {
  const first = bit >> 3, end = (bit + width + 7) >> 3;
  let value = 0n;
  for (let i = first; i < end; i++) value = (value << 8n) | BigInt(view.getUint8(i));
  return (value >> BigInt(end * 8 - bit - width)) & ((1n << BigInt(width)) - 1n);
}

function writeBits(view: DataView, value: bigint, { bit, width }: BitRange): void {
  const first = bit >> 3, end = (bit + width + 7) >> 3;
  let rest = value << BigInt(end * 8 - bit - width);
  for (let i = end - 1; i >= first; i--) {
    view.setUint8(i, view.getUint8(i) | Number(rest & 0xffn));
    rest >>= 8n;
  }
}
