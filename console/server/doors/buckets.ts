/** Token buckets: so many at once, so many a second after that. */

export interface Rate {
  readonly perSecond: number;
  readonly burst: number;
}

const FORGET_BEYOND = 10_000;

export class Buckets {
  readonly #rate: Rate;
  readonly #wallMs: () => number;
  readonly #buckets = new Map<string, { left: number; atMs: number }>();

  constructor(rate: Rate, wallMs: () => number) {
    this.#rate = rate;
    this.#wallMs = wallMs;
  }

  /** Takes one; returns ms until there is one again, 0 where it was taken. */
  take(who: string): number {
    const { perSecond, burst } = this.#rate, now = this.#wallMs();
    const bucket = this.#buckets.get(who) ?? { left: burst, atMs: now };
    const left = Math.min(burst, bucket.left + (now - bucket.atMs) / 1_000 * perSecond);
    const isTaken = left >= 1;
    // The map is in the order of use.
    this.#buckets.delete(who);
    this.#buckets.set(who, { left: isTaken ? left - 1 : left, atMs: now });
    const [oldest] = this.#buckets.keys();
    if (this.#buckets.size > FORGET_BEYOND) this.#buckets.delete(oldest!);
    return isTaken ? 0 : Math.ceil((1 - left) / perSecond * 1_000);
  }
}
