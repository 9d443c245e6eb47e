/**
 * The record of what became persistent in one host's SCM, in order: what `Node.takeDurable` hands on,
 * and what a {@link MemoryLog} is told with its time. Offsets are into SCM.
 */
import type { DurableWrite } from "../../../fabric/node.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { LINE_BYTES } from "./llc.ts";
import type { MemoryLog } from "./memory_log.ts";
import { SCM_ATOMIC_BYTES } from "./scm.ts";
import type { SparseBytes, Stick } from "./sparse_bytes.ts";

export interface RecordOptions {
  readonly log?: MemoryLog | undefined;
  /** What broken cells make of bytes: it is what survives of them. */
  readonly stick?: Stick | undefined;
}

export class DurableRecord {
  /** The instant of what is recorded next. */
  now: Time = 0;
  /** What is on its way to memory and survives all the same: it will be written over the rest. */
  readonly posted = new PostedBytes();
  readonly #scm: SparseBytes;
  readonly #log: MemoryLog | undefined;
  readonly #stick: Stick | undefined;
  #writes: DurableWrite[] = [];

  constructor(scm: SparseBytes, options: RecordOptions = {}) {
    this.#scm = scm;
    this.#log = options.log;
    this.#stick = options.stick;
  }

  /** Whether a log wants the time of everything. */
  get isLogged(): boolean {
    return this.#log !== undefined;
  }

  /** Bytes survive from now on, where nothing posted is above them. `data` is kept, and not to change. */
  add(offset: number, data: Uint8Array, unit: number = SCM_ATOMIC_BYTES): void {
    if (this.posted.isEmpty) return this.#add(offset, data, unit);
    for (const part of this.posted.uncovered({ offset, data })) {
      this.#add(part.offset, part.data, unit);
    }
  }

  /** A posted write arrives that nothing can stop any more: it survives as a whole. */
  addPosted(offset: number, data: Uint8Array): void {
    this.#add(offset, data, Infinity);
    this.posted.arrive({ offset, data });
  }

  /** A line that was dirty is durable, by the whole of its `data`, and dirty no more. */
  addLine(line: number, data: Uint8Array): void {
    this.add(line, data, LINE_BYTES);
    this.clean(line);
  }

  /** A line was changed where a power failure loses it. See {@link MemoryLog.dirty}. */
  dirty(line: number, bytes: Uint8Array, words: number): void {
    this.#log?.dirty(this.now, line, this.#stick?.(line, bytes) ?? bytes, words);
  }

  /** All of a line has been recorded. */
  clean(line: number): void {
    this.#log?.clean(this.now, line);
  }

  /** What was recorded since the last call, oldest first. */
  take(): DurableWrite[] {
    const writes = this.#writes;
    if (writes.length > 0) this.#writes = [];
    return writes;
  }

  #add(offset: number, given: Uint8Array, unit: number): void {
    const data = this.#stick?.(offset, given) ?? given;
    // Output commit will change the file that untouched chunks are read from.
    this.#scm.touch(offset, data.length);
    this.#writes.push({ offset, data });
    this.#log?.durable(this.now, offset, data, unit);
  }
}

/** The words of 8 B that bytes `from` to `to` of a line touch, bit 0 the first. */
export function wordsOf(from: number, to: number): number {
  const first = Math.floor(from / SCM_ATOMIC_BYTES), end = Math.ceil(to / SCM_ATOMIC_BYTES);
  return (1 << end) - (1 << first);
}

/** Consecutive bytes of SCM. */
interface Segment {
  readonly offset: number;
  readonly data: Uint8Array;
}

/**
 * Posted writes that the IIO holds, of a host whose IIO survives a power failure (domain `wsp`): they go
 * on to memory in any case, after all that is there already.
 */
class PostedBytes {
  /** Oldest first. */
  #writes: Segment[] = [];

  get isEmpty(): boolean {
    return this.#writes.length === 0;
  }

  /** A write has arrived. `data` is kept and does not change. */
  arrive(write: Segment): void {
    this.#writes.push(write);
  }

  /** So many bytes of the oldest write are in memory. */
  leave(length: number): void {
    const { offset, data } = this.#writes[0]!;
    if (length === data.length) this.#writes.shift();
    else this.#writes[0] = { offset: offset + length, data: data.subarray(length) };
  }

  /** The parts of a segment that no posted write will be written over. */
  uncovered({ offset, data }: Segment): Segment[] {
    let parts: Segment[] = [{ offset, data }];
    for (const write of this.#writes) {
      parts = parts.flatMap((part) => without(part, write));
    }
    return parts;
  }

  /** Lays what is posted over the bytes that memory has from `offset`, in order. */
  overlay(offset: number, bytes: Uint8Array): void {
    for (const { offset: at, data } of this.#writes) {
      const from = Math.max(at, offset), to = Math.min(at + data.length, offset + bytes.length);
      if (from < to) bytes.set(data.subarray(from - at, to - at), from - offset);
    }
  }
}

function without(part: Segment, cover: Segment): Segment[] {
  const end = part.offset + part.data.length, coverEnd = cover.offset + cover.data.length;
  if (cover.offset >= end || coverEnd <= part.offset) return [part];
  const rest: Segment[] = [];
  const before = cover.offset - part.offset, after = coverEnd - part.offset;
  if (before > 0) rest.push({ offset: part.offset, data: part.data.subarray(0, before) });
  if (coverEnd < end) rest.push({ offset: coverEnd, data: part.data.subarray(after) });
  return rest;
}
