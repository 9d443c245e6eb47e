/**
 * The cores' write-combining buffers: where non-temporal stores wait to go to memory as whole lines,
 * past the cache. A buffer empties itself when another line needs its place, at `sfence`, and, in this
 * model, before any other access to its line. Until then its bytes are here and nowhere else; a line
 * that is here is not in the LLC.
 */
import { SCM_BASE } from "./address_map.ts";
import { copyOf } from "../../../fabric/base/slab.ts";
import { type DurableRecord, wordsOf } from "./durable_record.ts";
import { LINE_BYTES } from "./llc.ts";
import { IN_ORDER } from "./memory_log.ts";
import { offsetOf, type PhysicalMemory } from "./physical_memory.ts";
import { SCM_ATOMIC_BYTES } from "./scm.ts";

/** A core has as many as line fill buffers, which they are (Intel optimisation manual, §3.6.10). */
const COMBINING_BUFFERS = 10;

/** A line's bytes that a core has stored, and which of them those are. */
export interface CombiningBuffer {
  /** Whose it is: a core's, as its program sees it. */
  readonly owner: object;
  /** Physical address of the line. */
  readonly address: number;
  readonly bytes: Uint8Array;
  /** 1 where a byte was stored. */
  readonly stored: Uint8Array;
}

/** What is around the buffers. */
export interface CombiningParts {
  readonly memory: PhysicalMemory;
  readonly durable: DurableRecord;
  /** Whether they outlive a power failure: `survives("wcb", …)`. */
  readonly survives: boolean;
  /** Has the LLC give up a line, what of it is dirty goes to memory. */
  readonly evict: (address: number) => void;
}

export class WriteCombining {
  readonly #parts: CombiningParts;
  /** By address; in the order in which they were begun. */
  readonly #buffers = new Map<number, CombiningBuffer>();
  readonly #line = new Uint8Array(LINE_BYTES);

  constructor(parts: CombiningParts) {
    this.#parts = parts;
  }

  /**
   * A core's non-temporal store.
   * @returns bytes that left for memory, as a buffer had to be had.
   */
  store(core: object, address: number, bytes: Uint8Array): number {
    let left = 0, done = 0;
    while (done < bytes.length) {
      const inLine = (address + done) % LINE_BYTES;
      const length = Math.min(LINE_BYTES - inLine, bytes.length - done);
      const line = address + done - inLine;
      let buffer = this.#buffers.get(line);
      if (buffer?.owner !== core) {
        if (buffer !== undefined) this.#drain(buffer);
        if (this.#isFull(core)) left += this.#drain(this.oldestOf(core)!);
        this.#parts.evict(line);
        buffer = this.#open(core, line);
      }
      buffer.bytes.set(bytes.subarray(done, done + length), inLine);
      buffer.stored.fill(1, inLine, inLine + length);
      if (line >= SCM_BASE) this.#note(buffer, inLine, length);
      done += length;
    }
    return left;
  }

  /** The oldest buffer of a core. */
  oldestOf(core: object): CombiningBuffer | undefined {
    for (const buffer of this.#buffers.values()) if (buffer.owner === core) return buffer;
    return undefined;
  }

  /** Lets a buffer go to memory, unless it has gone meanwhile. */
  release(buffer: CombiningBuffer): void {
    if (this.#buffers.get(buffer.address) === buffer) this.#drain(buffer);
  }

  /** Empties the buffers that hold something of the range's lines, before an access to them. */
  drain(address: number, length: number): void {
    if (this.#buffers.size === 0) return;
    const end = address + length;
    for (const buffer of [...this.#buffers.values()]) {
      if (buffer.address < end && buffer.address + LINE_BYTES > address) this.#drain(buffer);
    }
  }

  /** Lays what is in the buffers over bytes that memory has from `address` on. */
  overlay(address: number, bytes: Uint8Array): void {
    const end = address + bytes.length;
    for (const buffer of this.#buffers.values()) {
      for (const [first, last] of storedRuns(buffer)) {
        const from = Math.max(buffer.address + first, address);
        const to = Math.min(buffer.address + last, end);
        if (from >= to) continue;
        bytes.set(
          buffer.bytes.subarray(from - buffer.address, to - buffer.address),
          from - address,
        );
      }
    }
  }

  #isFull(core: object): boolean {
    let count = 0;
    for (const { owner } of this.#buffers.values()) if (owner === core) count++;
    return count >= COMBINING_BUFFERS;
  }

  #open(owner: object, address: number): CombiningBuffer {
    const bytes = new Uint8Array(LINE_BYTES), stored = new Uint8Array(LINE_BYTES);
    const buffer = { owner, address, bytes, stored };
    this.#buffers.set(address, buffer);
    return buffer;
  }

  /** A buffer goes to memory at once, like an evicted line. @returns its bytes. */
  #drain(buffer: CombiningBuffer): number {
    const { memory, durable, survives } = this.#parts;
    const { address } = buffer;
    const bytes = storedBytes(buffer);
    this.#buffers.delete(address);
    const offset = offsetOf(address);
    memory.imcOf(address).acceptEvicted(offset, this.#merged(buffer), bytes);
    if (address < SCM_BASE || survives) return bytes;
    // A buffer that is full goes as one write; of another, each word goes for itself.
    const unit = bytes === LINE_BYTES ? LINE_BYTES : SCM_ATOMIC_BYTES;
    for (const [from, to] of storedRuns(buffer)) {
      durable.add(offset + from, buffer.bytes.subarray(from, to), unit);
    }
    durable.clean(offset);
    return bytes;
  }

  /** Bytes of SCM have come into a buffer. */
  #note(buffer: CombiningBuffer, from: number, length: number): void {
    const { durable, survives } = this.#parts;
    const { address, bytes } = buffer;
    if (survives) {
      const stored = copyOf(bytes.subarray(from, from + length));
      durable.add(offsetOf(address) + from, stored, IN_ORDER);
    } else if (durable.isLogged) {
      durable.dirty(offsetOf(address), this.#merged(buffer), wordsOf(from, from + length));
    }
  }

  /** The line as memory has it, with what was stored. Lent until the next call. */
  #merged(buffer: CombiningBuffer): Uint8Array {
    this.#parts.memory.read(buffer.address, this.#line);
    for (const [from, to] of storedRuns(buffer)) {
      this.#line.set(buffer.bytes.subarray(from, to), from);
    }
    return this.#line;
  }
}

/** How many bytes were stored. */
export function storedBytes(buffer: CombiningBuffer): number {
  return storedRuns(buffer).reduce((sum, [from, to]) => sum + to - from, 0);
}

/** The stretches of a buffer that were stored, as [from, to) within its line. */
function storedRuns({ stored }: CombiningBuffer): [from: number, to: number][] {
  const runs: [number, number][] = [];
  for (let at = 0; at < LINE_BYTES;) {
    const from = stored.indexOf(1, at);
    if (from < 0) break;
    const end = stored.indexOf(0, from);
    at = end < 0 ? LINE_BYTES : end;
    runs.push([from, at]);
  }
  return runs;
}
