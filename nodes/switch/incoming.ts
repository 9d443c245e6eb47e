/**
 * Frames whose tail has not arrived, for output ports faster than their input port: such a port would run
 * dry within the frame, so it is stored first. Cut-through is between ports of one rate, and from a faster
 * to a slower one (ExtremeXOS User Guide, "Switching mode": from a low-speed port to a higher-speed one,
 * "store-and-forward switching will automatically be used").
 */
import type { Frame } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";

/** A frame on its way from an input to an output port, complete at `at`. */
export interface Incoming {
  readonly at: Time;
  readonly from: number;
  readonly to: number;
  readonly frame: Frame;
}

/** Sorted by the time of the tail, then by the order of the heads. */
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

  /** Takes those off that are complete. */
  takeComplete(now: Time): Incoming[] {
    const end = this.#waiting.findIndex(({ at }) => at > now);
    return this.#waiting.splice(0, end < 0 ? this.#waiting.length : end);
  }

  /** The link of an input port is down: its frames have no tail. @returns how many there were. */
  cutOff(port: number): number {
    const before = this.#waiting.length;
    const rest = this.#waiting.filter(({ from }) => from !== port);
    this.#waiting.splice(0, before, ...rest);
    return before - rest.length;
  }
}
