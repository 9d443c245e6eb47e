/**
 * Effects of cable faults on frames, by what left and what arrived damaged, late or twice
 * (`link/effect.ts`).
 */
import type { Time } from "../base/time.ts";
import type { CableEffect } from "../link/effect.ts";

/** From 1 as in Wireshark, assigned when the frame is written. */
export interface FrameMark {
  number?: number;
}

export interface Remark {
  /** `retransmission of`, where `about` follows; else the whole text. */
  readonly text: string;
  readonly about?: FrameMark;
}

export function remarkText({ text, about }: Remark): string {
  if (about === undefined) return text;
  // Of a capture of a part, the other frame may be none.
  return about.number === undefined ? `${text} an earlier frame` : `${text} frame ${about.number}`;
}

/** The oldest, which never arrived, are dropped. */
const AWAITED_MAX = 256;

export interface FrameAtEnd {
  readonly startPs: Time;
  readonly bytes: Uint8Array;
  readonly mark: FrameMark;
}

interface Awaited {
  readonly bytes: Uint8Array;
  readonly earliestPs: Time;
  readonly says: readonly string[];
  readonly sent: FrameMark;
  /** Copies still expected; `first`: the first that has arrived. */
  left: number;
  first?: FrameMark;
}

export class CableEffects {
  readonly #latencyPs: Time;
  #awaited: Awaited[] = [];

  constructor(latencyPs: Time) {
    this.#latencyPs = latencyPs;
  }

  sent(frame: FrameAtEnd, effect: CableEffect | undefined): Remark[] {
    const { bytes, startPs, mark } = frame;
    const { says, copies, latePs, damaged } = effect ?? UNHARMED;
    // An unaffected frame matters only if it could be mistaken for an expected one.
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
