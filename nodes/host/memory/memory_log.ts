/**
 * Changes of a host's persistent memory, as they happen, with exact times: what a power failure at *any* instant would
 * leave (P-05, P-41), without another run. A host without a log does none of this work, and its run is the same.
 *
 * Offsets are into SCM. Times never decrease. Entries of one instant are in order; a power failure
 * at `t` precedes all entries at `t`.
 */
import type { Time } from "../../../fabric/base/time.ts";

/** A `unit` of {@link MemoryLog.durable}: words became durable in sequence. */
export const IN_ORDER = 0;

export interface MemoryLog {
  /**
   * Bytes survive from now on. The observer may keep them; they never change.
   * @param unit size of atomic, aligned writes to memory: 64 for a line from the cache, else 8
   * (P-41: pieces of a DMA write, a core's non-temporal stores). A power failure at this very
   * instant may find some of these units in memory and others not; a partly covered unit is atomic,
   * too. {@link IN_ORDER}: a core's stores that survive at once (`eadr`, `wsp`): any prefix of its
   * words, and all stores of that core before them at the same instant.
   */
  durable(at: Time, offset: number, bytes: Uint8Array, unit: number): void;
  /**
   * A line has new bytes that a power failure loses, unless it happened to be written back before (a cache or
   * write-combining buffer may do so at any time, with the bytes of that time). So a failure may leave the durable
   * bytes, or those of any one of these calls since the line was last {@link clean}; lines are independent. Where the
   * cache survives (`eadr`) only write-combining buffers are reported, where all survives (`wsp`) nothing is.
   * @param line offset of the line, a multiple of 64.
   * @param bytes the line's current 64 B; valid during the call.
   * @param words bit mask of the 8 B words that a core has just stored, bit 0 the first: the stores
   * are sequential, so a write-back may also have found a prefix of them. 0 for a device's write,
   * which is atomic.
   */
  dirty(at: Time, line: number, bytes: Uint8Array, words: number): void;
  /** All bytes reported by {@link dirty} were reported by {@link durable} just now. */
  clean(at: Time, line: number): void;
  /**
   * The line is in the write queue until `until`, when it is on the medium; `at`: it bypasses the
   * queue. No power failure tells the two apart.
   */
  queued?(at: Time, line: number, until: Time): void;
}
