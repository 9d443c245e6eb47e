/**
 * What cables with faults did to frames, at both of their ends: the sender's end says what is done
 * (`link/effect.ts`), the receiver's which frame it was that has arrived, damaged, late or once more.
 */
import type { Time } from "../base/time.ts";
import type { CableEffect } from "../link/effect.ts";
import type { FrameMark, Remark } from "./remark.ts";

/** Frames that are awaited at one end, of which those that never come are forgotten in the end. */
const AWAITED_MAX = 256;

/** A frame at an end of a cable. */
export interface FrameAtEnd {
  readonly startPs: Time;
  readonly bytes: Uint8Array;
  readonly mark: FrameMark;
}

interface Awaited {
  /** What arrives. */
  readonly bytes: Uint8Array;
  /** The first instant at which its first bit can be there. */
  readonly earliestPs: Time;
  readonly says: readonly string[];
  readonly sent: FrameMark;
  /** How many of it are still to come, and the first that has. */
  left: number;
  first?: FrameMark;
}

/** One direction of a cable. */
export class CableEffects {
  readonly #latencyPs: Time;
  #awaited: Awaited[] = [];

  constructor(latencyPs: Time) {
    this.#latencyPs = latencyPs;
  }

  /** A frame leaves, to which the cable does this. */
  sent(frame: FrameAtEnd, effect: CableEffect | undefined): Remark[] {
    const { bytes, startPs, mark } = frame;
    const { says, copies, latePs, damaged } = effect ?? UNHARMED;
    // Of frames that nothing is done to, only one like a frame that is awaited can be taken for it.
    const isAwaited = effect === undefined
      ? this.#awaited.some((each) => isSame(each.bytes, bytes))
      : copies > 0;
    if (isAwaited) {
      const earliestPs = startPs + this.#latencyPs + latePs;
      const awaited = { bytes: damaged ?? bytes, earliestPs, says, sent: mark, left: copies };
      this.#awaited.push(awaited);
      if (this.#awaited.length > AWAITED_MAX) this.#awaited.shift();
    }
    return says.map((text) => ({ text }));
  }

  /** A frame arrives. Of several that it can be, it is the one that came last into question. */
  received({ bytes, startPs, mark }: FrameAtEnd): Remark[] {
    let found: Awaited | undefined;
    for (const each of this.#awaited) {
      if (each.earliestPs > startPs || !isSame(each.bytes, bytes)) continue;
      if (found === undefined || each.earliestPs > found.earliestPs) found = each;
    }
    if (found === undefined) return [];
    found.left--;
    if (found.left === 0) this.#awaited = this.#awaited.filter((each) => each !== found);
    if (found.first !== undefined) return [{ text: "duplicate of", about: found.first }];
    found.first = mark;
    if (found.says.length === 0) return [];
    return [{ text: `${found.says.join(" and ")}, left as`, about: found.sent }];
  }
}

const UNHARMED: CableEffect = { says: [], copies: 1, latePs: 0 };

export function isSame(x: Uint8Array, y: Uint8Array): boolean {
  return x.length === y.length && x.every((byte, i) => byte === y[i]);
}
