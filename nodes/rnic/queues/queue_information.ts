/**
 * How the RNIC gets the information of a queue: from its cache, else from the three spaces, by a read
 * of each at once or by one of the queue's record, depending on the layout; and a newer host pointer from space 3
 * alone. Waiters for the result are data, resumed by the node.
 *
 * The classic scheme is the baseline, as in the document's background: two words are stored for a pointer,
 * its address and the pointer, and a look-up takes a read of each, one behind the other. Its host stores the
 * pointer, then rings, and the doorbell has the queue's number only. The card looks up the pointer when a doorbell
 * finds nothing left to do by the one in its cache, and uses that one as long as there is work; a doorbell during a
 * look-up uses that look-up's result. Either pointer may be stale. No work is lost by it: when the work of the
 * stale pointer is taken, the card looks the pointer up again (`rung`).
 */
import {
  filledUnits,
  ringDistance,
  type StampedPointer,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeEntry,
  decodeField,
  encodeEntry,
  encodeField,
  entryAddress,
  fieldAddress,
  fieldBytes,
  type QueueField,
  type QueueFields,
  type Space,
  SPACES,
  storeRanges,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { Device } from "../state/device.ts";
import { isOnCard } from "../dma/card_memory.ts";
import { dmaRead, dmaWrite } from "../dma/dma.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { LookUpPart, QueueLoad, Waiter } from "../state/queues.ts";
import type { Continuation } from "../state/dma_state.ts";
import { traceCompared, traceKnown, traceLookUp, traceUnits } from "../trace/queue_trace.ts";

/** Address of a queue's entry in a space. */
export function spaceAddress({ store, spaces }: Device, queue: number, space: Space): number {
  return entryAddress(store, spaces!, { queue, space });
}

/**
 * whether memory that the RNIC is to write for others overlaps queue information, where each write has its
 * rule.
 */
export function coversQueueInformation(
  { store, spaces }: Device,
  memory: { readonly address: number; readonly length: number },
): boolean {
  const { queues, ...bases } = spaces!;
  const { address, length } = memory;
  return storeRanges(store, bases, queues).some(({ from, end }) =>
    address < end && address + length > from
  );
}

/** The cached entry at once, or undefined: then `waiter` resumes when it has been read. */
export function findQueue(device: Device, queue: number, waiter: Waiter): QueueEntry | undefined {
  const entry = device.cache.find(queue);
  if (entry?.pins === 0 && device.cache.isAbsent) {
    device.cache.remove(queue);
    writeBack(device, [entry]);
  } else if (entry !== undefined) {
    device.counters.cacheHits++;
    return entry;
  }
  device.counters.cacheMisses++;
  startLoad(device, { queue, known: undefined, waiter });
  return undefined;
}

/**
 * Whether a doorbell of a cached queue has to wait until the host's pointer is read: where it brings none. In the
 * classic scheme: where the cached pointer says that there is nothing to do.
 */
export function needsPointer(
  { scheme }: Device,
  entry: QueueEntry,
  doorbell: Pick<Extract<Waiter, { kind: "doorbell" }>, "write">,
): boolean {
  if (scheme === "three-space") return doorbell.write === undefined;
  if (filledUnits(entry.own, entry.host, entry.depth) === 0) return true;
  entry.rung = true;
  return false;
}

/** Reads the host's pointer of a cached queue from space 3; `waiter` resumes afterwards. */
export function rereadPointer(device: Device, entry: QueueEntry, waiter: Waiter): void {
  startLoad(device, { queue: entry.queue, known: entry, waiter });
}

function startLoad(
  device: Device,
  start: {
    readonly queue: number;
    readonly known: QueueEntry | undefined;
    readonly waiter: Waiter;
  },
): void {
  const { queue, known, waiter } = start;
  const running = device.loads.get(queue);
  if (running !== undefined) {
    const isClassic = device.scheme === "classic" && waiter.kind === "doorbell";
    if (isClassic) running.rung = true;
    const isLate = needsFreshPointer(waiter) && !isClassic;
    (isLate ? running.late : running.waiters).push(waiter);
    return;
  }
  const load: QueueLoad = {
    queue,
    known,
    since: device.now,
    missing: 0,
    found: {},
    failed: false,
    rung: false,
    void: false,
    waiters: [waiter],
    late: [],
  };
  device.loads.set(queue, load);
  const { store } = device;
  if (known !== undefined) {
    known.pins++;
    return readPart(device, load, device.scheme === "classic" ? "address" : 3);
  }
  if (store.layout === "record") return readPart(device, load, "record");
  for (const space of spacesOf(device)) if (store.bytes[space] > 0) readPart(device, load, space);
}

/** The spaces that hold a queue's information, except for a pointer that lies elsewhere. */
function spacesOf({ scheme }: Device): readonly Space[] {
  return scheme === "classic" ? [1, 2] : SPACES;
}

/** A doorbell without pointer, or a second look, came after a store that the read may have missed. */
function needsFreshPointer(waiter: Waiter): boolean {
  if (waiter.kind === "doorbell") return waiter.write === undefined;
  return waiter.kind !== "send" && waiter.kind !== "context" && waiter.reread;
}

function readPart(device: Device, load: QueueLoad, part: LookUpPart): void {
  load.missing++;
  // A read on the chip is no DMA read.
  if (!isOnCard(device)) {
    device.counters.queueReads++;
    const { kind } = load.waiters[0]!;
    // The look-up with which a send queue recovers was deferred at a doorbell.
    const isDoorbells = kind === "doorbell" || (kind === "send" && load.known !== undefined);
    if (isDoorbells) device.counters.doorbellReads++;
  }
  const range = rangeOf(device, load, part);
  if (device.out.tracing) traceLookUp(device, load, { part, ...range });
  dmaRead(device, { ...range, continuation: { kind: "queue-space", load, part } });
}

function rangeOf(
  device: Device,
  { queue, found }: QueueLoad,
  part: LookUpPart,
): { readonly address: number; readonly length: number } {
  const { store } = device;
  switch (part) {
    case "record": {
      const length = spacesOf(device).reduce((sum, space) => sum + store.bytes[space], 0);
      // The record begins with its part of space 1.
      return { address: spaceAddress(device, queue, 1), length };
    }
    case "address": {
      const address = fieldAddress(store, device.spaces!, { queue, field: "indexAddress" });
      return { address, length: fieldBytes("indexAddress") };
    }
    case "pointer":
      return { address: found.indexAddress!, length: store.bytes[3] };
    default:
      return { address: spaceAddress(device, queue, part), length: store.bytes[part] };
  }
}

/** the address is known, the pointer is not. */
function readsPointer({ scheme }: Device, load: QueueLoad, part: LookUpPart): boolean {
  if (scheme === "three-space" || part === "pointer" || load.failed) return false;
  return load.known !== undefined || load.found.valid === true;
}

/**
 * Takes the result of one read. When it was the last: caches the entry or updates its pointer.
 * @returns the finished look-up's entry, pinned for the waiters (call {@link finishLoad} after them), or why there
 * is none; undefined while reads are missing.
 */
export function takeSpace(
  device: Device,
  read: { readonly load: QueueLoad; readonly part: LookUpPart },
  data: Uint8Array | undefined,
): QueueEntry | "no queue" | undefined {
  const { load, part } = read;
  load.missing--;
  if (data === undefined) load.failed = true;
  else takePart(device, { load, part }, data);
  if (load.missing > 0 || load.void) return undefined;
  if (readsPointer(device, load, part)) {
    load.rung = false;
    if (load.known !== undefined) load.known.rung = false;
    readPart(device, load, "pointer");
    return undefined;
  }
  device.loads.delete(load.queue);
  const entry = load.known ?? entryOf(device, load);
  if (entry === undefined) {
    if (device.out.tracing) traceKnown(device, load, { entry, evicted: [] });
    return "no queue";
  }
  if (load.rung) entry.rung = true;
  const owner = device.owners[load.queue];
  // The chip knows the state first; the state in memory may be older.
  if (owner !== undefined && "qp" in owner) entry.state = owner.qp.state;
  let evicted: readonly QueueEntry[] = [];
  if (load.known === undefined) {
    entry.pins++;
    evicted = device.cache.insert(entry, device.now);
    writeBack(device, evicted);
  }
  if (device.out.tracing) traceKnown(device, load, { entry, evicted });
  const moved = device.moved.get(load.queue);
  if (moved !== undefined && entry.stamp < moved.stamp) {
    entry.host = moved.pointer;
    entry.stamp = moved.stamp;
  }
  const { hostPointer: pointer, stamp } = load.found;
  if (pointer !== undefined && stamp !== undefined) {
    takePointer(device, entry, { pointer, stamp }, "memory");
  }
  return entry;
}

function takePart(
  device: Device,
  { load, part }: { readonly load: QueueLoad; readonly part: LookUpPart },
  data: Uint8Array,
): void {
  const { store } = device;
  if (part === "address") {
    load.found.indexAddress = decodeField("indexAddress", data);
    return;
  }
  if (part !== "record") {
    return void Object.assign(load.found, decodeEntry(store, part === "pointer" ? 3 : part, data));
  }
  let at = 0;
  for (const space of spacesOf(device)) {
    const entry = data.subarray(at, at += store.bytes[space]);
    Object.assign(load.found, decodeEntry(store, space, entry));
  }
}

/** Unpins the entry after its waiters have been resumed, and serves those that came late. */
export function finishLoad(device: Device, load: QueueLoad, entry: QueueEntry): void {
  entry.pins--;
  const [first, ...others] = load.late;
  if (first === undefined) return;
  rereadPointer(device, entry, first);
  device.loads.get(load.queue)!.waiters.push(...others);
}

/** WQEs and CQEs of every queue are made of segments of so many bytes (`rocev2.md` §5). */
const UNIT_GRAIN_BYTES = 16;

function entryOf(device: Device, load: QueueLoad): QueueEntry | undefined {
  if (load.failed || !load.found.valid) return undefined;
  // All parts have been read.
  const { hostPointer: _, stamp: __, ...found } = load.found as QueueFields;
  const { depth, unitBytes } = found;
  if (depth < 2 || unitBytes === 0 || unitBytes % UNIT_GRAIN_BYTES !== 0) return undefined;
  return createEntry(device, { queue: load.queue, ...found, recycled: true });
}

/** An entry from the RNIC's own fields. */
export function createEntry(
  { now }: Device,
  { rnicPointer: pointer, ...known }:
    & Omit<QueueFields, "hostPointer" | "stamp">
    & Pick<QueueEntry, "queue" | "recycled">,
): QueueEntry {
  const { kind, depth } = known;
  // The host's pointer of a queue that it has not used; the stamp 0 is older than any.
  const host = kind === "cq" ? (pointer + 1) % depth : (pointer + depth - 1) % depth;
  const state = { pins: 0, rung: false, dirty: false, told: pointer, cachedAt: now, place: 0 };
  return { ...known, own: pointer, host, stamp: 0, ...state };
}

/** takes over the host's pointer if it is newer than the cached one. */
function acceptPointer(entry: QueueEntry, candidate: StampedPointer): boolean {
  // Stamp 0: the host has never written there.
  if (candidate.stamp === 0 || candidate.pointer >= entry.depth) return false;
  const newer = entry.kind === "cq"
    ? candidate.stamp > entry.stamp
    : isNewer(candidate, { pointer: entry.host, stamp: entry.stamp }, ringOf(entry));
  if (newer) {
    entry.host = candidate.pointer;
    entry.stamp = candidate.stamp;
  }
  return newer;
}

/** {@link acceptPointer} of the pointer of a doorbell or a look-up, with its trace. */
export function takePointer(
  device: Device,
  entry: QueueEntry,
  candidate: StampedPointer,
  from: "doorbell" | "memory",
): void {
  if (!device.out.tracing || entry.kind === "cq") {
    acceptPointer(entry, candidate);
    return;
  }
  const before = { pointer: entry.host, stamp: entry.stamp };
  const by = ruleFor(candidate, before, ringOf(entry));
  const isNewer = acceptPointer(entry, candidate);
  traceCompared(device, entry.queue, { candidate, from, before, by, isNewer });
}

function ringOf({ own, depth, recycled }: QueueEntry): RingView {
  return { read: own, depth, recycled };
}

/** Moves the RNIC's own pointer of a send or receive queue on by `units` taken. */
export function advanceRead(device: Device, entry: QueueEntry, units: number): void {
  const next = entry.own + units;
  if (next >= entry.depth) entry.recycled = true;
  entry.own = next % entry.depth;
  entry.dirty = true;
  tellPointer(device, entry);
}

/**
 * writes the RNIC's own pointer where the host reads it, as real devices do: not for each unit, but when a
 * quarter of the ring has passed since, and when a send or receive queue has become empty, as nothing may follow.
 * It leaves before any completion of the taken units, so that a host that has seen one knows the pointer to be less
 * than a quarter behind it.
 */
export function tellPointer(device: Device, entry: QueueEntry): void {
  if (device.readPointer === "at-eviction" || entry.own === entry.told) return;
  const { own, host, told, depth, kind } = entry;
  const isEmpty = kind !== "cq" && filledUnits(own, host, depth) === 0;
  if (!isEmpty && ringDistance(told, own, depth) < depth / 4) return;
  device.counters.pointerWrites++;
  writePointer(device, entry);
}

/** Q-07: writes evicted queues' own pointers back to memory. */
export function writeBack(device: Device, evicted: readonly QueueEntry[]): void {
  for (const entry of evicted) {
    if (!device.cache.isAbsent) device.counters.cacheEvictions++;
    if (!entry.dirty) continue;
    if (device.store.placement.rnicPointer === 1) writeSpace1(device, entry);
    else writePointer(device, entry);
  }
}

/** Writes the RNIC's fields of a queue (Q-04: the host never does). */
export function writeSpace1(device: Device, entry: QueueEntry): void {
  const { store } = device;
  dmaWrite(device, {
    address: spaceAddress(device, entry.queue, 1),
    data: encodeEntry(store, 1, { ...entry, rnicPointer: entry.own }),
  });
  if (store.placement.rnicPointer !== 1) return writePointer(device, entry);
  entry.dirty = false;
  entry.told = entry.own;
}

/** Writes the RNIC's own pointer alone: the one word of space 3 that it may write. */
function writePointer(device: Device, entry: QueueEntry): void {
  entry.dirty = false;
  entry.told = entry.own;
  writeField(device, entry.queue, { field: "rnicPointer", value: entry.own });
}

/** Writes one field, as the others may be newer in memory than on the chip. */
export function writeField<F extends QueueField>(
  device: Device,
  queue: number,
  { field, value }: { readonly field: F; readonly value: QueueFields[F] },
): void {
  dmaWrite(device, {
    address: fieldAddress(device.store, device.spaces!, { queue, field }),
    data: encodeField(field, value),
  });
}

type Fetch = Extract<Continuation, { readonly units: number }>;

type Owner<F = Fetch> = F extends Fetch ? Omit<F, "entry" | "units"> : never;

/**
 * Reads the next units of a queue, at least one of which is filled; its entry stays until they come.
 * @param fetch with `units` where more than the card's number are wanted at once.
 */
export function fetchWqes(
  device: Device,
  entry: QueueEntry,
  fetch: { readonly unitBytes: number; readonly owner: Owner; readonly units?: number | undefined },
): void {
  const { own, host, depth, wqeAddress } = entry;
  const { unitBytes, owner } = fetch;
  const filled = filledUnits(own, host, depth);
  const { wqeFetchUnits } = device.timing;
  const units = Math.min(filled, Math.max(wqeFetchUnits, fetch.units ?? 0), depth - own);
  entry.pins++;
  device.counters.wqeReads++;
  if (device.out.tracing) {
    traceUnits(device, entry.queue, { step: "wqe-read", from: own, to: own + units });
  }
  dmaRead(device, {
    address: wqeAddress + own * unitBytes,
    length: units * unitBytes,
    continuation: { ...owner, entry, units },
  });
}

/** The ring, as far as the rule needs it. */
export interface RingView {
  readonly read: number;
  readonly depth: number;
  /** Whether a unit may have held two different WQEs already. */
  readonly recycled: boolean;
}

/**
 * Whether `candidate` (pointer 1: from a doorbell or from space 3) is newer than `cached` (pointer 2). While no
 * unit has been used twice the one farther from the read pointer is newer; from then on distances mislead, and the
 * one stored later is. (The claim's "earlier" is a slip: queues.md, Q-08.)
 */
export function isNewer(
  candidate: StampedPointer,
  cached: StampedPointer,
  ring: RingView,
): boolean {
  if (ruleFor(candidate, cached, ring) === "time") return candidate.stamp > cached.stamp;
  return filledUnits(ring.read, candidate.pointer, ring.depth) >
    filledUnits(ring.read, cached.pointer, ring.depth);
}

/** the criterion by which two pointers are compared. */
function ruleFor(
  candidate: StampedPointer,
  cached: StampedPointer,
  ring: RingView,
): "distance" | "time" {
  const wraps = mayHaveWrapped(candidate.pointer, ring) || mayHaveWrapped(cached.pointer, ring);
  return wraps ? "time" : "distance";
}

/**
 * A pointer behind the read pointer is of the next pass, or stale. The pointer of a never used queue also stands at
 * the ring's last unit.
 */
function mayHaveWrapped(pointer: number, { read, depth, recycled }: RingView): boolean {
  return recycled || pointer === depth - 1 || (pointer < read && pointer + 1 !== read);
}
