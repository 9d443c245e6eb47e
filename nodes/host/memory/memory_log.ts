/**
 * What becomes of a host's persistent memory, told to an observer outside as it happens and with exact
 * times: enough to say what a power failure at *any* instant would leave (P-05, P-41), without running
 * again up to it. A host without a log does none of this work, and runs the same.
 *
 * Offsets are into SCM. Times never fall. Entries of one instant come in the order in which they
 * happened; a power failure at `t` comes before everything at `t`.
 */
import type { Time } from "../../../fabric/base/time.ts";

/** As `unit` of {@link MemoryLog.durable}: the words became durable one after the other, in this order. */
export const IN_ORDER = 0;

export interface MemoryLog {
  /**
   * Bytes that survive from now on. They may be kept, and never change.
   * @param unit the fewest bytes of it that memory takes at once, from a multiple of it on: 64 for a
   *   line that leaves the cache, else 8 (P-41: pieces of a DMA write, what a core streams). A power
   *   failure at this very instant may find some of these units in memory and others not; a unit that
   *   this covers in part only is whole all the same. {@link IN_ORDER}: what a core has stored where that
   *   survives at once (`eadr`, `wsp`): the first few words of it, and all that the core had stored before
   *   at the same instant.
   */
  durable(at: Time, offset: number, bytes: Uint8Array, unit: number): void;
  /**
   * A line has new bytes that a power failure loses, unless the line happened to be written back before
   * (the cache may do so at any time, with the bytes of that time; so may a core's write-combining
   * buffer). So what it may leave of the line is what was durable, or the bytes of any one of these
   * calls since the line was last {@link clean}; each line for itself. Where the cache survives
   * (`eadr`) only what is in a write-combining buffer is told, where all survives (`wsp`) nothing is.
   * @param line offset of the line, a multiple of 64.
   * @param bytes the line's 64 B as they are now: lent.
   * @param words the line's words of 8 B that a core has just stored to, bit 0 the first: they came one
   *   after another, so a write-back may also have found the first few of them only. 0 where a device
   *   wrote: its bytes came together.
   */
  dirty(at: Time, line: number, bytes: Uint8Array, words: number): void;
  /** All that {@link dirty} told of the line is durable now, as {@link durable} has just said. */
  clean(at: Time, line: number): void;
}
