/** Texts that come again and again as bytes, as subjects do: each is decoded once. */

const SLOTS = 1024;
/** Longer ones are seldom the same. */
const LENGTH_MAX = 256;

interface Known {
  readonly bytes: Uint8Array;
  readonly text: string;
}

/** Without the option it would drop a leading U+FEFF. */
const decoder = new TextDecoder("utf-8", { ignoreBOM: true });

/** A text replaces the earlier one in its place, which bounds the table. */
const known: (Known | undefined)[] = new Array(SLOTS).fill(undefined);

/** Of UTF-8 bytes. */
export function textOf(bytes: Uint8Array, from: number, to: number): string {
  if (to - from > LENGTH_MAX) return decoder.decode(bytes.subarray(from, to));
  let hash = 0;
  for (let i = from; i < to; i++) hash = (Math.imul(hash, 31) + bytes[i]!) | 0;
  const slot = (hash ^ (hash >>> 10)) & (SLOTS - 1);
  const found = known[slot];
  if (found !== undefined && isSame(found.bytes, { bytes, from, to })) return found.text;
  const own = bytes.slice(from, to);
  const text = decoder.decode(own);
  known[slot] = { bytes: own, text };
  return text;
}

function isSame(
  own: Uint8Array,
  { bytes, from, to }: { readonly bytes: Uint8Array; readonly from: number; readonly to: number },
): boolean {
  if (own.length !== to - from) return false;
  for (let i = 0; i < own.length; i++) if (own[i] !== bytes[from + i]) return false;
  return true;
}
