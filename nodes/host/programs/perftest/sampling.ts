/** A test by time (`-D`), between the two margins. */
import type { Time } from "../../../../fabric/base/time.ts";
import { ProgramError } from "../../verbs/device.ts";
import type { Duration } from "./terms.ts";

export interface Sampled {
  readonly count: number;
  readonly ps: Time;
}

/**
 * Margin, samples, margin, as by perftest's alarms. Completions come in batches (`-Q`), of which a
 * short test would count one too many: samples begin and end with a batch, the first is not
 * counted, and the time is from the first to the last. perftest divides by the whole time, which is
 * equivalent for its tests of seconds.
 */
export class Sampling {
  readonly #from: Time;
  readonly #to: Time;
  readonly #end: Time;
  #first: Time | undefined;
  #last = 0;
  #count = 0;

  constructor(now: Time, { ps, marginPs }: Duration) {
    this.#from = now + marginPs;
    this.#to = now + ps - marginPs;
    this.#end = now + ps;
  }

  finished(now: Time): void {
    if (now < this.#from || now >= this.#to) return;
    this.#first ??= now;
    if (now > this.#first) this.#count++;
    this.#last = now;
  }

  isOver(now: Time): boolean {
    return now >= this.#end;
  }

  /** @returns undefined where the time is too short for two batches. */
  get sampled(): Sampled | undefined {
    if (this.#count === 0) return undefined;
    return { count: this.#count, ps: this.#last - this.#first! };
  }
}

/** @throws ProgramError without samples. */
export function samplesOf({ sampled }: Sampling): Sampled {
  if (sampled !== undefined) return sampled;
  throw new ProgramError(
    "The duration is too short: fewer than two completions between its margins",
  );
}
