/**
 * Posted writes that the IIO holds, of a host whose IIO survives a power failure (domain `wsp`): they go
 * on to memory whatever happens, after all that is there already. Offsets are into SCM.
 */

/** A stretch of bytes of SCM. */
export interface Stretch {
  readonly offset: number;
  readonly data: Uint8Array;
}

export class PostedBytes {
  /** Oldest first. */
  #writes: Stretch[] = [];

  get isEmpty(): boolean {
    return this.#writes.length === 0;
  }

  /** A write has arrived. `data` is kept and does not change. */
  arrive(write: Stretch): void {
    this.#writes.push(write);
  }

  /** So many bytes of the oldest write are in memory. */
  leave(length: number): void {
    const { offset, data } = this.#writes[0]!;
    if (length === data.length) this.#writes.shift();
    else this.#writes[0] = { offset: offset + length, data: data.subarray(length) };
  }

  /** The parts of a stretch that no posted write will be written over. */
  uncovered({ offset, data }: Stretch): Stretch[] {
    let parts: Stretch[] = [{ offset, data }];
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

function without(part: Stretch, cover: Stretch): Stretch[] {
  const end = part.offset + part.data.length, coverEnd = cover.offset + cover.data.length;
  if (cover.offset >= end || coverEnd <= part.offset) return [part];
  const rest: Stretch[] = [];
  const before = cover.offset - part.offset, after = coverEnd - part.offset;
  if (before > 0) rest.push({ offset: part.offset, data: part.data.subarray(0, before) });
  if (coverEnd < end) rest.push({ offset: coverEnd, data: part.data.subarray(after) });
  return rest;
}
