/**
 * Which completion queues of a native program its library may poll by itself: those without an entry, whose next
 * one is in the cache, so that a poll takes what the library takes for it. They stay so until the lease ends.
 * The host does not know of these polls, so one that it answers itself leaves the caches as they are, too: such a
 * line is in the core's own cache, whose hits the shared one does not see.
 */
import type { Outside } from "../cpu/program.ts";
import { isThere, nextEntry } from "../verbs/completion_queue.ts";
import { CQE_BYTES, decodeCqe } from "../../../fabric/wire/host_bus/cqe.ts";
import type { Cq } from "../verbs/objects.ts";

/** Queues that have a bit of their own; a reply looks at each of them. */
const BITS = 16;
/** Of all others: the host is always asked. */
const OTHERS = 2 ** BITS;

export class LocalPolls {
  readonly #outside: Pick<Outside, "peek" | "physical" | "isCached">;
  readonly #queues: (Cq | undefined)[] = [];

  constructor(outside: Pick<Outside, "peek" | "physical" | "isCached">) {
    this.#outside = outside;
  }

  /** @returns its bit. */
  add(cq: Cq): number {
    const free = this.#queues.indexOf(undefined);
    const place = free >= 0 ? free : this.#queues.length;
    if (place === BITS) return OTHERS;
    this.#queues[place] = cq;
    return 2 ** place;
  }

  remove(cq: Cq): void {
    const place = this.#queues.indexOf(cq);
    if (place >= 0) this.#queues[place] = undefined;
  }

  /** Bits of those whose polls must be requests now. */
  ask(): number {
    let bits = OTHERS;
    this.#queues.forEach((cq, place) => {
      if (cq !== undefined && !this.isEmpty(cq)) bits += 2 ** place;
    });
    return bits;
  }

  /** Whether a poll finds nothing, and the line at which it looks is in the cache. */
  isEmpty(cq: Cq): boolean {
    if (!isThere(cq) || cq.place.resizing) return false;
    const { peek, physical, isCached } = this.#outside;
    const at = physical(nextEntry(cq));
    const entry = decodeCqe(peek(at, CQE_BYTES), cq.place.taken, cq.entries);
    return entry === undefined && isCached(at);
  }
}
