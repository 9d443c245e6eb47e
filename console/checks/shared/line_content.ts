/**
 * Possible contents of a region's line, and the effect of an access on them: bytes, and the
 * knowledge of each.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { areEqual } from "../../base/bytes.ts";
import type { NodeTime } from "../finding.ts";

const WORD_BYTES = 8;

/**
 * True if a word of the line may have these bytes, from `at` in the line on, at most to the word's
 * end.
 */
export type MayHave = (at: number, bytes: Uint8Array) => boolean;

export interface LineOp {
  readonly name: string;
  readonly op: "load" | "store" | "add" | "compare-swap" | "lose";
  /** Bytes [from, from + length) of the line. */
  readonly from: number;
  readonly length: number;
  readonly bytes?: Uint8Array | undefined;
  readonly compare?: Uint8Array | undefined;
  /** A load's result, or an atomic's old value; undefined: its program does not know. */
  readonly seen?: Uint8Array | undefined;
  readonly isLost?: boolean;
  /** Of its end, else of its begin, for who tells of it. */
  readonly at?: NodeTime;
  /** For `lose`: it may be wrong. */
  readonly isPossible?: boolean;
}

/** State of a byte; `PERSISTENT`: as at home's power failure. */
const PERSISTENT = 0, KNOWN = 1, ANYTHING = 2;

interface Bytes {
  readonly bytes: Uint8Array;
  readonly known: Uint8Array;
}

/** Null: lost. Equal contents have one {@link keyOf}. */
export type Content = Bytes | null;

export const ZEROS: Content = {
  bytes: new Uint8Array(LINE_BYTES),
  known: new Uint8Array(LINE_BYTES).fill(KNOWN),
};

export const UNSEEN: Bytes = {
  bytes: new Uint8Array(LINE_BYTES),
  known: new Uint8Array(LINE_BYTES).fill(PERSISTENT),
};

const keys = new WeakMap<Bytes, string>();

export function keyOf(content: Content): string {
  if (content === null) return "lost";
  let key = keys.get(content);
  if (key === undefined) {
    const { bytes, known } = content;
    key = bytes.toHex() + (known.every((each) => each === KNOWN) ? "" : known.toHex());
    keys.set(content, key);
  }
  return key;
}

/** The bytes of an access in a content, as text. */
export function bytesText(content: Content, { from, length }: LineOp): string {
  if (content === null) return "lost";
  return isKnown(content, { from, length })
    ? content.bytes.subarray(from, from + length).toHex()
    : "what is persistent";
}

function isKnown({ known }: Bytes, { from, length }: Pick<LineOp, "from" | "length">): boolean {
  for (let at = from; at < from + length; at++) if (known[at] !== KNOWN) return false;
  return true;
}

/**
 * True if it can be done now, and changes nothing known: a load, or a swap that finds another
 * value.
 */
export function isPlainRead(content: Content, op: LineOp): boolean {
  if (content === null || op.seen === undefined || op.isLost === true) return false;
  const isRead = op.op === "load" || (op.op === "compare-swap" && !isEqual(op.seen, op.compare));
  if (!isRead || !isKnown(content, op)) return false;
  const { bytes } = content;
  return op.seen.every((byte, i) => byte === bytes[op.from + i]);
}

/** Undefined where the access cannot have its result. */
export function contentAfter(content: Content, op: LineOp, mayHave: MayHave): Content | undefined {
  // The line may be lost by then: a later report counts from its time on.
  if (op.op === "lose" || op.isLost === true) return null;
  const isWhole = op.op === "store" && op.length === LINE_BYTES;
  if (content === null) return isWhole ? stored(UNSEEN, { ...op, at: op.from }) : undefined;
  const found = op.seen === undefined ? content : bound(content, { ...op, seen: op.seen, mayHave });
  if (found === undefined) return undefined;
  switch (op.op) {
    case "load":
      return found;
    case "store":
      return stored(found, { ...op, at: op.from });
    case "add":
    case "compare-swap":
      return changed(found, op);
  }
}

function bound(
  content: Bytes,
  { from, seen, mayHave }: {
    readonly from: number;
    readonly seen: Uint8Array;
    readonly mayHave: MayHave;
  },
): Bytes | undefined {
  const { bytes, known } = content;
  let isNew = false;
  for (const [i, byte] of seen.entries()) {
    if (known[from + i] !== KNOWN) isNew = true;
    else if (bytes[from + i] !== byte) return undefined;
  }
  if (!isNew) return content;
  for (let at = from; at < from + seen.length;) {
    const wordEnd = at - at % WORD_BYTES + WORD_BYTES;
    const isUnknown = (index: number) => known[index] === PERSISTENT;
    let end = at;
    while (end < Math.min(wordEnd, from + seen.length) && isUnknown(end)) end++;
    if (end > at && !mayHave(at, seen.subarray(at - from, end - from))) return undefined;
    at = Math.max(end, at + 1);
  }
  return stored(content, { at: from, bytes: seen });
}

function stored(
  { bytes, known }: Bytes,
  change: { readonly at: number; readonly bytes?: Uint8Array | undefined },
): Bytes {
  const after = { bytes: bytes.slice(), known: known.slice() };
  if (change.bytes === undefined) return after;
  after.bytes.set(change.bytes, change.at);
  after.known.fill(KNOWN, change.at, change.at + change.bytes.length);
  return after;
}

function changed(
  content: Bytes,
  { op, from, bytes, compare }: LineOp,
): Bytes {
  const old = content.bytes.slice(from, from + WORD_BYTES);
  // An atomic on a word that no access has seen since home's power failed leaves it unknown.
  if (content.known.subarray(from, from + WORD_BYTES).some((each) => each !== KNOWN)) {
    const after = stored(content, { at: from });
    after.known.fill(ANYTHING, from, from + WORD_BYTES);
    return after;
  }
  if (bytes === undefined) return content;
  if (op === "compare-swap") {
    return isEqual(old, compare) ? stored(content, { at: from, bytes }) : content;
  }
  return stored(content, { at: from, bytes: sumOf(old, bytes) });
}

/** Words are little-endian; modulo 2⁶⁴. */
export function sumOf(x: Uint8Array, y: Uint8Array): Uint8Array {
  const word = (bytes: Uint8Array) =>
    new DataView(bytes.buffer, bytes.byteOffset, WORD_BYTES).getBigUint64(0, true);
  const sum = new Uint8Array(WORD_BYTES);
  new DataView(sum.buffer).setBigUint64(0, BigInt.asUintN(64, word(x) + word(y)), true);
  return sum;
}

export function isEqual(x: Uint8Array, y: Uint8Array | undefined): boolean {
  return y !== undefined && areEqual(x, y);
}
