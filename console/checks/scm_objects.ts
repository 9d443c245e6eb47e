/**
 * The directory of objects in a host's SCM, decoded from the bytes alone: it shares no code with the
 * service that writes it.
 */
import { viewOf } from "../../fabric/base/slab.ts";
import { crc32 } from "../../fabric/wire/roce/icrc.ts";
import type { ImageView } from "./run_record.ts";

export const HEADER_BYTES = 16;
const DIRECTORY_BYTES = 65_536, ALIGNMENT = 256;
/** A read costs more than its bytes. */
const READ_BYTES = 4096;
export const ENTRY_BYTES = 128;
/** "RCKM", then the version. */
export const MAGIC = 0x5243_4b4d, VERSION = 1;
const STATES = ["complete", "pending", "incomplete", "pending"] as const;
const GENERATION_BITS = 30;

export interface FoundEntry {
  readonly name: string;
  readonly state: typeof STATES[number];
  readonly generation: number;
  readonly offset: number;
  readonly length: number;
}

/** Undefined where the SCM has no directory. */
export function directoryIn(
  image: Pick<ImageView, "read" | "touches">,
  scmBytes: number,
): { readonly from: number; readonly to: number } | undefined {
  const end = scmBytes - DIRECTORY_BYTES + HEADER_BYTES;
  for (let from = 0; from < end; from += READ_BYTES) {
    const to = Math.min(end, from + READ_BYTES);
    if (image.touches?.(from, to) === false) continue;
    const headers = viewOf(image.read(from, to));
    for (let at = 0; at + HEADER_BYTES <= headers.byteLength; at += ALIGNMENT) {
      if (headers.getUint32(at + 4) !== MAGIC || headers.getUint32(at + 8) !== VERSION) continue;
      return { from: from + at, to: from + at + DIRECTORY_BYTES };
    }
  }
  return undefined;
}

/** `end`: nothing was ever written there; undefined: a free entry. */
export function entryIn(bytes: Uint8Array): FoundEntry | "end" | undefined {
  if (bytes.every((byte) => byte === 0)) return "end";
  const view = viewOf(bytes);
  if (view.getUint32(0) !== crc32(bytes.subarray(4))) return undefined;
  const word = view.getUint32(4);
  return {
    name: new TextDecoder().decode(bytes.subarray(25, 25 + bytes[24]!)),
    state: STATES[word >>> GENERATION_BITS]!,
    generation: word % 2 ** GENERATION_BITS,
    offset: Number(view.getBigUint64(8)),
    length: Number(view.getBigUint64(16)),
  };
}

/** Includes those of replaced objects and of replacements. */
export function* entriesIn(image: ImageView, scmBytes: number): Generator<FoundEntry> {
  const directory = directoryIn(image, scmBytes);
  if (directory === undefined) return;
  for (let at = directory.from + ENTRY_BYTES; at < directory.to; at += ENTRY_BYTES) {
    const entry = entryIn(image.read(at, at + ENTRY_BYTES));
    if (entry === "end") return;
    if (entry !== undefined) yield entry;
  }
}

/** The object of each name in a host's next life. */
export function objectsIn(image: ImageView, scmBytes: number): Map<string, FoundEntry> {
  const newest = new Map<string, FoundEntry>();
  for (const entry of entriesIn(image, scmBytes)) {
    if (entry.state === "pending") continue;
    const other = newest.get(entry.name);
    if (other === undefined || other.generation < entry.generation) newest.set(entry.name, entry);
  }
  return newest;
}
