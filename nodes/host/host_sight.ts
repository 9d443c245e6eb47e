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
  /** False: the thread leaves the memory alone that the card may read. */
  readonly seesReads?: false;
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
    const { cards } = this.#parts;
    let at = NEVER;
    for (const { iio } of cards) {
      const readAt = iio.nextReadOf((from, length) => this.#sees(from, length));
      at = Math.min(at, iio.nextDurableAt, readAt);
    }
    return at;
  }

  seenAfter(message: Message): Time {
    const { cards, timing, processor, sharesRegions } = this.#parts;
    // What arrives ends the polls of others that are passed over; and the coherent bus has other rules.
    const isPlain = !sharesRegions && cards.every(({ agent }) => agent === undefined);
    if (!isPlain || processor.hasSpins) return 0;
    switch (message.kind) {
      case "memory-write":
        return cards[0]!.iio.leastPs(message);
      case "memory-read":
        return this.#sees(message.address, message.length) ? 0 : NEVER;
      case "interrupt":
        return timing.interruptPs;
      default:
        return 0;
    }
  }

  /** Whether a read there is of a process's memory. */
  #sees(from: number, length: number): boolean {
    const { foreign, seesReads } = this.#parts;
    return seesReads !== false && foreign.in(from, length);
  }
}
