/**
 * Last-level cache: set-associative, lines of 64 B with their real bytes, LRU replacement or random
 * (real caches guarantee no order: campaigns randomise it). Cores may allocate in every way;
 * inbound DMA (DDIO) only in the first `ddioWays`, but a hit updates the line in place.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { assert, fail } from "../../../fabric/base/assert.ts";
import type { Rng } from "../../../fabric/base/rng.ts";

/** Lines of a presence counter, by which uncached ranges are found fast. */
const GROUP_LINES = 64;

export interface LineMemory {
  fetch(line: number, target: Uint8Array): void;
  /** The line is dirty; `bytes` is valid only during the call. */
  evict(line: number, bytes: Uint8Array): void;
}

export interface LlcPlan {
  readonly bytes: number;
  readonly ways: number;
  readonly ddioWays: number;
  readonly random?: Rng | undefined;
}

/**
 * A slot is `set × ways + way`. Arrays have full size but are zero until used (address space, not
 * memory); bytes are ordered by way first, so that consecutive lines share pages.
 */
export class Llc {
  hits = 0;
  misses = 0;
  evictions = 0;
  readonly data: Uint8Array;
  readonly sets: number;
  readonly #ways: number;
  readonly #ddioWays: number;
  /** Line + 1; 0 is an empty slot. */
  readonly #tags: Int32Array;
  readonly #dirty: Uint8Array;
  readonly #used: Float64Array;
  readonly #inGroup: Uint8Array;
  readonly #memory: LineMemory;
  readonly #random: Rng | undefined;
  #clock = 0;

  constructor(plan: LlcPlan, behind: { readonly lines: number; readonly memory: LineMemory }) {
    assert(
      plan.ddioWays >= 1 && plan.ddioWays <= plan.ways,
      `DDIO has ${plan.ddioWays} of ${plan.ways} ways`,
    );
    assert(behind.lines < 2 ** 31 - 1, `${behind.lines} lines are more than the LLC has tags for`);
    this.sets = Math.floor(plan.bytes / (LINE_BYTES * plan.ways));
    assert(this.sets >= 1, `An LLC of ${plan.bytes} B has no room for ${plan.ways} ways`);
    this.#ways = plan.ways;
    this.#ddioWays = plan.ddioWays;
    const slots = this.sets * plan.ways;
    this.data = new Uint8Array(slots * LINE_BYTES);
    this.#tags = new Int32Array(slots);
    this.#dirty = new Uint8Array(slots);
    this.#used = new Float64Array(slots);
    this.#inGroup = new Uint8Array(Math.ceil(behind.lines / GROUP_LINES));
    this.#memory = behind.memory;
    this.#random = plan.random;
  }

  find(line: number): number {
    const tags = this.#tags;
    const first = (line % this.sets) * this.#ways;
    const tag = line + 1;
    for (let slot = first; slot < first + this.#ways; slot++) if (tags[slot] === tag) return slot;
    return -1;
  }

  /** @returns true where no line of [from, to] is cached, false where that is unknown. */
  isAbsent(from: number, to: number): boolean {
    const last = Math.floor(to / GROUP_LINES);
    for (let group = Math.floor(from / GROUP_LINES); group <= last; group++) {
      if (this.#inGroup[group] !== 0) return false;
    }
    return true;
  }

  at(slot: number): number {
    const way = slot % this.#ways;
    return (way * this.sets + (slot - way) / this.#ways) * LINE_BYTES;
  }

  bytes(slot: number): Uint8Array {
    const at = this.at(slot);
    return this.data.subarray(at, at + LINE_BYTES);
  }

  /**
   * The slot of a hit, or an allocated one. `mode.fill` false: the caller writes the whole line, so
   * it is not fetched.
   */
  access(line: number, mode: { readonly by: "core" | "dma"; readonly fill: boolean }): number {
    let slot = this.find(line);
    if (slot >= 0) {
      this.hits++;
    } else {
      this.misses++;
      slot = this.#victim(line, mode.by === "core" ? this.#ways : this.#ddioWays);
      if (this.#tags[slot] !== 0) this.#evict(slot);
      this.#tags[slot] = line + 1;
      this.#inGroup[Math.floor(line / GROUP_LINES)]!++;
      if (mode.fill) this.#memory.fetch(line, this.bytes(slot));
    }
    this.#used[slot] = ++this.#clock;
    return slot;
  }

  dirtyLines(): number[] {
    const lines: number[] = [];
    for (let slot = this.#dirty.indexOf(1); slot >= 0; slot = this.#dirty.indexOf(1, slot + 1)) {
      lines.push(this.#tags[slot]! - 1);
    }
    return lines;
  }

  isDirty(slot: number): boolean {
    return this.#dirty[slot] === 1;
  }

  markDirty(slot: number): void {
    this.#dirty[slot] = 1;
  }

  markClean(slot: number): void {
    this.#dirty[slot] = 0;
  }

  /** Nothing is written back: the caller has used the bytes. */
  remove(slot: number): void {
    const line = this.#tags[slot]! - 1;
    if (line < 0) fail(`Slot ${slot} of the LLC is empty already`);
    this.#tags[slot] = 0;
    this.#dirty[slot] = 0;
    this.#inGroup[Math.floor(line / GROUP_LINES)]!--;
  }

  #victim(line: number, ways: number): number {
    const first = (line % this.sets) * this.#ways;
    let victim = first;
    for (let slot = first; slot < first + ways; slot++) {
      if (this.#tags[slot] === 0) return slot;
      if (this.#used[slot]! < this.#used[victim]!) victim = slot;
    }
    return this.#random === undefined ? victim : first + this.#random.below(ways);
  }

  #evict(slot: number): void {
    if (this.#dirty[slot] === 1) {
      this.evictions++;
      this.#memory.evict(this.#tags[slot]! - 1, this.bytes(slot));
    }
    this.remove(slot);
  }
}

export const CORE_FILL = { by: "core", fill: true } as const;
const CORE_WHOLE = { by: "core", fill: false } as const;
const DMA_FILL = { by: "dma", fill: true } as const;
const DMA_WHOLE = { by: "dma", fill: false } as const;

export interface LineRange {
  readonly line: number;
  readonly inLine: number;
}

/** Allocates the lines, which become dirty. */
export function writeIntoCache(
  llc: Llc,
  { line, inLine }: LineRange,
  write: { readonly bytes: Uint8Array; readonly by: "core" | "dma" },
): void {
  const { bytes } = write;
  const whole = write.by === "core" ? CORE_WHOLE : DMA_WHOLE;
  const part = write.by === "core" ? CORE_FILL : DMA_FILL;
  let done = 0, next = line, skip = inLine;
  // Only lines of different sets are copied together: none evicts another before its bytes are
  // written.
  const most = (llc.sets - 2) * LINE_BYTES;
  let from = 0, start = 0, end = 0;
  while (done < bytes.length) {
    if (done - from > most) {
      llc.data.set(bytes.subarray(from, done), start);
      from = done;
      end = -1;
    }
    const length = Math.min(LINE_BYTES - skip, bytes.length - done);
    const slot = llc.access(next++, length === LINE_BYTES ? whole : part);
    llc.markDirty(slot);
    const at = llc.at(slot) + skip;
    skip = 0;
    if (at !== end) {
      if (done > from) llc.data.set(bytes.subarray(from, done), start);
      from = done;
      start = at;
    }
    end = at + length;
    done += length;
  }
  if (done > from) llc.data.set(from === 0 ? bytes : bytes.subarray(from), start);
}

export function overlayDirty(llc: Llc, { line: first, inLine }: LineRange, data: Uint8Array): void {
  const last = first + Math.floor((inLine + data.length - 1) / LINE_BYTES);
  if (llc.isAbsent(first, last)) return;
  // `shift` is the distance from a line's place in `data` to that in the cache; lines before `done`
  // are copied.
  let done = 0, end = 0, shift = 0;
  for (let line = first; line <= last; line++) {
    const slot = llc.find(line);
    const isDirty = slot >= 0 && llc.isDirty(slot);
    const from = (line - first) * LINE_BYTES - inLine;
    const at = isDirty ? llc.at(slot) - from : NaN;
    if (at !== shift) {
      if (end > done) data.set(llc.data.subarray(done + shift, end + shift), done);
      done = Math.max(0, from);
      shift = at;
    }
    end = isDirty ? Math.min(data.length, from + LINE_BYTES) : 0;
  }
  if (end > done) data.set(llc.data.subarray(done + shift, end + shift), done);
}
