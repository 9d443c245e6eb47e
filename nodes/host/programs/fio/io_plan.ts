/** The next I/O, as fio's `io_u.c` chooses it. */
import type { Rng } from "../../../../fabric/base/rng.ts";
import type { Direction, FioJob } from "./job.ts";

export interface Io {
  readonly direction: Direction;
  readonly offset: number;
  readonly bytes: number;
}

export type IoRules = Pick<
  FioJob,
  | "readPercent"
  | "random"
  | "randomMap"
  | "blockSizes"
  | "size"
  | "offset"
  | "ioBytes"
  | "ios"
  | "loops"
  | "timeBased"
>;

export interface Extents {
  readonly offset: number;
  readonly bytes: number;
}

/** @returns why the job does not fit the workspace. */
export function extentsOf(
  { size, offset, blockSizes, readPercent }: IoRules,
  workspace: number,
): Extents | string {
  if (offset >= workspace) return `offset ${offset}: the server's workspace has ${workspace} B`;
  const bytes = size === undefined ? workspace - offset : "bytes" in size
    ? size.bytes
    // setup_files: a percentage of the whole, at most the rest behind the offset.
    : Math.min(Math.floor(workspace * size.percent / 100), workspace - offset);
  const most = Math.max(
    readPercent > 0 ? blockSizes.read.most : 0,
    readPercent < 100 ? blockSizes.write.most : 0,
  );
  if (offset + bytes > workspace) {
    return `offset ${offset} and size ${bytes}: the server's workspace has ${workspace} B`;
  }
  return bytes < most ? `size ${bytes}: a block has ${most} B` : { offset, bytes };
}

export class IoPlan {
  readonly #rules: IoRules;
  readonly #extents: Extents;
  readonly #rng: Rng;
  /** The next byte of sequential I/O, per direction (`f->last_pos`). */
  readonly #next: Record<Direction, number>;
  readonly #unit: number;
  readonly #blocks: number;
  /** One bit a block; undefined where blocks may repeat. */
  #map: Uint8Array | undefined;
  #mapped = 0;
  #issuedBytes = 0;
  #issued = 0;
  readonly #totalBytes: number;

  constructor(rules: IoRules, extents: Extents, rng: Rng) {
    this.#rules = rules;
    this.#extents = extents;
    this.#rng = rng;
    this.#next = { read: extents.offset, write: extents.offset };
    const used = directionsOf(rules);
    this.#unit = Math.min(...used.map((each) => rules.blockSizes[each].least));
    this.#blocks = Math.floor(extents.bytes / this.#unit);
    if (rules.random && rules.randomMap) this.#map = new Uint8Array(Math.ceil(this.#blocks / 8));
    this.#totalBytes = (rules.ioBytes ?? this.#blocks * this.#unit) * rules.loops;
  }

  next(): Io | undefined {
    const { ios, timeBased } = this.#rules;
    if (ios !== undefined && this.#issued >= ios) return undefined;
    if (!timeBased && this.#issuedBytes >= this.#totalBytes) return undefined;
    const direction = this.#direction();
    const io = this.#rules.random ? this.#atRandom(direction) : this.#inSequence(direction);
    if (io === undefined) return undefined;
    this.#issued++;
    this.#issuedBytes += io.bytes;
    return io;
  }

  /** The issued part of the job, in [0, 1]. */
  get share(): number {
    const { ios } = this.#rules;
    const ofIos = ios === undefined ? 0 : this.#issued / ios;
    return Math.min(1, Math.max(ofIos, this.#issuedBytes / this.#totalBytes));
  }

  #direction(): Direction {
    const { readPercent } = this.#rules;
    if (readPercent === 0 || readPercent === 100) return readPercent === 0 ? "write" : "read";
    return this.#rng.below(100) < readPercent ? "read" : "write";
  }

  #size(direction: Direction, room: number): number {
    const { least, most } = this.#rules.blockSizes[direction];
    const steps = Math.floor(most / least);
    const drawn = steps === 1 ? most : least * (1 + this.#rng.below(steps));
    return drawn <= room ? drawn : Math.floor(room / least) * least;
  }

  #inSequence(direction: Direction): Io | undefined {
    const { offset: begin, bytes: length } = this.#extents;
    const end = begin + length;
    let bytes = this.#size(direction, end - this.#next[direction]);
    if (bytes === 0) {
      // fio begins again while bytes or time are left.
      this.#next[direction] = begin;
      bytes = this.#size(direction, length);
      if (bytes === 0) return undefined;
    }
    const offset = this.#next[direction];
    this.#next[direction] += bytes;
    return { direction, offset, bytes };
  }

  #atRandom(direction: Direction): Io | undefined {
    const { offset: begin, bytes: length } = this.#extents;
    if (this.#blocks === 0) return undefined;
    let block = this.#rng.below(this.#blocks);
    if (this.#map !== undefined) block = this.#take(this.#map, block);
    const at = block * this.#unit;
    let bytes = this.#size(direction, length - at);
    // A block of the other direction's smaller size may be too near to the end.
    const offset = bytes === 0 ? 0 : at;
    if (bytes === 0) bytes = this.#size(direction, length);
    if (this.#map !== undefined) {
      bytes = this.#untaken(this.#map, { direction, offset, bytes });
      this.#mark(this.#map, offset, bytes);
    }
    return { direction, offset: begin + offset, bytes };
  }

  /** Takes the block, or the next unused one in this round (`axmap_next_free`). */
  #take(map: Uint8Array, drawn: number): number {
    if (this.#mapped >= this.#blocks) {
      map.fill(0);
      this.#mapped = 0;
    }
    let block = drawn;
    while ((map[block >> 3]! & (1 << (block & 7))) !== 0) block = (block + 1) % this.#blocks;
    return block;
  }

  /** @returns the part before a taken block, if it is enough for an I/O (`mark_random_map`). */
  #untaken(map: Uint8Array, { direction, offset, bytes }: Io): number {
    const first = Math.floor(offset / this.#unit);
    const last = Math.ceil((offset + bytes) / this.#unit);
    let block = first + 1;
    while (block < last && (map[block >> 3]! & (1 << (block & 7))) === 0) block++;
    const free = (block - first) * this.#unit;
    return free < this.#rules.blockSizes[direction].least ? bytes : Math.min(bytes, free);
  }

  #mark(map: Uint8Array, offset: number, bytes: number): void {
    const first = Math.floor(offset / this.#unit);
    const last = Math.min(this.#blocks, Math.ceil((offset + bytes) / this.#unit));
    for (let block = first; block < last; block++) {
      const bit = 1 << (block & 7);
      if ((map[block >> 3]! & bit) !== 0) continue;
      map[block >> 3]! |= bit;
      this.#mapped++;
    }
  }
}

function directionsOf({ readPercent }: IoRules): Direction[] {
  if (readPercent === 0) return ["write"];
  return readPercent === 100 ? ["read"] : ["read", "write"];
}
