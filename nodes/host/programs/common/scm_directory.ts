/**
 * The directory of named objects in a host's SCM: 64 KiB that survive power failures, in the first
 * place outside the scenario's regions. An entry is valid if its CRC is right, so a torn entry
 * counts as free; a replaced object's old entry is cleared only after the new one is persistent,
 * and where both are found the newer generation is valid.
 *
 *   line 0      magic, version, CRC
 *   128 B each  CRC 4, generation 4, offset 8, length 8, name's bytes 1, name ≤ 96
 */
import { OBJECT_NAME_BYTES_MAX } from "../../../../fabric/rack/plan/names.ts";
import { crc32 } from "../../../../fabric/wire/roce/icrc.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import type { Buffer } from "../../memory/address_map.ts";

/** Bytes of SCM that the directory takes. */
export const DIRECTORY_BYTES = 64 * 1024;
/** Alignment of objects: the medium's block size. */
export const OBJECT_ALIGNMENT = 256;
const ENTRY_BYTES = 128;
const ENTRIES_MAX = DIRECTORY_BYTES / ENTRY_BYTES - 1;
export const NAME_BYTES_MAX = OBJECT_NAME_BYTES_MAX;
const HEADER_BYTES = 16;
const MAGIC = 0x5243_4b4d; // "RCKM"
const VERSION = 1;

/** A named range of SCM. `offset` is from the SCM's first byte. */
export interface ScmObject {
  readonly name: string;
  readonly offset: number;
  readonly length: number;
  /** Distinguishes it from others of the same name or place; 0 for a region without an object. */
  readonly generation: number;
}

interface Entry extends ScmObject {
  readonly slot: number;
}

/** Name prefix of receive buffers (`recv_ring.ts`), which requesters' objects cannot have. */
const RING_PREFIX = ".recv/";

/** Regions of the scenario: each is reserved for the object of its name. */
export type Regions = Readonly<Record<string, { readonly at: number; readonly bytes: number }>>;

export interface ScmDirectory {
  readonly scm: Buffer;
  readonly regions: Regions;
  /** Offset of the directory; undefined where SCM has no room for one. */
  readonly place: number | undefined;
  readonly entries: Map<string, Entry>;
  /** By slot: whether it has a valid entry. */
  readonly taken: boolean[];
  generation: number;
}

function encodeHeader(): Uint8Array {
  const bytes = new Uint8Array(HEADER_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(4, MAGIC);
  view.setUint32(8, VERSION);
  view.setUint32(0, crc32(bytes.subarray(4)));
  return bytes;
}

function encodeEntry(entry: Entry): Uint8Array {
  const name = new TextEncoder().encode(entry.name);
  const bytes = new Uint8Array(ENTRY_BYTES);
  const view = new DataView(bytes.buffer);
  view.setUint32(4, entry.generation);
  view.setBigUint64(8, BigInt(entry.offset));
  view.setBigUint64(16, BigInt(entry.length));
  bytes[24] = name.length;
  bytes.set(name, 25);
  view.setUint32(0, crc32(bytes.subarray(4, ENTRY_BYTES)));
  return bytes;
}

/** Undefined where the bytes are not a valid entry. */
function decodeEntry(bytes: Uint8Array, slot: number): Entry | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0) !== crc32(bytes.subarray(4, ENTRY_BYTES)) || bytes[24] === 0) {
    return undefined;
  }
  return {
    slot,
    generation: view.getUint32(4),
    offset: Number(view.getBigUint64(8)),
    length: Number(view.getBigUint64(16)),
    name: new TextDecoder().decode(bytes.subarray(25, 25 + bytes[24]!)),
  };
}

function entryAddress(directory: ScmDirectory, slot: number): number {
  return directory.scm.address + directory.place! + (slot + 1) * ENTRY_BYTES;
}

/**
 * Reads the directory, or creates an empty one on SCM without a valid header: before its header is
 * persistent it has no entries to lose. Reads up to the first slot that was never written, as slots
 * are allocated lowest first.
 */
export function* openDirectory(cpu: Cpu, regions: Regions = {}): Steps<ScmDirectory> {
  const { scm } = cpu;
  const place = firstGap(takenByRegions(regions), { length: DIRECTORY_BYTES, end: scm.length });
  const entries = new Map<string, Entry>();
  const directory: ScmDirectory = { scm, regions, place, entries, taken: [], generation: 0 };
  if (place === undefined) return directory;
  const header = encodeHeader();
  const at = scm.address + place;
  const found = cpu.load(at, HEADER_BYTES);
  if (!found.every((byte, i) => byte === header[i])) {
    yield* cpu.ntStore(at + ENTRY_BYTES, new Uint8Array(ENTRIES_MAX * ENTRY_BYTES));
    yield* cpu.ntStore(at, header);
    return directory;
  }
  for (let slot = 0; slot < ENTRIES_MAX; slot++) {
    const bytes = cpu.load(entryAddress(directory, slot), ENTRY_BYTES);
    if (bytes.every((byte) => byte === 0)) break;
    const entry = decodeEntry(bytes, slot);
    if (entry === undefined) continue;
    directory.generation = Math.max(directory.generation, entry.generation);
    const other = directory.entries.get(entry.name);
    if (other !== undefined && other.generation > entry.generation) continue;
    if (other !== undefined) directory.taken[other.slot] = false;
    directory.entries.set(entry.name, entry);
    directory.taken[slot] = true;
  }
  yield* cpu.settle();
  return directory;
}

interface Span {
  readonly offset: number;
  readonly length: number;
}

function takenByRegions(regions: Regions): Span[] {
  return Object.values(regions).map(({ at, bytes }) => ({ offset: at, length: bytes }));
}

/** The first gap that is large enough, lowest offset first. */
function firstGap(
  taken: readonly Span[],
  wanted: { readonly length: number; readonly end: number },
): number | undefined {
  const spans = [...taken].sort((x, y) => x.offset - y.offset);
  let from = 0;
  for (const span of spans) {
    if (span.offset - from >= wanted.length) return from;
    from = Math.max(from, alignUp(span.offset + span.length));
  }
  return from + wanted.length <= wanted.end ? from : undefined;
}

/** A free place for an object of this name and length. */
function findSpace(
  directory: ScmDirectory,
  object: { readonly name: string; readonly length: number },
): number | undefined {
  const { regions, place, entries, scm } = directory;
  const { name, length } = object;
  if (Object.hasOwn(regions, name)) {
    const { at, bytes } = regions[name]!;
    return length <= bytes ? at : undefined;
  }
  const taken = [
    ...takenByRegions(regions),
    { offset: place!, length: DIRECTORY_BYTES },
    ...entries.values(),
  ];
  return firstGap(taken, { length, end: scm.length });
}

function alignUp(bytes: number): number {
  return Math.ceil(bytes / OBJECT_ALIGNMENT) * OBJECT_ALIGNMENT;
}

/** A created object, or a named region; never receive buffers. */
export function findObject(directory: ScmDirectory, name: string): ScmObject | undefined {
  if (isRing({ name })) return undefined;
  const entry = directory.entries.get(name);
  if (entry !== undefined || !Object.hasOwn(directory.regions, name)) return entry;
  const { at, bytes } = directory.regions[name]!;
  return { name, offset: at, length: bytes, generation: 0 };
}

/** The object, or else the named region, that contains the range. */
export function objectAt(
  directory: ScmDirectory,
  range: { readonly offset: number; readonly length: number },
): ScmObject | undefined {
  const { entries, regions } = directory;
  const end = range.offset + range.length;
  const holds = (each: Span) => each.offset <= range.offset && end <= each.offset + each.length;
  for (const entry of entries.values()) if (holds(entry)) return entry;
  const named = Object.keys(regions).flatMap((name) => findObject(directory, name) ?? []);
  return named.find(holds);
}

function isRing({ name }: { readonly name: string }): boolean {
  return name.startsWith(RING_PREFIX);
}

/** Objects of requesters, by name. */
export function listObjects(directory: ScmDirectory): ScmObject[] {
  const objects = [...directory.entries.values()].filter((entry) => !isRing(entry));
  return objects.sort((x, y) => x.name < y.name ? -1 : 1);
}

/** Areas for receive buffers. */
export function ringObjects(directory: ScmDirectory): ScmObject[] {
  return [...directory.entries.values()].filter(isRing);
}

/**
 * The place of object `name` with `length` bytes: the old place where its length is equal, else a
 * new one. Persistent when this returns.
 * @param object `isRing` creates an area for receive buffers, whose name no object can have. The
 * first `keeps` bytes (0) of a replaced object are copied before the directory names the new one.
 * @returns undefined where SCM or directory is full, or the name is empty, too long or reserved.
 */
export function* createObject(
  cpu: Cpu,
  directory: ScmDirectory,
  object: {
    readonly name: string;
    readonly length: number;
    readonly isRing?: true;
    readonly keeps?: number;
  },
): Steps<ScmObject | undefined> {
  const { length, keeps = 0 } = object;
  if (object.isRing !== true && isRing(object)) return undefined;
  const name = object.isRing ? RING_PREFIX + object.name : object.name;
  const nameBytes = new TextEncoder().encode(name).length;
  if (nameBytes === 0 || nameBytes > NAME_BYTES_MAX) return undefined;
  const old = directory.entries.get(name);
  if (old !== undefined && old.length === length) return old;
  let slot = 0;
  while (directory.taken[slot]) slot++;
  if (directory.place === undefined || slot >= ENTRIES_MAX) return undefined;
  const offset = findSpace(directory, object);
  if (offset === undefined) return undefined;
  directory.generation++;
  const entry = { name, offset, length, slot, generation: directory.generation };
  // Reserved before time passes: another request may arrive meanwhile.
  directory.taken[slot] = true;
  directory.entries.set(name, entry);
  if (old !== undefined && keeps > 0) {
    const { address } = directory.scm;
    const kept = cpu.load(address + old.offset, Math.min(keeps, old.length, length));
    yield* cpu.ntStore(address + offset, kept);
  }
  yield* cpu.ntStore(entryAddress(directory, slot), encodeEntry(entry));
  if (old !== undefined) {
    // One word, so the write is atomic: it makes the CRC wrong. Never zeros, which would end the
    // search at boot.
    const cleared = encodeEntry(old).slice(0, 8);
    cleared[0]! ^= 1;
    yield* cpu.ntStore(entryAddress(directory, old.slot), cleared);
    directory.taken[old.slot] = false;
  }
  return entry;
}
