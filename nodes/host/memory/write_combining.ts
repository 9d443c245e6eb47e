/**
 * The cores' write-combining buffers: non-temporal stores go to memory as whole lines, past the
 * cache. A buffer drains when another line needs it, at `sfence` and, in this model, before any
 * other access to its line: a real buffer stays invisible to other cores and devices until it
 * drains; here no read is stale. The LLC evicts the line before the store. A buffer that makes room
 * goes past a full queue like an evicted line; the fence waits for it.
 */
import { SCM_BASE } from "./address_map.ts";
import { copyOf } from "../../../fabric/base/slab.ts";
import { type DurableRecord, wordsOf } from "./durable_record.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import { IN_ORDER } from "./memory_log.ts";
import { offsetOf, type PhysicalMemory } from "./physical_memory.ts";
import { SCM_ATOMIC_BYTES } from "./scm.ts";
import { overlay } from "./sparse_bytes.ts";

/** Line fill buffers combine writes (Intel optimisation manual, §3.6.10). */
const COMBINING_BUFFERS = 10;

export interface CombiningBuffer {
  readonly owner: object;
  readonly address: number;
  readonly bytes: Uint8Array;
  readonly stored: Uint8Array;
}

export interface CombiningParts {
  readonly memory: PhysicalMemory;
  readonly durable: DurableRecord;
  /** `survives("wcb", …)`. */
  readonly survives: boolean;
  readonly evict: (address: number) => void;
}

export class WriteCombining {
  readonly #parts: CombiningParts;
  readonly #buffers = new Map<number, CombiningBuffer>();
  readonly #line = new Uint8Array(LINE_BYTES);

  constructor(parts: CombiningParts) {
    this.#parts = parts;
  }

  /**
   * A non-temporal store; the LLC evicts the lines first. @returns the number of bytes of other
   * buffers that were drained to free one.
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
      if (line >= SCM_BASE) this.#record(buffer, inLine, length);
      done += length;
    }
    return left;
  }

  oldestOf(core: object): CombiningBuffer | undefined {
    for (const buffer of this.#buffers.values()) if (buffer.owner === core) return buffer;
    return undefined;
  }

  /** Ignored for a buffer that was drained. */
  release(buffer: CombiningBuffer): void {
    if (this.#buffers.get(buffer.address) === buffer) this.#drain(buffer);
  }

  drain(address: number, length: number): void {
    if (this.#buffers.size === 0) return;
    const end = address + length;
    for (const buffer of [...this.#buffers.values()]) {
      if (buffer.address < end && buffer.address + LINE_BYTES > address) this.#drain(buffer);
    }
  }

  pending(): { offset: number; data: Uint8Array }[] {
    return [...this.#buffers.values()].flatMap((buffer) =>
      storedRuns(buffer).map(([from, to]) => ({
        offset: buffer.address + from,
        data: buffer.bytes.subarray(from, to),
      }))
    );
  }

  overlay(address: number, bytes: Uint8Array): void {
    for (const buffer of this.#buffers.values()) {
      for (const [from, to] of storedRuns(buffer)) {
        const offset = buffer.address + from;
        overlay(bytes, address, [{ offset, data: buffer.bytes.subarray(from, to) }]);
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

  #drain(buffer: CombiningBuffer): number {
    const { memory, durable, survives } = this.#parts;
    const { address } = buffer;
    const bytes = storedBytes(buffer);
    this.#buffers.delete(address);
    const offset = offsetOf(address);
    memory.imcOf(address).acceptEvicted(offset, this.#merged(buffer), bytes);
    if (address < SCM_BASE || survives) return bytes;
    // A full buffer is one write; of a partial one, each word is.
    const unit = bytes === LINE_BYTES ? LINE_BYTES : SCM_ATOMIC_BYTES;
    for (const [from, to] of storedRuns(buffer)) {
      durable.add(offset + from, buffer.bytes.subarray(from, to), unit);
    }
    durable.clean(offset);
    return bytes;
  }

  #record(buffer: CombiningBuffer, from: number, length: number): void {
    const { durable, survives } = this.#parts;
    const { address, bytes } = buffer;
    if (survives) {
      const stored = copyOf(bytes.subarray(from, from + length));
      durable.add(offsetOf(address) + from, stored, IN_ORDER);
    } else if (durable.isLogged) {
      durable.dirty(offsetOf(address), this.#merged(buffer), wordsOf(from, from + length));
    }
  }

  /** Valid until the next call. */
  #merged(buffer: CombiningBuffer): Uint8Array {
    this.#parts.memory.read(buffer.address, this.#line);
    for (const [from, to] of storedRuns(buffer)) {
      this.#line.set(buffer.bytes.subarray(from, to), from);
    }
    return this.#line;
  }
}

export function storedBytes(buffer: CombiningBuffer): number {
  return storedRuns(buffer).reduce((sum, [from, to]) => sum + to - from, 0);
}

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
