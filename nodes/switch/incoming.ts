/**
 * Store and forward: an output port faster than its input port would run dry within a frame.
 * Cut-through is between ports of one rate, and from a faster to a slower one (ExtremeXOS User
 * Guide, "Switching mode").
 */
import type { Frame } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";

export interface Incoming {
  readonly at: Time;
  readonly from: number;
  readonly to: number;
  readonly frame: Frame;
}

export class IncomingFrames {
  readonly #waiting: Incoming[] = [];

  get nextAt(): Time {
    return this.#waiting[0]?.at ?? NEVER;
  }

  hold(frame: Incoming): void {
    let place = this.#waiting.length;
    while (place > 0 && this.#waiting[place - 1]!.at > frame.at) place--;
    this.#waiting.splice(place, 0, frame);
  }

  takeComplete(now: Time): Incoming[] {
    const end = this.#waiting.findIndex(({ at }) => at > now);
    return this.#waiting.splice(0, end < 0 ? this.#waiting.length : end);
  }

  /** The link is down, so its frames have no tail. @returns how many there were. */
  cutOff(port: number): number {
    const before = this.#waiting.length;
    const rest = this.#waiting.filter(({ from }) => from !== port);
    this.#waiting.splice(0, before, ...rest);
    return before - rest.length;
  }
}
