/**
 * Damage inside the card (V-08): seeded flips of single bits of a write's data, at a place that the
 * plan names. Each fault has a random stream of its own and sees only data that passes its place:
 * neither other faults nor packing shift its draws.
 */
import type { FlipPlace, FlipPlan, RnicPlan } from "../../../fabric/rack/plan/plan.ts";
import { type Rng, rngFor } from "../../../fabric/base/rng.ts";
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import { copyOf } from "../../../fabric/base/slab.ts";

export interface Flip {
  readonly plan: FlipPlan;
  readonly rng: Rng;
  seen: number;
  hit: number;
}

export function createFlips(
  { flips = [] }: RnicPlan,
  card: { readonly name: string; readonly seed: number },
): Flip[] {
  return flips.map((plan) => ({
    plan,
    rng: rngFor(card.seed, `flip/${plan.id}/${card.name}`),
    seen: 0,
    hit: 0,
  }));
}

/**
 * @returns `bytes` itself where no fault strikes, else a copy with one bit flipped per fault: the network still has a frame's bytes.
 */
export function flipped(
  device: { readonly flips: readonly Flip[]; readonly now: Time },
  where: FlipPlace,
  bytes: Uint8Array<ArrayBuffer>,
): Uint8Array<ArrayBuffer> {
  if (device.flips.length === 0 || bytes.length === 0) return bytes;
  let data = bytes;
  for (const flip of device.flips) {
    if (flip.plan.where !== where || !isTaken(flip, device.now)) continue;
    if (data === bytes) data = copyOf(bytes);
    const bit = flip.rng.below(8 * data.length);
    data[bit >>> 3]! ^= 1 << (bit & 7);
  }
  return data;
}

function isTaken(flip: Flip, now: Time): boolean {
  const { at, until = NEVER, nth, count, share } = flip.plan;
  if (now < at || now >= until) return false;
  flip.seen++;
  if (nth !== undefined && flip.seen !== nth) return false;
  if (count !== undefined && flip.hit >= count) return false;
  if (share !== undefined && flip.rng.unit() >= share) return false;
  flip.hit++;
  return true;
}

export function flipStatistics(flips: readonly Flip[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { plan: { id }, seen, hit } of flips) {
    counts[`flip${id}Seen`] = seen;
    counts[`flip${id}Hit`] = hit;
  }
  return counts;
}
