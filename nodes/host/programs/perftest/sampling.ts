/** Of a test by time (`-D`): what is counted between the two margins. Pure. */
import type { Time } from "../../../../fabric/base/time.ts";
import { ProgramError } from "../../verbs/device.ts";
import type { Duration } from "./terms.ts";

/** What was finished, and in which time. */
export interface Sampled {
  readonly count: number;
  readonly ps: Time;
}

/**
 * The course of a test by time, as perftest's alarms have it: margin, samples, margin. Completions come in batches
 * (`-Q`), of which a short time would count one too many. So the samples begin and end with a batch:
 * those of the first one are not counted, and the time is that from the first to the last. perftest divides by the
 * whole time, which in its seconds is the same.
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

  /** Notes a message that was finished now. */
  finished(now: Time): void {
    if (now < this.#from || now >= this.#to) return;
    this.#first ??= now;
    if (now > this.#first) this.#count++;
    this.#last = now;
  }

  isOver(now: Time): boolean {
    return now >= this.#end;
  }

  /** Undefined where no two batches were finished: the time is too short. */
  get sampled(): Sampled | undefined {
    if (this.#count === 0) return undefined;
    return { count: this.#count, ps: this.#last - this.#first! };
  }
}

/** @throws ProgramError where there is nothing to divide. */
export function samplesOf({ sampled }: Sampling): Sampled {
  if (sampled !== undefined) return sampled;
  throw new ProgramError(
    "The duration is too short: fewer than two completions between its margins",
  );
}
