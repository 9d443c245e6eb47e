/**
 * Bytes that a replay needs again, as much as all content ever put: in a file without a name, which
 * is gone with the process.
 */

import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";
import { formatSize } from "../../fabric/rack/plan/units.ts";
import { RackError } from "../base/rack_error.ts";

const CACHE_BYTES = 64 << 20;
/** Of the file. */
const SPOOL_BYTES_MAX = 8 * 2 ** 30;

export interface SpoolLimits {
  /** In this process. */
  readonly cacheBytes?: number;
  readonly fileBytes?: number;
}

export type SpoolFile = Pick<Deno.FsFile, "readSync" | "writeSync" | "seekSync">;

export class Spool {
  readonly #file: SpoolFile;
  readonly #limits: Required<SpoolLimits>;
  readonly #cache = new Map<number, Uint8Array>();
  #cached = 0;
  #length = 0;

  /** @param file empty, open for both; no permission is needed from here on. */
  constructor(
    file: SpoolFile,
    { cacheBytes = CACHE_BYTES, fileBytes = SPOOL_BYTES_MAX }: SpoolLimits = {},
  ) {
    this.#file = file;
    this.#limits = { cacheBytes, fileBytes };
  }

  get bytes(): { readonly kept: number; readonly cached: number } {
    return { kept: this.#length, cached: this.#cached };
  }

  /** Returns their place. @throws RackError beyond the limit; Error where the disk is full. */
  keep(bytes: Uint8Array): number {
    const place = this.#length, { fileBytes } = this.#limits;
    if (place + bytes.length > fileBytes) {
      throw new RackError(
        `The replay of this run needs more than ${
          formatSize(fileBytes)
        } of disk, the most: it was ended`,
      );
    }
    this.write(place, bytes);
    this.#length += bytes.length;
    return place;
  }

  /** Over bytes of {@link keep} of which {@link look} has given out none. */
  write(place: number, bytes: Uint8Array): void {
    this.#file.seekSync(place, Deno.SeekMode.Start);
    for (let done = 0; done < bytes.length;) done += this.#file.writeSync(bytes.subarray(done));
  }

  /** Bytes of {@link keep}, in an array of the caller's own. */
  read(place: number, length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length);
    this.#file.seekSync(place, Deno.SeekMode.Start);
    for (let done = 0; done < length;) {
      const more = this.#file.readSync(bytes.subarray(done));
      if (more === null) {
        throw new Error(`Found ${done} B in the replay's file, expected ${length}`);
      }
      done += more;
    }
    return bytes;
  }

  /** One array for all callers: none may change it. */
  look(place: number, length: number): Uint8Array {
    const known = this.#cache.get(place);
    if (known !== undefined) {
      this.#cache.delete(place);
      this.#cache.set(place, known);
      return known;
    }
    const bytes = this.read(place, length);
    const { cacheBytes } = this.#limits;
    if (length > cacheBytes) return bytes;
    this.#cache.set(place, bytes);
    this.#cached += length;
    for (const [oldest, { length }] of this.#cache) {
      if (this.#cached <= cacheBytes) break;
      this.#cache.delete(oldest);
      this.#cached -= length;
    }
    return bytes;
  }
}

/** Of SCM, as replays keep it. */
export const PAGE_BYTES = 4_096;
const PAGES_IN_MEMORY = 2_048;

/** Pages of a memory, those in use in this process, the others in the spool's file. */
export class SpooledPages {
  readonly #spool: Spool | undefined;
  readonly #most: number;
  /** Least recently used first. */
  readonly #held = new Map<number, Uint8Array>();
  readonly #places = new Map<number, number>();

  /** @param spool absent: all pages are in this process. */
  constructor(spool: Spool | undefined, most: number = PAGES_IN_MEMORY) {
    this.#spool = spool;
    this.#most = spool === undefined ? Infinity : most;
  }

  get held(): number {
    return this.#held.size;
  }

  /** The page's array until the next call; undefined where none has been made. */
  look(page: number): Uint8Array | undefined {
    const held = this.#held.get(page);
    if (held !== undefined) {
      this.#held.delete(page);
      this.#held.set(page, held);
      return held;
    }
    const place = this.#places.get(page);
    return place === undefined ? undefined : this.#hold(page, this.#spool!.read(place, PAGE_BYTES));
  }

  /** The page's array, to be changed before the next call. */
  page(page: number): Uint8Array {
    return this.look(page) ?? this.#hold(page, new Uint8Array(PAGE_BYTES));
  }

  read(from: number, to: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(to - from);
    for (const { page, at, done, length } of partsOf(from, to)) {
      const found = this.look(page);
      if (found !== undefined) bytes.set(found.subarray(at, at + length), done);
    }
    return bytes;
  }

  write(offset: number, bytes: Uint8Array): void {
    for (const { page, at, done, length } of partsOf(offset, offset + bytes.length)) {
      this.page(page).set(bytes.subarray(done, done + length), at);
    }
  }

  #hold(page: number, bytes: Uint8Array): Uint8Array {
    this.#held.set(page, bytes);
    if (this.#held.size > this.#most) {
      const [oldest, left] = this.#held.entries().next().value!;
      this.#held.delete(oldest);
      const place = this.#places.get(oldest);
      if (place === undefined) this.#places.set(oldest, this.#spool!.keep(left));
      else this.#spool!.write(place, left);
    }
    return bytes;
  }
}

/** `page`: the offset of its first byte. */
function* partsOf(from: number, to: number) {
  for (let offset = from; offset < to;) {
    const at = offset % PAGE_BYTES, length = Math.min(PAGE_BYTES - at, to - offset);
    yield { page: offset - at, at, done: offset - from, length };
    offset += length;
  }
}

/** Content that was put is read when the order's program begins. */
export function spooled(order: SimulatedOrder, spool: Spool): SimulatedOrder {
  const { content, ...rest } = order.program.options;
  if (!(content instanceof Uint8Array)) return order;
  const place = spool.keep(content), { length } = content;
  const options = {
    ...rest,
    get content() {
      return spool.read(place, length);
    },
  };
  return { ...order, program: { ...order.program, options } };
}
