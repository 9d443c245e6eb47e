/**
 * The directory of named objects in a host's SCM: 64 KiB in the first place outside the scenario's regions. An entry is
 * valid if its CRC is right, so a torn entry counts as free; a replaced object's old entry is cleared only after the new
 * one is persistent, and where both are found the newer generation is valid.
 *
 *   line 0      magic, version, CRC
 *   128 B each  CRC 4, state 2 bits, generation 30 bits, offset 8, length 8, name's bytes 1, name ≤ 96
 *
 * State, generation and CRC are one word, so an entry changes its state by one atomic update
 * (P-41). A replacement is reserved as a `pending` entry with space of its own; publishing it makes
 * it the object of its name, and the old one is readable until then. A replacement that is not
 * published is dropped; where no object has its name it stays as `incomplete`, so that its
 * confirmed bytes can be read.
 */
import { OBJECT_NAME_BYTES_MAX } from "../../../../fabric/rack/plan/names.ts";
import { crc32 } from "../../../../fabric/wire/roce/icrc.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import type { Buffer } from "../../memory/address_map.ts";

export const DIRECTORY_BYTES = 64 * 1024;
/** The medium's block size. */
export const OBJECT_ALIGNMENT = 256;
const ENTRY_BYTES = 128;
const ENTRIES_MAX = DIRECTORY_BYTES / ENTRY_BYTES - 1;
export const NAME_BYTES_MAX = OBJECT_NAME_BYTES_MAX;
const HEADER_BYTES = 16;
/** Bytes that the service writes at the host's first boot. */
export const NEW_DIRECTORY_BYTES = ENTRIES_MAX * ENTRY_BYTES + HEADER_BYTES;
const MAGIC = 0x5243_4b4d; // "RCKM"
const VERSION = 1;

/** `offset` is from the SCM's first byte. */
export interface ScmObject {
  readonly name: string;
  readonly offset: number;
  readonly length: number;
  /** Distinguishes it from others of its name or place; 0 for a region without an object. */
  readonly generation: number;
  readonly state?: EntryState;
}

const STATES = ["complete", "pending", "incomplete"] as const;
export type EntryState = typeof STATES[number];
const GENERATION_BITS = 30;
const GENERATION_MAX = 2 ** GENERATION_BITS - 1;

export interface Entry extends ScmObject {
  readonly slot: number;
  state: EntryState;
}

/** Receive buffers (`recv_ring.ts`); requesters' objects cannot have it. */
const RING_PREFIX = ".recv/";

/** Each region is reserved for the object of its name. */
export type Regions = Readonly<Record<string, { readonly at: number; readonly bytes: number }>>;

export interface ScmDirectory {
  readonly scm: Buffer;
  readonly regions: Regions;
  /** Undefined where SCM has no room. */
  readonly place: number | undefined;
  readonly entries: Map<string, Entry>;
  readonly pending: Set<Entry>;
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
  view.setUint32(4, STATES.indexOf(entry.state) * 2 ** GENERATION_BITS + entry.generation);
  view.setBigUint64(8, BigInt(entry.offset));
  view.setBigUint64(16, BigInt(entry.length));
  bytes[24] = name.length;
  bytes.set(name, 25);
  view.setUint32(0, crc32(bytes.subarray(4, ENTRY_BYTES)));
  return bytes;
}

function decodeEntry(bytes: Uint8Array, slot: number): Entry | undefined {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  if (view.getUint32(0) !== crc32(bytes.subarray(4, ENTRY_BYTES)) || bytes[24] === 0) {
    return undefined;
  }
  return {
    slot,
    state: STATES[view.getUint32(4) >>> GENERATION_BITS]!,
    generation: view.getUint32(4) & GENERATION_MAX,
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
 * persistent it has no entries to lose.
 */
export function* openDirectory(cpu: Cpu, regions: Regions = {}): Steps<ScmDirectory> {
  const { scm } = cpu;
  const place = firstGap(takenByRegions(regions), { length: DIRECTORY_BYTES, end: scm.length });
  const directory: ScmDirectory = {
    scm,
    regions,
    place,
    entries: new Map(),
    pending: new Set(),
    taken: [],
    generation: 0,
  };
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
    directory.taken[slot] = true;
    if (entry.state === "pending") directory.pending.add(entry);
    else yield* addFound(cpu, directory, entry);
  }
  yield* cpu.settle();
  return directory;
}

/**
 * The older of two entries of a name is cleared: it must not reappear when the newer one is gone.
 */
function* addFound(cpu: Cpu, directory: ScmDirectory, entry: Entry): Steps<void> {
  const { entries } = directory;
  const other = entries.get(entry.name);
  if (other === undefined || other.generation < entry.generation) entries.set(entry.name, entry);
  if (other === undefined) return;
  yield* clearEntry(cpu, directory, other.generation < entry.generation ? other : entry);
}

/**
 * Ends replacements of an earlier life, whose requesters are gone; after a power failure before the
 * first request.
 */
export function* dropReplacements(cpu: Cpu, directory: ScmDirectory): Steps<void> {
  const newestFirst = [...directory.pending].sort((x, y) => y.generation - x.generation);
  for (const entry of newestFirst) yield* abandonReplacement(cpu, directory, entry);
}

export interface Span {
  readonly offset: number;
  readonly length: number;
}

function takenByRegions(regions: Regions): Span[] {
  return Object.values(regions).map(({ at, bytes }) => ({ offset: at, length: bytes }));
}

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

function findSpace(
  directory: ScmDirectory,
  object: { readonly name: string; readonly length: number },
  inUse: readonly Span[] = [],
): number | undefined {
  const { regions, place, entries, pending, scm } = directory;
  const { name, length } = object;
  if (Object.hasOwn(regions, name)) {
    const { at, bytes } = regions[name]!;
    return length <= bytes ? at : undefined;
  }
  const taken = [
    ...takenByRegions(regions),
    { offset: place!, length: DIRECTORY_BYTES },
    ...entries.values(),
    ...pending,
    ...inUse,
  ];
  return firstGap(taken, { length, end: scm.length });
}

function alignUp(bytes: number): number {
  return Math.ceil(bytes / OBJECT_ALIGNMENT) * OBJECT_ALIGNMENT;
}

export function findObject(directory: ScmDirectory, name: string): ScmObject | undefined {
  if (isRing({ name })) return undefined;
  const entry = directory.entries.get(name);
  if (entry !== undefined || !Object.hasOwn(directory.regions, name)) return entry;
  const { at, bytes } = directory.regions[name]!;
  return { name, offset: at, length: bytes, generation: 0 };
}

export function objectAt(
  directory: ScmDirectory,
  range: { readonly offset: number; readonly length: number },
): ScmObject | undefined {
  const { entries, pending, regions } = directory;
  const end = range.offset + range.length;
  const holds = (each: Span) => each.offset <= range.offset && end <= each.offset + each.length;
  for (const entry of [...entries.values(), ...pending]) if (holds(entry)) return entry;
  const named = Object.keys(regions).flatMap((name) => findObject(directory, name) ?? []);
  return named.find(holds);
}

function isRing({ name }: { readonly name: string }): boolean {
  return name.startsWith(RING_PREFIX);
}

export function listObjects(directory: ScmDirectory): ScmObject[] {
  const objects = [...directory.entries.values()].filter((entry) => !isRing(entry));
  return objects.sort((x, y) => x.name < y.name ? -1 : 1);
}

export function ringObjects(directory: ScmDirectory): ScmObject[] {
  return [...directory.entries.values()].filter(isRing);
}

function nameIn(object: { readonly name: string; readonly isRing?: true }): string | undefined {
  if (object.isRing !== true && isRing(object)) return undefined;
  const name = object.isRing ? RING_PREFIX + object.name : object.name;
  const bytes = new TextEncoder().encode(name).length;
  return bytes === 0 || bytes > NAME_BYTES_MAX ? undefined : name;
}

function freeSlot({ taken, place }: ScmDirectory): number | undefined {
  let slot = 0;
  while (taken[slot]) slot++;
  return place === undefined || slot >= ENTRIES_MAX ? undefined : slot;
}

/** The state is one word; it is persistent when this returns. */
function* changeState(
  cpu: Cpu,
  directory: ScmDirectory,
  { entry, state }: { readonly entry: Entry; readonly state: EntryState },
): Steps<void> {
  entry.state = state;
  yield* cpu.ntStore(entryAddress(directory, entry.slot), encodeEntry(entry).slice(0, 8));
}

/** Frees slot and space: one word makes the CRC wrong. */
function* clearEntry(cpu: Cpu, directory: ScmDirectory, entry: Entry): Steps<void> {
  if (cpu.auditing) cpu.note({ kind: "freed", at: entry.offset, length: entry.length });
  // Never zeros, which would end the search at boot.
  const cleared = encodeEntry(entry).slice(0, 8);
  cleared[0]! ^= 1;
  yield* cpu.ntStore(entryAddress(directory, entry.slot), cleared);
  directory.taken[entry.slot] = false;
}

/**
 * Written in place: the old one where the length is equal, else a new one. Persistent when this returns.
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
  const name = nameIn(object);
  if (name === undefined) return undefined;
  const old = directory.entries.get(name);
  if (old !== undefined && old.length === length) {
    if (old.state !== "complete") {
      yield* changeState(cpu, directory, { entry: old, state: "complete" });
    }
    return old;
  }
  const slot = freeSlot(directory), offset = findSpace(directory, object);
  if (slot === undefined || offset === undefined) return undefined;
  const entry = addEntry(directory, { name, offset, length, slot, state: "complete" });
  directory.entries.set(name, entry);
  if (old !== undefined && keeps > 0) {
    const { address } = directory.scm;
    const kept = cpu.load(address + old.offset, Math.min(keeps, old.length, length));
    yield* cpu.ntStore(address + offset, kept);
  }
  yield* cpu.ntStore(entryAddress(directory, slot), encodeEntry(entry));
  if (old !== undefined) yield* clearEntry(cpu, directory, old);
  return entry;
}

/** Takes the slot before time passes, as another request may arrive meanwhile. */
function addEntry(directory: ScmDirectory, entry: Omit<Entry, "generation">): Entry {
  directory.generation++;
  directory.taken[entry.slot] = true;
  return { ...entry, generation: directory.generation };
}

export interface Replacement {
  readonly name: string;
  readonly length: number;
  /** Ranges that requesters have opened, with or without an object. */
  readonly inUse: readonly Span[];
}

/**
 * A region's object has one place: there an incomplete object replaces the old one at once. Persistent when this
 * returns. @returns undefined where there is no room, or the name is empty, too long or reserved.
 */
export function* reserveReplacement(
  cpu: Cpu,
  directory: ScmDirectory,
  object: Replacement,
): Steps<Entry | undefined> {
  const { length } = object;
  const name = nameIn(object);
  const slot = freeSlot(directory), offset = findSpace(directory, object, object.inUse);
  if (name === undefined || slot === undefined || offset === undefined) return undefined;
  const isFixed = Object.hasOwn(directory.regions, name);
  const state = isFixed ? "incomplete" : "pending";
  const entry = addEntry(directory, { name, offset, length, slot, state });
  const old = isFixed ? directory.entries.get(name) : undefined;
  if (isFixed) directory.entries.set(name, entry);
  else directory.pending.add(entry);
  yield* cpu.ntStore(entryAddress(directory, slot), encodeEntry(entry));
  if (old !== undefined) yield* clearEntry(cpu, directory, old);
  return entry;
}

export function hasRoomWithout(
  directory: ScmDirectory,
  old: ScmObject,
  object: Replacement,
): boolean {
  if (nameIn(object) === undefined) return false;
  const entries = new Map(directory.entries);
  entries.delete(old.name);
  const inUse = object.inUse.filter((span) =>
    span.offset + span.length <= old.offset || old.offset + old.length <= span.offset
  );
  return findSpace({ ...directory, entries }, object, inUse) !== undefined;
}

export function* publishReplacement(
  cpu: Cpu,
  directory: ScmDirectory,
  { entry, state }: { readonly entry: Entry; readonly state: "complete" | "incomplete" },
): Steps<void> {
  const old = directory.entries.get(entry.name);
  directory.pending.delete(entry);
  directory.entries.set(entry.name, entry);
  yield* changeState(cpu, directory, { entry, state });
  if (old !== undefined && old !== entry) yield* clearEntry(cpu, directory, old);
}

export function* abandonReplacement(
  cpu: Cpu,
  directory: ScmDirectory,
  entry: Entry,
): Steps<void> {
  if (!directory.pending.delete(entry)) return;
  if (!directory.entries.has(entry.name)) {
    directory.entries.set(entry.name, entry);
    return yield* changeState(cpu, directory, { entry, state: "incomplete" });
  }
  yield* clearEntry(cpu, directory, entry);
}

/** The object's space is free when this returns. */
export function* withdrawObject(
  cpu: Cpu,
  directory: ScmDirectory,
  name: string,
): Steps<void> {
  const entry = directory.entries.get(name);
  if (entry === undefined) return;
  directory.entries.delete(name);
  yield* clearEntry(cpu, directory, entry);
}
