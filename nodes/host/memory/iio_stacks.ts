/**
 * A host's I/O controllers, one for each card, with posted writes, reads and tags of its own. One card's writes do not
 * wait for reads of another and are not flushed by them (P-03 is a rule of one bus): a program that writes over one
 * card and flushes over another has no promise.
 *
 * Source: Intel Xeon Scalable memory family, uncore performance monitoring reference, "IIO": a slot
 * of 16 lanes is a stack with buffers of its own, at its own stop of the mesh.
 *
 * Memory sees one order: by time, then by the number of the stack.
 */
import { NEVER, type Time } from "../../../fabric/base/time.ts";
import type { Iio } from "./iio.ts";

export class IioStacks {
  readonly all: readonly Iio[];
  readonly #only: Iio | undefined;

  constructor(all: readonly Iio[]) {
    this.all = all;
    this.#only = all.length === 1 ? all[0] : undefined;
  }

  get nextAt(): Time {
    return this.#only?.nextAt ?? least(this.all, ({ nextAt }) => nextAt);
  }

  get nextDurableAt(): Time {
    return this.#only?.nextDurableAt ?? least(this.all, ({ nextDurableAt }) => nextDurableAt);
  }

  /** P-05. */
  get bufferedBytes(): number {
    return this.all.reduce((sum, { bufferedBytes }) => sum + bufferedBytes, 0);
  }

  pending(): { offset: number; data: Uint8Array }[] {
    return this.all.flatMap((iio) => iio.pending());
  }

  isComing(frames: readonly number[]): boolean {
    return this.all.some((iio) => iio.isComing(frames));
  }

  overlay(address: number, bytes: Uint8Array): void {
    for (const iio of this.all) iio.overlay(address, bytes);
  }

  /** See {@link Iio.catchUp}. */
  catchUp(before: Time): void {
    if (this.#only !== undefined) return this.#only.catchUp(before);
    for (;;) {
      const { all } = this;
      let first = 0, second = -1;
      for (let i = 1; i < all.length; i++) {
        if (all[i]!.nextLazyAt < all[first]!.nextLazyAt) [first, second] = [i, first];
        else if (second < 0 || all[i]!.nextLazyAt < all[second]!.nextLazyAt) second = i;
      }
      if (all[first]!.nextLazyAt >= before) return;
      const nextAt = all[second]!.nextLazyAt;
      all[first]!.catchUp(Math.min(before, first < second ? nextAt + 1 : nextAt));
    }
  }

  run(now: Time): void {
    for (const iio of this.all) iio.run(now);
  }
}

function least(all: readonly Iio[], timeOf: (iio: Iio) => Time): Time {
  return all.reduce((first, iio) => Math.min(first, timeOf(iio)), NEVER);
}
