/**
 * The instructions by which a program flushes by itself: `clwb`, `clflushopt`, `clflush` and non-temporal stores
 * (`movnt…`). The library cannot see them (`nodes/host/native/lib/scm.c`), so a run says how many there are. Code is
 * decoded as far as the lengths of instructions go, from the begin of each executable section, so that bytes of an
 * operand are not counted (Intel 64 Software Developer's Manual, volume 2, chapter 2 and appendix A). Data between
 * functions may be, hence "up to".
 */

/** Prefixes that change nothing here: segments, address size, LOCK. */
const PREFIXES: ReadonlySet<number> = new Set([0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65, 0x67, 0xf0]);
const OPERAND_SIZE = 0x66, REPNE = 0xf2, REP = 0xf3, ADDRESS_SIZE = 0x67;

/** What follows an opcode: a ModRM byte, and bytes of immediate. `z`: 4, or 2 with the operand-size prefix. */
type Operands = "none" | "modrm" | "modrm 1" | "modrm z" | "1" | "2" | "3" | "4" | "z";

function rangesOf(ranges: Readonly<Partial<Record<Operands, string>>>): readonly Operands[] {
  const table = new Array<Operands>(256).fill("none");
  for (const [operands, text] of Object.entries(ranges)) {
    for (const range of text.split(" ")) {
      const [from = 0, to = from] = range.split("-").map((digits) => parseInt(digits, 16));
      table.fill(operands as Operands, from, to + 1);
    }
  }
  return table;
}

/** Opcodes of one byte (table A-2). */
const ONE_BYTE = rangesOf({
  modrm: "00-03 08-0b 10-13 18-1b 20-23 28-2b 30-33 38-3b 63 84-8f d0-d3 d8-df f6 f7 fe ff",
  "modrm 1": "6b 80 82 83 c0 c1 c6",
  "modrm z": "69 81 c7",
  "1": "04 0c 14 1c 24 2c 34 3c 6a 70-7f a8 b0-b7 cd e0-e7 eb",
  "2": "c2 ca",
  "3": "c8",
  "4": "e8 e9",
  "z": "05 0d 15 1d 25 2d 35 3d 68 a9 b8-bf",
});

/** Opcodes behind 0F (table A-3). Those of two more tables have a ModRM byte each, and of 0F 3A an immediate. */
const TWO_BYTES = rangesOf({
  modrm: "00-03 0d 10-23 28-2f 40-76 78-7f 90-9f a3 a5 ab ad-c7 d0-ff",
  "modrm 1": "0f 70-73 a4 ac ba c2 c4-c6",
  "4": "80-8f",
});

/** A map of opcodes: the number that VEX and EVEX give it. */
const MAP_0F = 1, MAP_0F38 = 2, MAP_0F3A = 3;

interface Opcode {
  /** 0: of one byte. */
  readonly map: number;
  readonly opcode: number;
  readonly isWord: boolean;
  /** The prefix that selects an instruction among those of one opcode: none, 66, F3 or F2. */
  readonly selects: 0 | 1 | 2 | 3;
}

/** How many of them are in a section of code. */
export function flushesIn(code: Uint8Array): number {
  let count = 0;
  for (let at = 0; at < code.length;) {
    const decoded = decode(code, at);
    if (decoded.flushes) count++;
    at += decoded.length;
  }
  return count;
}

/** An instruction at this place; bytes beyond the end count as zeros. */
export function decode(
  code: Uint8Array,
  from: number,
): { readonly length: number; readonly flushes: boolean } {
  let at = from, isWord = false, isShort = false, isWide = false;
  let repeats: 0 | 2 | 3 = 0;
  for (;; at++) {
    const byte = code[at] ?? 0;
    if (byte === OPERAND_SIZE) isWord = true;
    else if (byte === REP) repeats = 2;
    else if (byte === REPNE) repeats = 3;
    else if (!PREFIXES.has(byte)) break;
    if (byte === ADDRESS_SIZE) isShort = true;
    // No instruction is longer than 15 bytes.
    if (at - from > 14) return { length: 1, flushes: false };
  }
  if (((code[at] ?? 0) & 0xf0) === 0x40) isWide = (code[at++]! & 8) !== 0;
  const selects = repeats !== 0 ? repeats : isWord ? 1 : 0;
  const first = code[at++] ?? 0, next = code[at] ?? 0;
  let found: Opcode;
  if (first === 0xc5) {
    found = { map: MAP_0F, opcode: code[at + 1] ?? 0, isWord: false, selects: selected(next) };
    at += 2;
  } else if (first === 0xc4 || first === 0x62) {
    // EVEX has a byte more, and the selecting prefix in the same place.
    const more = first === 0x62 ? 1 : 0, map = next & (first === 0x62 ? 7 : 0x1f);
    const opcode = code[at + 2 + more] ?? 0;
    found = { map, opcode, isWord: false, selects: selected(code[at + 1] ?? 0) };
    at += 3 + more;
  } else if (first !== 0x0f) {
    found = { map: 0, opcode: first, isWord, selects };
  } else {
    const map = next === 0x38 ? MAP_0F38 : next === 0x3a ? MAP_0F3A : MAP_0F;
    if (map !== MAP_0F) at++;
    found = { map, opcode: code[at++] ?? 0, isWord, selects };
  }
  const modrm = code[at] ?? 0;
  const length = at - from + operandBytes(found, code, { at, isWide, isShort });
  return { length, flushes: flushes(found, modrm) };
}

function selected(payload: number): Opcode["selects"] {
  return (payload & 3) as Opcode["selects"];
}

function operandBytes(
  { map, opcode, isWord }: Opcode,
  code: Uint8Array,
  { at, isWide, isShort }: {
    readonly at: number;
    readonly isWide: boolean;
    readonly isShort: boolean;
  },
): number {
  const z = isWord && !isWide ? 2 : 4;
  if (map === 0) {
    if (opcode >= 0xb8 && opcode <= 0xbf) return isWide ? 8 : z;
    if (opcode >= 0xa0 && opcode <= 0xa3) return isShort ? 4 : 8;
    const reg = ((code[at] ?? 0) >> 3) & 7;
    // TEST has an immediate, the others of its group have none.
    if (opcode === 0xf6 && reg < 2) return addressBytes(code, at) + 1;
    if (opcode === 0xf7 && reg < 2) return addressBytes(code, at) + z;
  }
  const operands: Operands = map === 0
    ? ONE_BYTE[opcode]!
    : map === MAP_0F
    ? TWO_BYTES[opcode]!
    : map === MAP_0F3A
    ? "modrm 1"
    : "modrm";
  const [form, more] = operands.split(" ");
  if (form === "none") return 0;
  const immediate = form === "modrm" ? more : form;
  const bytes = immediate === undefined ? 0 : immediate === "z" ? z : Number(immediate);
  return (form === "modrm" ? addressBytes(code, at) : 0) + bytes;
}

/** ModRM, SIB and displacement (tables 2-2 and 2-3). */
function addressBytes(code: Uint8Array, at: number): number {
  const modrm = code[at] ?? 0, mode = modrm >> 6, rm = modrm & 7;
  if (mode === 3) return 1;
  const hasIndex = rm === 4, base = hasIndex ? (code[at + 1] ?? 0) & 7 : rm;
  const displacement = mode === 1 ? 1 : mode === 2 || base === 5 ? 4 : 0;
  return 1 + (hasIndex ? 1 : 0) + displacement;
}

function flushes({ map, opcode, selects }: Opcode, modrm: number): boolean {
  if (map !== MAP_0F || modrm >> 6 === 3) return false;
  const reg = (modrm >> 3) & 7;
  switch (opcode) {
    case 0xae:
      return (reg === 7 && selects < 2) || (reg === 6 && selects === 1);
    case 0xc3:
      return selects === 0;
    case 0x2b:
      return true;
    case 0xe7:
      return selects < 2;
    default:
      return false;
  }
}
