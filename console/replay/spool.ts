/**
 * Bytes that a replay needs again, as much as all content ever put: in a file without a name, which
 * is gone with the process.
 */

import type { SimulatedOrder } from "../../fabric/partition/simulator.ts";

const CACHE_BYTES = 64 << 20;

export type SpoolFile = Pick<Deno.FsFile, "readSync" | "writeSync" | "seekSync">;

export class Spool {
  readonly #file: SpoolFile;
  readonly #most: number;
  readonly #cache = new Map<number, Uint8Array>();
  #cached = 0;
  #length = 0;

  /** @param file empty, open for both; no permission is needed from here on. */
  constructor(file: SpoolFile, cacheBytes: number = CACHE_BYTES) {
    this.#file = file;
    this.#most = cacheBytes;
  }

  get bytes(): { readonly kept: number; readonly cached: number } {
    return { kept: this.#length, cached: this.#cached };
  }

  /** Returns their place. @throws Error where the disk is full. */
  keep(bytes: Uint8Array): number {
    const place = this.#length;
    this.#file.seekSync(place, Deno.SeekMode.Start);
    for (let done = 0; done < bytes.length;) done += this.#file.writeSync(bytes.subarray(done));
    this.#length += bytes.length;
    return place;
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
    if (length > this.#most) return bytes;
    this.#cache.set(place, bytes);
    this.#cached += length;
    for (const [oldest, { length }] of this.#cache) {
      if (this.#cached <= this.#most) break;
      this.#cache.delete(oldest);
      this.#cached -= length;
    }
    return bytes;
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
