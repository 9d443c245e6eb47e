/**
 * Last-level cache: set-associative, lines of 64 B with their real bytes, least recently used line
 * evicted first, or any (a cache promises no order: campaigns draw one). Cores may allocate in every way; inbound DMA (DDIO) only in the first `ddioWays`,
 * but updates a line in place wherever it hits. Lines are counted over DRAM, then SCM (see
 * `memory_system.ts`).
 */
import { assert, fail } from "../../../fabric/base/assert.ts";
import type { Rng } from "../../../fabric/base/rng.ts";

export const LINE_BYTES = 64;
/** Lines whose presence is counted together, so that ranges that are not cached are found fast. */
const GROUP_LINES = 64;

/** What is behind the cache. */
export interface LineMemory {
  /** Fills `target` with the line. */
  fetch(line: number, target: Uint8Array): void;
  /** Takes a dirty line that had to make room. `bytes` is only lent. */
  evict(line: number, bytes: Uint8Array): void;
}

export interface LlcPlan {
  readonly bytes: number;
  readonly ways: number;
  readonly ddioWays: number;
  /** Chooses the line of a full set that makes room; absent: the least recently used makes room. */
  readonly random?: Rng | undefined;
}

/**
 * A slot is `set × ways + way`. All arrays are as large as the cache but zero until used, which costs
 * addresses and no memory; a line's bytes lie by way first, so that lines which follow each other
 * share pages.
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

  /** The slot that holds the line, −1 where none does. Changes nothing. */
  find(line: number): number {
    const tags = this.#tags;
    const first = (line % this.sets) * this.#ways;
    const tag = line + 1;
    for (let slot = first; slot < first + this.#ways; slot++) if (tags[slot] === tag) return slot;
    return -1;
  }

  /** Whether no line of [from, to] can be in the cache. False says nothing. */
  isAbsent(from: number, to: number): boolean {
    const last = Math.floor(to / GROUP_LINES);
    for (let group = Math.floor(from / GROUP_LINES); group <= last; group++) {
      if (this.#inGroup[group] !== 0) return false;
    }
    return true;
  }

  /** Where in {@link data} the slot's bytes begin. */
  at(slot: number): number {
    const way = slot % this.#ways;
    return (way * this.sets + (slot - way) / this.#ways) * LINE_BYTES;
  }

  /** The slot's bytes, in place. */
  bytes(slot: number): Uint8Array {
    const at = this.at(slot);
    return this.data.subarray(at, at + LINE_BYTES);
  }

  /**
   * The slot of the line for an access: found, or made room for.
   * @param how `fill` false: the caller writes the whole line, so nothing is fetched.
   */
  access(line: number, how: { readonly by: "core" | "dma"; readonly fill: boolean }): number {
    let slot = this.find(line);
    if (slot >= 0) {
      this.hits++;
    } else {
      this.misses++;
      slot = this.#victim(line, how.by === "core" ? this.#ways : this.#ddioWays);
      if (this.#tags[slot] !== 0) this.#evict(slot);
      this.#tags[slot] = line + 1;
      this.#inGroup[Math.floor(line / GROUP_LINES)]!++;
      if (how.fill) this.#memory.fetch(line, this.bytes(slot));
    }
    this.#used[slot] = ++this.#clock;
    return slot;
  }

  isDirty(slot: number): boolean {
    return this.#dirty[slot] === 1;
  }

  markDirty(slot: number): void {
    this.#dirty[slot] = 1;
  }

  /** `clwb`: the line stays, as memory has it now. */
  markClean(slot: number): void {
    this.#dirty[slot] = 0;
  }

  /** Forgets the line, dirty or not: its bytes are the caller's matter. */
  remove(slot: number): void {
    const line = this.#tags[slot]! - 1;
    if (line < 0) fail(`Slot ${slot} of the LLC is empty already`);
    this.#tags[slot] = 0;
    this.#dirty[slot] = 0;
    this.#inGroup[Math.floor(line / GROUP_LINES)]!--;
  }

  /** Calls `visit` for every dirty line, in order of slots. */
  forEachDirty(visit: (line: number, bytes: Uint8Array) => void): void {
    for (let slot = 0; slot < this.#tags.length; slot++) {
      if (this.#dirty[slot] === 1) visit(this.#tags[slot]! - 1, this.bytes(slot));
    }
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
