/**
 * Physical memory: DRAM from 0, SCM from {@link SCM_BASE}. Virtual memory: one space for all
 * programs of a host, DRAM in 4 KiB pages, SCM in large ones. Consecutive DRAM pages are on
 * non-consecutive frames, so that code without translation fails at once.
 */
import { assert } from "../../../fabric/base/assert.ts";
import { SCM_BASE } from "../../../fabric/rack/plan/shared_region.ts";

export { SCM_BASE };
export const VIRTUAL_DRAM_BASE = 0x7f00_0000_0000;
/** A virtual address is this base plus the physical one. */
export const VIRTUAL_CONTIGUOUS_BASE = 0x7e00_0000_0000;
export const VIRTUAL_SCM_BASE = 0x6000_0000_0000;
export const DRAM_PAGE_BYTES = 4096;
const SCM_PAGE_BYTES_MAX = 2 * 1024 * 1024;
/** Used memory stays compact. */
const SHUFFLE_FRAMES = 16;
/** Freed memory beyond this is given out in other sizes as well. */
const SPARE_PAGES_MOST = 256;

/** Consecutive virtual memory of a program. */
export interface Buffer {
  /** Virtual address of the first byte. */
  readonly address: number;
  /** In bytes. */
  readonly length: number;
  /** Bytes of one page. */
  readonly pageBytes: number;
  /** Physical address of each page. */
  readonly pages: readonly number[];
}

/** An invalid access ends the program, like a signal to a process; the host continues. */
export class AddressFault extends Error {
  override readonly name = "AddressFault";
}

/** A program requested more memory than is free. */
export class OutOfMemory extends Error {
  override readonly name = "OutOfMemory";
}

export interface MemorySizes {
  readonly dramBytes: number;
  readonly scmBytes: number;
}

export function describePhysical(address: number): string {
  return address >= SCM_BASE
    ? `SCM+0x${(address - SCM_BASE).toString(16)}`
    : `DRAM+0x${address.toString(16)}`;
}

/** The largest power of two ≤ 2 MiB that divides `scmBytes`. */
export function scmPageBytes(scmBytes: number): number {
  let page = SCM_PAGE_BYTES_MAX;
  while (scmBytes % page !== 0) page /= 2;
  assert(page >= DRAM_PAGE_BYTES, `SCM of ${scmBytes} B is not a whole number of 4 KiB pages`);
  return page;
}

export function dramFrame(page: number, frames: number): number {
  const inGroup = page % SHUFFLE_FRAMES;
  const group = page - inGroup;
  const rest = frames - group;
  if (rest < SHUFFLE_FRAMES) return group + rest - 1 - inGroup;
  return group + (5 * inGroup + 3) % SHUFFLE_FRAMES;
}

function pagesOf(bytes: number): number {
  return Math.max(1, Math.ceil(bytes / DRAM_PAGE_BYTES));
}

type Kind = "scattered" | "contiguous";

interface Given {
  readonly kind: Kind;
  readonly buffer: Buffer;
  readonly card: number;
}

function joined(buffers: readonly Buffer[]): Buffer[] {
  const all: Buffer[] = [];
  for (const next of buffers.toSorted((x, y) => x.address - y.address)) {
    const last = all.at(-1);
    if (last !== undefined && last.address + last.pages.length * DRAM_PAGE_BYTES === next.address) {
      all[all.length - 1] = { ...last, pages: [...last.pages, ...next.pages] };
    } else all.push(next);
  }
  return all;
}

export class AddressMap {
  readonly scm: Buffer;
  readonly #sizes: MemorySizes;
  readonly #frames: number;
  #pagesUsed = 0;
  #contiguousFrames = 0;
  readonly #given = new Map<number, Given>();
  readonly #spare: Readonly<Record<Kind, Map<number, Buffer[]>>> = {
    scattered: new Map(),
    contiguous: new Map(),
  };
  #sparePages = 0;
  readonly #moved = new Map<number, number>();
  /** Memory is freed, or contiguous memory allocated for a device. */
  onFree: (buffer: Buffer, given: Pick<Given, "kind" | "card">) => void = () => {};
  onContiguous: (buffer: Buffer, card: number) => void = () => {};

  constructor(sizes: MemorySizes) {
    assert(
      sizes.dramBytes % DRAM_PAGE_BYTES === 0,
      `DRAM of ${sizes.dramBytes} B is no whole page`,
    );
    this.#sizes = sizes;
    this.#frames = sizes.dramBytes / DRAM_PAGE_BYTES;
    const pageBytes = scmPageBytes(sizes.scmBytes);
    this.scm = {
      address: VIRTUAL_SCM_BASE,
      length: sizes.scmBytes,
      pageBytes,
      pages: Array.from({ length: sizes.scmBytes / pageBytes }, (_, i) => SCM_BASE + i * pageBytes),
    };
  }

  get allocatedBytes(): number {
    return (this.#pagesUsed + this.#contiguousFrames - this.#sparePages) * DRAM_PAGE_BYTES;
  }

  /**
   * Freed memory, with its old content; undefined without so many pages. One freed in this size is preferred. Else,
   * where much is spare or little is left, the front of the smallest larger one, neighbours joined: programs that ask
   * for ever new sizes would use up the DRAM.
   * @param isQuiet whether no pending DMA write can reach these frames.
   * @param card the card that contiguous memory is for.
   */
  takeSpare(
    bytes: number,
    kind: Kind,
    isQuiet: (frames: readonly number[]) => boolean = () => true,
    card = 0,
  ): Buffer | undefined {
    const count = pagesOf(bytes);
    const same = this.#spare[kind].get(count) ?? [];
    const last = same.findLastIndex((each) => isQuiet(this.framesOf(each)));
    const spare = last >= 0
      ? same.splice(last, 1)[0]!
      : this.#isShort(count)
      ? this.#takeFront(count, kind, isQuiet)
      : undefined;
    if (spare === undefined) return undefined;
    this.#sparePages -= count;
    return this.#give(kind, { ...spare, length: bytes }, card);
  }

  #isShort(count: number): boolean {
    const used = this.#pagesUsed + this.#contiguousFrames;
    return this.#sparePages > SPARE_PAGES_MOST || used + count + SHUFFLE_FRAMES > this.#frames;
  }

  #takeFront(
    count: number,
    kind: Kind,
    isQuiet: (frames: readonly number[]) => boolean,
  ): Buffer | undefined {
    const all = joined([...this.#spare[kind].values()].flat());
    const found =
      all.filter((each) =>
        each.pages.length >= count && isQuiet(this.framesOf(each).slice(0, count))
      )
        .toSorted((x, y) => x.pages.length - y.pages.length)[0];
    if (found === undefined) return undefined;
    this.#spare[kind].clear();
    for (const each of all) if (each !== found) this.#keepSpare(kind, each);
    const [front, rest] = [found.pages.slice(0, count), found.pages.slice(count)];
    const address = found.address + count * DRAM_PAGE_BYTES;
    if (rest.length > 0) this.#keepSpare(kind, { ...found, address, pages: rest });
    return { ...found, pages: front };
  }

  #keepSpare(kind: Kind, buffer: Buffer): void {
    const count = buffer.pages.length;
    const spare = this.#spare[kind].get(count) ?? [];
    spare.push(buffer);
    this.#spare[kind].set(count, spare);
  }

  /** @throws AddressFault where nothing is allocated there. */
  free({ address }: Pick<Buffer, "address">): void {
    const given = this.#given.get(address);
    if (given === undefined) {
      throw new AddressFault(`Cannot free 0x${address.toString(16)}: it is not allocated`);
    }
    this.#given.delete(address);
    const { kind, buffer } = given;
    this.onFree(buffer, given);
    this.#keepSpare(kind, buffer);
    this.#sparePages += buffer.pages.length;
  }

  #give(kind: Kind, buffer: Buffer, card: number): Buffer {
    this.#given.set(buffer.address, { kind, buffer, card });
    if (kind === "contiguous") this.onContiguous(buffer, card);
    return buffer;
  }

  /** Whole pages, zeroed. @throws OutOfMemory */
  allocate(bytes: number): Buffer {
    const count = this.#pagesFor(bytes, { scattered: true });
    const first = this.#pagesUsed;
    this.#pagesUsed += count;
    return this.#give("scattered", {
      address: VIRTUAL_DRAM_BASE + first * DRAM_PAGE_BYTES,
      length: bytes,
      pageBytes: DRAM_PAGE_BYTES,
      pages: Array.from(
        { length: count },
        (_, i) => dramFrame(first + i, this.#frames) * DRAM_PAGE_BYTES,
      ),
    }, 0);
  }

  /** Whole pages, zeroed, on consecutive frames, for a card. @throws OutOfMemory */
  allocateContiguous(bytes: number, card = 0): Buffer {
    const count = this.#pagesFor(bytes, { scattered: false });
    this.#contiguousFrames += count;
    const from = (this.#frames - this.#contiguousFrames) * DRAM_PAGE_BYTES;
    return this.#give("contiguous", {
      address: VIRTUAL_CONTIGUOUS_BASE + from,
      length: bytes,
      pageBytes: DRAM_PAGE_BYTES,
      pages: Array.from({ length: count }, (_, i) => from + i * DRAM_PAGE_BYTES),
    }, card);
  }

  #pagesFor(bytes: number, kind: { readonly scattered: boolean }): number {
    const count = pagesOf(bytes);
    const pages = this.#pagesUsed + (kind.scattered ? count : 0);
    const contiguous = this.#contiguousFrames + (kind.scattered ? 0 : count);
    // A partly used group is not available for contiguous memory.
    const whole = contiguous === 0 ? pages : Math.ceil(pages / SHUFFLE_FRAMES) * SHUFFLE_FRAMES;
    if (!(bytes >= 0) || whole + contiguous > this.#frames) {
      const left = this.#frames * DRAM_PAGE_BYTES - this.allocatedBytes;
      throw new OutOfMemory(`Cannot allocate ${bytes} B: ${left} B of DRAM are left`);
    }
    return count;
  }

  /** @throws AddressFault */
  physical(address: number): number {
    const inDram = address - VIRTUAL_DRAM_BASE;
    if (inDram >= 0 && inDram < this.#pagesUsed * DRAM_PAGE_BYTES) {
      const page = Math.floor(inDram / DRAM_PAGE_BYTES);
      const frame = this.#moved.size === 0 ? undefined : this.#moved.get(page);
      const start = frame ?? dramFrame(page, this.#frames) * DRAM_PAGE_BYTES;
      return start + inDram % DRAM_PAGE_BYTES;
    }
    const inScm = address - VIRTUAL_SCM_BASE;
    if (inScm >= 0 && inScm < this.#sizes.scmBytes) return SCM_BASE + inScm;
    const inPiece = address - VIRTUAL_CONTIGUOUS_BASE;
    const end = this.#frames * DRAM_PAGE_BYTES;
    if (inPiece >= end - this.#contiguousFrames * DRAM_PAGE_BYTES && inPiece < end) return inPiece;
    throw new AddressFault(`Cannot access 0x${address.toString(16)}: no memory is mapped there`);
  }

  move(page: number, frame: number): void {
    this.#moved.set((page - VIRTUAL_DRAM_BASE) / DRAM_PAGE_BYTES, frame);
  }

  framesOf({ address, pages }: Pick<Buffer, "address" | "pages">): readonly number[] {
    if (this.#moved.size === 0 || address < VIRTUAL_DRAM_BASE) return pages;
    const start = address - address % DRAM_PAGE_BYTES;
    return pages.map((_, i) => this.physical(start + i * DRAM_PAGE_BYTES));
  }

  run(address: number): number {
    if (address >= VIRTUAL_DRAM_BASE) return DRAM_PAGE_BYTES - address % DRAM_PAGE_BYTES;
    if (address >= VIRTUAL_CONTIGUOUS_BASE) {
      return VIRTUAL_CONTIGUOUS_BASE + this.#frames * DRAM_PAGE_BYTES - address;
    }
    return VIRTUAL_SCM_BASE + this.#sizes.scmBytes - address;
  }
}
