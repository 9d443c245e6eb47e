/**
 * Bytes that became durable in a host's SCM, in order: the output of `Node.takeDurable` and, with
 * times, the input of a {@link MemoryLog}. Offsets are into SCM.
 */
import type { DurableWrite } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MemoryLog } from "./memory_log.ts";
import { SCM_ATOMIC_BYTES } from "./scm.ts";
import { overlay, type SparseBytes, type Stick } from "./sparse_bytes.ts";

export interface RecordOptions {
  readonly log?: MemoryLog | undefined;
  readonly stick?: Stick | undefined;
}

export class DurableRecord {
  now: Time = 0;
  /** Posted bytes in IIOs that survive: they will overwrite earlier bytes. */
  readonly #posted = [new PostedBytes()];
  readonly #scm: SparseBytes;
  readonly #log: MemoryLog | undefined;
  readonly #stick: Stick | undefined;
  #writes: DurableWrite[] = [];

  constructor(scm: SparseBytes, options: RecordOptions = {}) {
    this.#scm = scm;
    this.#log = options.log;
    this.#stick = options.stick;
  }

  get isLogged(): boolean {
    return this.#log !== undefined;
  }

  /** Posted writes that survive and have not left their IIO. */
  get posted(): number {
    return this.#posted.reduce((sum, { length }) => sum + length, 0);
  }

  /** Bytes under posted ones are not recorded. `data` must not change. */
  add(offset: number, data: Uint8Array, unit: number = SCM_ATOMIC_BYTES): void {
    if (!this.#hasPosted) return this.#add(offset, data, unit);
    let parts: DurableWrite[] = [{ offset, data }];
    for (const posted of this.#posted) parts = parts.flatMap((part) => posted.uncovered(part));
    for (const part of parts) this.#add(part.offset, part.data, unit);
  }

  overlayPosted(offset: number, bytes: Uint8Array): void {
    for (const posted of this.#posted) posted.overlay(offset, bytes);
  }

  get #hasPosted(): boolean {
    for (const posted of this.#posted) if (!posted.isEmpty) return true;
    return false;
  }

  /** The bytes survive as a whole. `stack` is the IIO's number. */
  addPosted(offset: number, data: Uint8Array, stack = 0): void {
    this.#add(offset, data, Infinity);
    while (this.#posted.length <= stack) this.#posted.push(new PostedBytes());
    this.#posted[stack]!.arrive({ offset, data });
  }

  postedLeft(offset: number, data: Uint8Array, stack = 0): void {
    this.#posted[stack]!.leave(data.length);
    // Another IIO's bytes may have been recorded there since; they are overwritten now.
    if (this.#posted.length > 1) this.add(offset, data);
  }

  addLine(line: number, data: Uint8Array): void {
    this.add(line, data, LINE_BYTES);
    this.clean(line);
  }

  /** The line's place does not survive: see {@link MemoryLog.dirty}. */
  dirty(line: number, bytes: Uint8Array, words: number): void {
    this.#log?.dirty(this.now, line, this.#stick?.(line, bytes) ?? bytes, words);
  }

  clean(line: number): void {
    this.#log?.clean(this.now, line);
  }

  take(): DurableWrite[] {
    const writes = this.#writes;
    if (writes.length > 0) this.#writes = [];
    return writes;
  }

  #add(offset: number, given: Uint8Array, unit: number): void {
    const data = this.#stick?.(offset, given) ?? given;
    // The output commit will change the file, from which untouched chunks are read.
    this.#scm.touch(offset, data.length);
    this.#writes.push({ offset, data });
    this.#log?.durable(this.now, offset, data, unit);
  }
}

/** Words of 8 B that bytes `from` to `to` of a line touch; bit 0 is the first. */
export function wordsOf(from: number, to: number): number {
  const first = Math.floor(from / SCM_ATOMIC_BYTES), end = Math.ceil(to / SCM_ATOMIC_BYTES);
  return (1 << end) - (1 << first);
}

/** `wsp`: posted bytes reach memory in any case, after all earlier bytes. */
class PostedBytes {
  #writes: DurableWrite[] = [];

  get isEmpty(): boolean {
    return this.#writes.length === 0;
  }

  get length(): number {
    return this.#writes.length;
  }

  arrive(write: DurableWrite): void {
    this.#writes.push(write);
  }

  leave(length: number): void {
    const { offset, data } = this.#writes[0]!;
    if (length === data.length) this.#writes.shift();
    else this.#writes[0] = { offset: offset + length, data: data.subarray(length) };
  }

  uncovered(segment: DurableWrite): DurableWrite[] {
    let parts = [segment];
    for (const write of this.#writes) {
      parts = parts.flatMap((part) => without(part, write));
    }
    return parts;
  }

  overlay(offset: number, bytes: Uint8Array): void {
    overlay(bytes, offset, this.#writes);
  }
}

function without(part: DurableWrite, cover: DurableWrite): DurableWrite[] {
  const end = part.offset + part.data.length, coverEnd = cover.offset + cover.data.length;
  if (cover.offset >= end || coverEnd <= part.offset) return [part];
  const rest: DurableWrite[] = [];
  const before = cover.offset - part.offset, after = coverEnd - part.offset;
  if (before > 0) rest.push({ offset: part.offset, data: part.data.subarray(0, before) });
  if (coverEnd < end) rest.push({ offset: coverEnd, data: part.data.subarray(after) });
  return rest;
}
