/**
 * Ranges that the CPU must flush for a message in flow 2 (P-26, P-31) besides the completion's own:
 * they are in the buffer of the completed RECV, as if a SEND had written them, and the completion's
 * immediate is their number.
 */
import { type HeaderOf, readFields, sizeOf, writeFields } from "../../base/fields.ts";
import { allocate, viewOf } from "../../base/slab.ts";

/** Big-endian; `va` as the host's programs know the memory. */
const PERSIST_RANGE_FIELDS = [["va", 64], ["length", 64]] as const;
export const PERSIST_RANGE_BYTES = sizeOf(PERSIST_RANGE_FIELDS);
export type PersistRange = HeaderOf<typeof PERSIST_RANGE_FIELDS>;

export function encodePersistRanges(ranges: readonly PersistRange[]): Uint8Array<ArrayBuffer> {
  const bytes = allocate(ranges.length * PERSIST_RANGE_BYTES);
  const view = viewOf(bytes);
  ranges.forEach((range, i) => {
    writeFields(PERSIST_RANGE_FIELDS, range, { view, at: i * PERSIST_RANGE_BYTES });
  });
  return bytes;
}

export function decodePersistRanges(bytes: Uint8Array): PersistRange[] {
  const view = viewOf(bytes);
  const ranges: PersistRange[] = [];
  for (let at = 0; at + PERSIST_RANGE_BYTES <= bytes.length; at += PERSIST_RANGE_BYTES) {
    ranges.push(readFields(PERSIST_RANGE_FIELDS, { view, at }));
  }
  return ranges;
}
