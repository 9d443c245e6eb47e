/**
 * Last-level cache: set-associative, lines of 64 B with their real bytes. Cores may allocate in every way; inbound DMA
 * (DDIO) only in the first `ddioWays`, but a hit updates the line in place.
 *
 * By default (`plru`) the address is hashed, and the line that makes room is not the least recently used one: a bit for
 * each way says whether it was used since all of them were, and the first way without gives its line up. So what streams
 * through DDIO's ways is written back in an order that is not that of its arrival: lines of one block of SCM come apart.
 * `lru`, over a plain index, keeps the order; `random` has none (campaigns want all of them).
 *
 * Sources: McCalpin, Mapping Addresses to L3/CHA Slices in Intel Processors (2021): the hash depends on all address bits,
 * and numbers of slices that are no powers of two make it irregular. Which function, and that sets within a slice are
 * hashed, too, as this cache has the size of one slice, are choices; so is the replacement: Intel's is not documented.
 */
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { assert, fail } from "../../../fabric/base/assert.ts";
import type { Rng } from "../../../fabric/base/rng.ts";
import type { LlcEviction } from "../../../fabric/rack/plan/plan.ts";

const CLEAN = 0, BY_CORE = 1, BY_DEVICE = 2;

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
  /** Absent: `plru`. */
  readonly evict?: LlcEviction;
  /** For `random`. */
  readonly random?: Rng | undefined;
}

/**
 * A slot is `set × ways + way`. Arrays have full size but are zero until used (address space, not
 * memory).
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
  /** `lru`: when a slot was used last. Else 1: since all of its set's slots were. */
  readonly #used: Float64Array;
  /** `plru`: a set's used slots. */
  readonly #usedOfSet: Uint8Array;
  readonly #inGroup: Uint8Array;
  readonly #memory: LineMemory;
  /** For a power of two of sets, else -1. */
  readonly #setMask: number;
  readonly #evict: LlcEviction;
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
    this.#usedOfSet = new Uint8Array(this.sets);
    this.#inGroup = new Uint8Array(Math.ceil(behind.lines / GROUP_LINES));
    this.#memory = behind.memory;
    this.#setMask = (this.sets & this.sets - 1) === 0 ? this.sets - 1 : -1;
    this.#evict = plan.evict ?? "plru";
    this.#random = plan.random;
    assert(this.#evict !== "random" || plan.random !== undefined, "Random eviction has no draws");
  }

  find(line: number): number {
    const tags = this.#tags;
    const first = this.#setOf(line) * this.#ways;
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
    return slot * LINE_BYTES;
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
      if (this.#tags[slot] !== 0) this.#giveUp(slot);
      this.#tags[slot] = line + 1;
      this.#inGroup[Math.floor(line / GROUP_LINES)]!++;
      if (mode.fill) this.#memory.fetch(line, this.bytes(slot));
    }
    this.#use(slot);
    return slot;
  }

  dirtyLines(): number[] {
    const lines: number[] = [];
    for (let slot = 0; slot < this.#dirty.length; slot++) {
      if (this.isDirty(slot)) lines.push(this.#tags[slot]! - 1);
    }
    return lines;
  }

  isDirty(slot: number): boolean {
    return this.#dirty[slot] !== CLEAN;
  }

  /** Whether a device wrote a dirty line last. */
  isOfDevice(slot: number): boolean {
    return this.#dirty[slot] === BY_DEVICE;
  }

  markDirty(slot: number, by: "core" | "dma" = "core"): void {
    this.#dirty[slot] = by === "core" ? BY_CORE : BY_DEVICE;
  }

  markClean(slot: number): void {
    this.#dirty[slot] = CLEAN;
  }

  /** Nothing is written back: the caller has used the bytes. */
  remove(slot: number): void {
    const line = this.#tags[slot]! - 1;
    if (line < 0) fail(`Slot ${slot} of the LLC is empty already`);
    this.#tags[slot] = 0;
    this.#dirty[slot] = CLEAN;
    if (this.#evict === "plru" && this.#used[slot] === 1) {
      this.#used[slot] = 0;
      this.#usedOfSet[Math.floor(slot / this.#ways)]!--;
    }
    this.#inGroup[Math.floor(line / GROUP_LINES)]!--;
  }

  #victim(line: number, ways: number): number {
    const first = this.#setOf(line) * this.#ways;
    let victim = first;
    for (let slot = first; slot < first + ways; slot++) {
      if (this.#tags[slot] === 0) return slot;
      if (this.#used[slot]! < this.#used[victim]!) victim = slot;
    }
    if (this.#evict === "random") return first + this.#random!.below(ways);
    // DDIO's ways may all be used while others are not.
    if (this.#evict === "plru" && this.#used[victim] === 1) {
      this.#forgetUse(first, ways);
    }
    return victim;
  }

  #use(slot: number): void {
    if (this.#evict !== "plru") {
      this.#used[slot] = ++this.#clock;
      return;
    }
    if (this.#used[slot] === 1) return;
    const set = Math.floor(slot / this.#ways);
    if (this.#usedOfSet[set] === this.#ways - 1) this.#forgetUse(set * this.#ways, this.#ways);
    this.#used[slot] = 1;
    this.#usedOfSet[set]!++;
  }

  #forgetUse(first: number, ways: number): void {
    for (let slot = first; slot < first + ways; slot++) {
      if (this.#used[slot] === 0) continue;
      this.#used[slot] = 0;
      this.#usedOfSet[Math.floor(first / this.#ways)]!--;
    }
  }

  /** A multiplicative hash of the whole line number, its upper bits folded in before and after. */
  #setOf(line: number): number {
    if (this.#evict !== "plru") return line % this.sets;
    let mixed = Math.imul(line ^ line >>> 15, 0x2c1b3c6d);
    mixed = Math.imul(mixed ^ mixed >>> 12, 0x297a2d39);
    mixed ^= mixed >>> 15;
    return this.#setMask >= 0 ? mixed & this.#setMask : (mixed >>> 0) % this.sets;
  }

  #giveUp(slot: number): void {
    if (this.isDirty(slot)) {
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
  while (done < bytes.length) {
    const length = Math.min(LINE_BYTES - skip, bytes.length - done);
    const slot = llc.access(next++, length === LINE_BYTES ? whole : part);
    llc.markDirty(slot, write.by);
    const isAll = length === bytes.length;
    llc.data.set(isAll ? bytes : bytes.subarray(done, done + length), llc.at(slot) + skip);
    skip = 0;
    done += length;
  }
}

export function overlayDirty(llc: Llc, { line: first, inLine }: LineRange, data: Uint8Array): void {
  const last = first + Math.floor((inLine + data.length - 1) / LINE_BYTES);
  if (llc.isAbsent(first, last)) return;
  for (let line = first; line <= last; line++) {
    const slot = llc.find(line);
    if (slot < 0 || !llc.isDirty(slot)) continue;
    const from = (line - first) * LINE_BYTES - inLine, start = Math.max(0, from);
    const end = Math.min(data.length, from + LINE_BYTES), at = llc.at(slot) - from;
    data.set(llc.data.subarray(at + start, at + end), start);
  }
}
