/**
 * The data that one RNIC holds for its host's SCM, and what a power failure of the host at any
 * instant leaves in it (domain `wsp`): its journal, and the data of the local cache of shared
 * regions. The card reports them as `held` when its host fails then (`nodes/rnic/dma/journal.ts`).
 */
import { NEVER, type Time } from "../../fabric/base/time.ts";
import { SCM_BASE } from "../../nodes/host/memory/address_map.ts";
import type { HeldBytes, HeldLog, JournalWrite } from "../../nodes/rnic/state/dma_state.ts";
import { firstPlace } from "../checks/values.ts";
import { isSame } from "./choices.ts";
import { LINE_BYTES } from "../../fabric/base/cache_line.ts";
import { edgeOf } from "./history.ts";

export interface HeldWrite {
  readonly offset: number;
  readonly bytes: Uint8Array;
}

interface Noted {
  readonly at: Time;
  readonly entry: JournalWrite;
  /** A write that waits for its lines: its time of arrival was not known. */
  readonly waits: boolean;
}

/** `bytes` undefined: nothing is kept from then on. */
interface Version {
  readonly at: Time;
  readonly bytes: Uint8Array | undefined;
}

/** The content of a cache's lines from an instant on, by their offset in SCM. */
class CacheHistory {
  readonly versions = new Map<number, Version[]>();
  readonly #now = new Set<number>();

  set(at: Time, kept: readonly HeldBytes[]): void {
    const gone = new Set(this.#now);
    for (const { address, data } of kept) {
      const offset = address - SCM_BASE;
      gone.delete(offset);
      this.#now.add(offset);
      let versions = this.versions.get(offset);
      if (versions === undefined) this.versions.set(offset, versions = []);
      const last = versions.at(-1)?.bytes;
      if (last === undefined || !isSame(last, data)) versions.push({ at, bytes: data });
    }
    for (const offset of gone) {
      this.#now.delete(offset);
      this.versions.get(offset)!.push({ at, bytes: undefined });
    }
  }

  before(at: Time): HeldWrite[] {
    return [...this.versions].flatMap(([offset, versions]) => {
      const later = firstPlace(versions.length, (i) => versions[i]!.at >= at);
      const bytes = versions[later - 1]?.bytes;
      return bytes === undefined ? [] : [{ offset, bytes }];
    });
  }
}

export class HeldHistory implements HeldLog {
  readonly #journal: Noted[] = [];
  readonly #cached = new CacheHistory();
  readonly #remote = new Map<string, CacheHistory>();
  readonly #given = new Map<number, Noted[]>();

  written(at: Time, entry: JournalWrite): void {
    const noted = { at, entry, waits: entry.arrivesAt === NEVER };
    this.#journal.push(noted);
    const { offset, bytes } = writeOf(noted);
    if (noted.waits || bytes.length !== LINE_BYTES) return;
    const given = this.#given.get(offset);
    if (given === undefined) this.#given.set(offset, [noted]);
    else given.push(noted);
  }

  cached(at: Time, kept: readonly HeldBytes[]): void {
    this.#cached.set(at, kept);
  }

  cachedAt(at: Time): HeldWrite[] {
    return this.#cached.before(at);
  }

  cachedOf(home: string, at: Time, lines: readonly HeldBytes[]): void {
    let cache = this.#remote.get(home);
    if (cache === undefined) this.#remote.set(home, cache = new CacheHistory());
    cache.set(at, lines);
  }

  /** Dirty lines of that home's SCM in the remote cache. */
  cachedOfAt(home: string, at: Time): HeldWrite[] {
    return this.#remote.get(home)?.before(at) ?? [];
  }

  /**
   * Since when the card has had these bytes of one line, which are in memory at `at`; undefined
   * where they come from none of its lines.
   */
  keptSince({ offset, bytes }: HeldWrite, at: Time): Time | undefined {
    const line = offset - offset % LINE_BYTES, from = offset - line, to = from + bytes.length;
    const has = (content: Uint8Array) => isSame(content.subarray(from, to), bytes);
    const sent = this.#given.get(line)?.findLast((noted) =>
      noted.at <= at && has(writeOf(noted).bytes)
    );
    let since = sent?.at;
    const versions = (this.#cached.versions.get(line) ?? []).filter((version) => version.at <= at);
    while (versions.length > 0 && versions.at(-1)!.bytes === undefined) versions.pop();
    for (const { at: cachedAt, bytes: content } of versions.reverse()) {
      if (content === undefined || !has(content)) break;
      since = Math.min(since ?? cachedAt, cachedAt);
    }
    return since;
  }

  /**
   * The data that the card keeps, in the order in which they go to memory, if power fails at `at`
   * and the card detects it `noticePs` later.
   */
  heldAt(at: Time, noticePs: Time): HeldWrite[] {
    const known = at + noticePs;
    const noted = this.#journal.filter((each) => each.at < known && each.entry.arrivesAt >= at);
    // Writes of verbs that wait for lines of the cache come after its content.
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
    for (const versions of this.#cached.versions.values()) {
      for (const { at } of versions) yield edgeOf(at, noticePs);
    }
  }
}

function writeOf({ entry: { message: { address, data } } }: Noted): HeldWrite {
  return { offset: address - SCM_BASE, bytes: data };
}
