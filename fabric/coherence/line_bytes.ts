/**
 * Content of a line as bytes, and the changes by stores and atomics: byte masks make false sharing
 * visible.
 */
import { assert } from "../base/assert.ts";
import { keptCopyOf, viewOf } from "../base/slab.ts";
import { LINE_BYTES } from "../base/cache_line.ts";
import { type LineChange, WHOLE_LINE } from "../wire/host_bus/line_change.ts";
import type { Contents } from "./access.ts";
import { type Data, LOST } from "../wire/roce/coherence_messages.ts";

export const BYTE_CONTENTS: Contents = {
  apply: (data, change) => applied(data, change as LineChange),
  tellsOld: (change) => (change as LineChange).kind !== "write",
};

function applied(data: Data, change: LineChange): Uint8Array | null {
  const isWhole = change.kind === "write" && change.mask === WHOLE_LINE;
  if (isWhole) return keptCopyOf(change.bytes);
  if (data === LOST) return null;
  assert(data instanceof Uint8Array, `Cannot change a line that is no bytes: ${String(data)}`);
  const bytes = keptCopyOf(data);
  if (change.kind === "write") {
    // Halves of the mask as numbers: big integers are a hundred times as slow.
    const halves = [Number(change.mask & 0xffff_ffffn), Number(change.mask >> 32n)] as const;
    for (let at = 0; at < bytes.length; at++) {
      const half = at < 32 ? halves[0] : halves[1];
      if (half >>> (at & 31) & 1) bytes[at] = change.bytes[at] ?? 0;
    }
    return bytes;
  }
  const { offset } = change;
  assert(
    offset % 8 === 0 && offset >= 0 && offset < LINE_BYTES,
    `Cannot do an atomic at byte ${offset} of a line: expected a multiple of 8 below ` +
      `${LINE_BYTES}`,
  );
  const view = viewOf(bytes);
  const now = view.getBigUint64(offset, true);
  if (change.kind === "add") view.setBigUint64(offset, now + change.operand, true);
  else if (now === change.compare) view.setBigUint64(offset, change.swap, true);
  return bytes;
}
