/**
 * The congestion point (`rocev2.md` §3.9): random early detection on the instantaneous queue
 * length, as DCQCN requires (Zhu et al., SIGCOMM'15, §3.1).
 */
import type { Rng } from "../../fabric/base/rng.ts";
import type { EcnParameters } from "../../fabric/rack/plan/plan.ts";

/** @returns how many of 2^32 frames are marked. */
export function markThreshold(ecn: EcnParameters, queueBytes: number): number {
  const { kminBytes, kmaxBytes, pmax } = ecn;
  if (queueBytes < kminBytes) return 0;
  if (queueBytes >= kmaxBytes) return 2 ** 32;
  const share = (queueBytes - kminBytes) / (kmaxBytes - kminBytes);
  return Math.floor(share * pmax * 2 ** 32);
}

/** Draws only between the thresholds, so that an idle queue does not advance the stream. */
export function isMarked(ecn: EcnParameters, queueBytes: number, rng: Rng): boolean {
  const threshold = markThreshold(ecn, queueBytes);
  if (threshold === 0) return false;
  return threshold === 2 ** 32 || rng.next() < threshold;
}
