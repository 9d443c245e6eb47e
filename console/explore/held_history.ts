/**
 * What one RNIC has of its host's SCM in the course of a run, with exact times, and what a power failure of the host at
 * any instant leaves in it (domain `wsp`): its journal, and what the local cache of shared regions is kept with. It is
 * what the card reports as `held` when its host fails at that instant (`nodes/rnic/dma/journal.ts`).
 */
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldBytes, HeldLog, JournalWrite } from "../../nodes/rnic/state/dma_state.ts";
import { firstPlace } from "../checks/values.ts";
import { isSame } from "./choices.ts";
import { edgeOf } from "./history.ts";

/** Bytes of SCM. */
export interface HeldWrite {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

/** The journal's entry, whose arrival is the run's in the end. */
interface Noted {
  readonly at: Time;
  readonly entry: JournalWrite;
  /** When it arrives was not known then: a write that waits for its lines. */
  readonly waits: boolean;
}

/** What is kept at an offset from then on; undefined: nothing. */
interface Version {
  readonly at: Time;
  readonly bytes: Uint8Array | undefined;
}

/** In one life of the card. */
export class HeldHistory implements HeldLog {
  readonly #journal: Noted[] = [];
  /** By offset. */
  readonly #cached = new Map<number, Version[]>();
  readonly #now = new Set<number>();

  written(at: Time, entry: JournalWrite): void {
    this.#journal.push({ at, entry, waits: entry.arrivesAt === NEVER });
  }

  cached(at: Time, kept: readonly HeldBytes[]): void {
    const gone = new Set(this.#now);
    for (const { address, data } of kept) {
      const offset = address - SCM_BASE;
      gone.delete(offset);
      this.#now.add(offset);
      let versions = this.#cached.get(offset);
      if (versions === undefined) this.#cached.set(offset, versions = []);
      const last = versions.at(-1)?.bytes;
      if (last === undefined || !isSame(last, data)) versions.push({ at, bytes: data });
    }
    for (const offset of gone) {
      this.#now.delete(offset);
      this.#cached.get(offset)!.push({ at, bytes: undefined });
    }
  }

  /** What the local cache has before all that happens at `at`. */
  cachedAt(at: Time): HeldWrite[] {
    return [...this.#cached].flatMap(([offset, versions]) => {
      const later = firstPlace(versions.length, (i) => versions[i]!.at >= at);
      const bytes = versions[later - 1]?.bytes;
      return bytes === undefined ? [] : [{ offset, bytes }];
    });
  }

  /**
   * What the card keeps, in the order in which it goes to memory, where power fails at `at` and the card detects it
   * `noticePs` later.
   */
  heldAt(at: Time, noticePs: Time): HeldWrite[] {
    const known = at + noticePs;
    const noted = this.#journal.filter((each) => each.at < known && each.entry.arrivesAt >= at);
    // Writes of verbs that wait for lines which the cache has come after what it has.
    const waiting = noted.filter(({ waits, entry }) => waits && entry.arrivesAt >= known);
    return [...noted.map(writeOf), ...this.cachedAt(known), ...waiting.map(writeOf)];
  }

  /** The first instants of the spans in which {@link heldAt} is the same. */
  *edges(noticePs: Time): Generator<Time> {
    for (const { at, entry: { arrivesAt }, waits } of this.#journal) {
      yield edgeOf(at, noticePs);
      if (arrivesAt === NEVER) continue;
      yield arrivesAt + 1;
      if (waits) yield edgeOf(arrivesAt, noticePs);
    }
    for (const versions of this.#cached.values()) {
      for (const { at } of versions) yield edgeOf(at, noticePs);
    }
  }
}

function writeOf({ entry: { message: { address, data } } }: Noted): HeldWrite {
  return { offset: address - SCM_BASE, bytes: data };
}
