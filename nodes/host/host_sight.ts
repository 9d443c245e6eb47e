/**
 * What a native program's thread sees of what reaches its host, and when: bytes in its memory, entries of its
 * queues, and what wakes other threads. The card's read of a ring is nothing to it; that of its own memory is,
 * since the bytes are those of the instant, and the thread may have stored others since.
 */
import type { Message, Sight } from "../../fabric/node.ts";
import { NEVER, type Time } from "../../fabric/base/time.ts";
import type { HostTiming } from "../../fabric/rack/plan/plan.ts";
import type { HostCard } from "./host_card.ts";
import type { Processor } from "./cpu/processor.ts";
import type { ForeignPages } from "./memory/foreign_pages.ts";

export interface SightParts {
  readonly cards: readonly HostCard[];
  readonly timing: HostTiming;
  readonly processor: Processor;
  readonly foreign: ForeignPages;
  /** Its regions that hosts share: each message may end an access of a core. */
  readonly sharesRegions: boolean;
}

export class HostSight implements Sight {
  readonly #parts: SightParts;

  constructor(parts: SightParts) {
    this.#parts = parts;
  }

  /** A host sends by itself what a read of its memory answers. */
  get sendsAt(): Time {
    let at = NEVER;
    for (const { iio } of this.#parts.cards) at = Math.min(at, iio.nextReadAt);
    return at;
  }

  /** When the card takes the bytes of a read of a process's memory, or next writes any. */
  get nextAt(): Time {
    const { cards, foreign } = this.#parts;
    let at = NEVER;
    for (const { iio } of cards) {
      at = Math.min(
        at,
        iio.nextDurableAt,
        iio.nextReadOf((from, length) => foreign.in(from, length)),
      );
    }
    return at;
  }

  seenAfter(message: Message): Time {
    const { cards, timing, processor, foreign, sharesRegions } = this.#parts;
    // What arrives ends the polls of others that are passed over; and the coherent bus has other rules.
    const isPlain = !sharesRegions && cards.every(({ agent }) => agent === undefined);
    if (!isPlain || processor.hasSpins) return 0;
    switch (message.kind) {
      case "memory-write":
        return cards[0]!.iio.leastPs(message);
      case "memory-read":
        return foreign.in(message.address, message.length) ? 0 : NEVER;
      case "interrupt":
        return timing.interruptPs;
      default:
        return 0;
    }
  }
}
