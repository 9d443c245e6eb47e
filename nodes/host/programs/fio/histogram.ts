/**
 * fio's histogram of latencies: 64 buckets for each power of two, so that a value is known to 1/128 of
 * itself (`stat.h`: FIO_IO_U_PLAT_BITS; `plat_val_to_idx`, `plat_idx_to_val`).
 */

const BITS = 6;
const GROUP = 1 << BITS;
/** FIO_IO_U_PLAT_NR. */
export const BUCKETS = 29 * GROUP;

export function bucketOf(ns: number): number {
  if (ns < 2 * GROUP) return ns;
  const highest = Math.floor(Math.log2(ns));
  // The logarithm may have been rounded up.
  const msb = 2 ** highest > ns ? highest - 1 : highest;
  const errorBits = msb - BITS;
  const offset = Math.floor(ns / 2 ** errorBits) % GROUP;
  return Math.min((errorBits + 1) * GROUP + offset, BUCKETS - 1);
}

/** In ns: the value of percentiles. */
export function valueOf(bucket: number): number {
  if (bucket < 2 * GROUP) return bucket;
  const errorBits = Math.floor(bucket / GROUP) - 1;
  return Math.floor(2 ** (errorBits + BITS) + (bucket % GROUP + 0.5) * 2 ** errorBits);
}
