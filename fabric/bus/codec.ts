/**
 * CBOR (RFC 8949) without tags and indefinite lengths, so that decoding cannot yield an object with
 * behaviour or a cycle. `index-no-eval` is cbor-x without its native add-on, which needs
 * permissions; it is as fast.
 */
import { Encoder } from "cbor-x/index-no-eval";
import { assert } from "../base/assert.ts";
import { hashBytes } from "../base/hash.ts";

export const DEPTH_MAX = 32;

const cbor = new Encoder({
  useRecords: false,
  // Otherwise a map's length is written as 16 bits, silently truncated beyond 65535 keys.
  variableMapSize: true,
  // Encode a plain byte string, not a tagged typed array.
  tagUint8Array: false,
});

/** Whole numbers exactly up to 2^53. The encoder never overwrites the result. */
export function encode(value: unknown): Uint8Array<ArrayBuffer> {
  assert(value !== undefined, "Cannot encode undefined: decode returns it for malformed bytes");
  return plainView(cbor.encode(value), 0);
}

/** Unlike a `Buffer`'s own slice(), the view's copies. */
function plainView(bytes: Uint8Array, from: number): Uint8Array<ArrayBuffer> {
  const { buffer, byteOffset, byteLength } = bytes;
  return new Uint8Array(buffer as ArrayBuffer, byteOffset + from, byteLength - from);
}

/**
 * @returns undefined for bytes that are malformed, too deep or hold more than plain data. Byte
 * strings are views of `bytes`, which must not change afterwards.
 */
export function decode(bytes: Uint8Array): unknown {
  return decodeView(plainView(bytes, 0));
}

function decodeView(bytes: Uint8Array): unknown {
  const end = itemEnd(bytes, 0, { length: bytes.length, depthMax: DEPTH_MAX });
  return end === bytes.length ? decodeItem(bytes) : undefined;
}

export function decodeItem(bytes: Uint8Array): unknown {
  try {
    return cbor.decode(bytes);
  } catch {
    return undefined;
  }
}

const UINT32 = 0x1a;
export const SEAL_BYTES = 5;
const SEED = 0x5ea1;
const NO_CHECKSUM = 0xffff_ffff;
const PAIR_BYTES = 1;

/**
 * {@link encode}, with a checksum as a second item (README, Invariants).
 *
 * Both items are encoded at once, as an array without its head: a copy would cost as much as the
 * rest.
 */
export function encodeSealed(value: unknown): Uint8Array<ArrayBuffer> {
  assert(value !== undefined, "Cannot encode undefined: decode returns it for malformed bytes");
  const sealed = plainView(cbor.encode([value, NO_CHECKSUM]), PAIR_BYTES);
  seal(sealed);
  return sealed;
}

/** Undefined also where the checksum differs. */
export function decodeSealed(sealed: Uint8Array): unknown {
  if (!isSealed(sealed)) return undefined;
  const length = sealed.length - SEAL_BYTES;
  return decodeView(new Uint8Array(sealed.buffer, sealed.byteOffset, length));
}

export function seal(message: Uint8Array): void {
  const at = message.length - SEAL_BYTES;
  const hash = hashBytes(message, SEED, at);
  message[at] = UINT32;
  message[at + 1] = hash >>> 24;
  message[at + 2] = hash >>> 16;
  message[at + 3] = hash >>> 8;
  message[at + 4] = hash;
}

export function isSealed(message: Uint8Array): boolean {
  const at = message.length - SEAL_BYTES;
  if (at < 1 || message[at] !== UINT32) return false;
  const hash = hashBytes(message, SEED, at);
  return message[at + 1] === hash >>> 24 && message[at + 2] === (hash >>> 16 & 0xff) &&
    message[at + 3] === (hash >>> 8 & 0xff) && message[at + 4] === (hash & 0xff);
}

/** Per open container; shared, as only one scan runs at a time. */
const itemsLeft = new Float64Array(DEPTH_MAX + 1);

/**
 * Undefined where no well-formed item of plain data ends by `length`, or more than `depthMax`
 * containers are nested. Checked before decoding, as cbor-x recurses without a limit and decodes
 * tags for classes and shared references.
 */
export function itemEnd(
  bytes: Uint8Array,
  from: number,
  { length, depthMax }: { readonly length: number; readonly depthMax: number },
): number | undefined {
  let at = from;
  let depth = 0;
  itemsLeft[0] = 1;
  for (;;) {
    while (itemsLeft[depth] === 0) {
      if (depth === 0) return at;
      depth--;
    }
    itemsLeft[depth]!--;
    if (at >= length) return undefined;
    const head = bytes[at++]!;
    const major = head >> 5;
    const low = head & 0x1f;
    let argument = low;
    if (low >= 24) {
      // 28 to 30 are reserved; 31 is an indefinite length or a break.
      if (low > 27) return undefined;
      const end = at + (1 << (low - 24));
      if (end > length) return undefined;
      argument = 0;
      while (at < end) argument = argument * 256 + bytes[at++]!;
    }
    switch (major) {
      case 2: // byte string
      case 3: // text
        if (argument > length - at) return undefined;
        at += argument;
        break;
      case 4: // array
      case 5: // map
        // Every item takes at least one byte, so a larger count is invalid.
        if (argument * (major - 3) > length - at || depth === depthMax) return undefined;
        itemsLeft[++depth] = argument * (major - 3);
        break;
      case 6: // tag
        return undefined;
      case 7: // false, true, null, undefined, floats; not the other simple values
        if (low < 20 || low === 24) return undefined;
        break;
    }
  }
}
