/**
 * How the RNIC comes to know a queue: from its cache, else from the three spaces in host
 * memory by three reads at once; and how it learns of a newer host pointer from space 3 alone. What
 * waits for the answer is data, resumed by the node.
 */
import {
  decodeSpace1,
  decodeSpace2,
  decodeSpace3,
  encodeSpace1,
  filledUnits,
  type Space1,
  SPACE1_BYTES,
  type Space2,
  SPACE2_BYTES,
  SPACE3_BYTES,
  type StampedPointer,
} from "../../../fabric/wire/host_bus/queue_information.ts";
import type { Device } from "../state/device.ts";
import { dmaRead, dmaWrite } from "../dma/dma.ts";
import type { QueueEntry } from "../state/queue_cache.ts";
import type { QueueLoad, Waiter } from "../state/queues.ts";
import type { Continuation } from "../state/dma_state.ts";

/** Where a queue's entry of a space lies. */
export function spaceAddress(device: Device, queue: number, space: 1 | 2 | 3): number {
  const spaces = device.spaces!;
  switch (space) {
    case 1:
      return spaces.space1 + queue * SPACE1_BYTES;
    case 2:
      return spaces.space2 + queue * SPACE2_BYTES;
    case 3:
      return spaces.space3 + queue * SPACE3_BYTES;
  }
}

/** The cached entry at once, or undefined: then `waiter` goes on when it has been read. */
export function findQueue(device: Device, queue: number, waiter: Waiter): QueueEntry | undefined {
  const entry = device.cache.find(queue);
  if (entry !== undefined) {
    device.counters.cacheHits++;
    return entry;
  }
  device.counters.cacheMisses++;
  startLoad(device, { queue, known: undefined, waiter });
  return undefined;
}

/** Reads the host's pointer of a cached queue from space 3; `waiter` goes on afterwards. */
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
    const content = needsFreshPointer(waiter) ? running.late : running.waiters;
    content.push(waiter);
    return;
  }
  const load: QueueLoad = {
    queue,
    known,
    missing: 0,
    space1: undefined,
    space2: undefined,
    space3: undefined,
    failed: false,
    void: false,
    waiters: [waiter],
    late: [],
  };
  device.loads.set(queue, load);
  if (known === undefined) {
    readSpace(device, load, 1);
    readSpace(device, load, 2);
  } else {
    known.pins++;
  }
  readSpace(device, load, 3);
}

/** A doorbell without pointer, or a second look, came after a store that the read may have missed. */
function needsFreshPointer(waiter: Waiter): boolean {
  return waiter.kind === "doorbell"
    ? waiter.write === undefined
    : waiter.kind !== "send" && waiter.reread;
}

const SPACE_BYTES = { 1: SPACE1_BYTES, 2: SPACE2_BYTES, 3: SPACE3_BYTES } as const;

function readSpace(device: Device, load: QueueLoad, space: 1 | 2 | 3): void {
  load.missing++;
  device.counters.queueReads++;
  if (load.waiters[0]!.kind === "doorbell") device.counters.doorbellReads++;
  dmaRead(device, {
    address: spaceAddress(device, load.queue, space),
    length: SPACE_BYTES[space],
    continuation: { kind: "queue-space", load, space },
  });
}

/**
 * Takes what one read brought. When it was the last: caches the entry or updates its pointer.
 * @returns the finished look-up's entry, pinned for the waiters (call {@link finishLoad} after them),
 * or why there is none; undefined while reads are missing.
 */
export function takeSpace(
  device: Device,
  read: { readonly load: QueueLoad; readonly space: 1 | 2 | 3 },
  data: Uint8Array | undefined,
): QueueEntry | "no queue" | undefined {
  const { load, space } = read;
  load.missing--;
  if (data === undefined) load.failed = true;
  else if (space === 1) load.space1 = decodeSpace1(data);
  else if (space === 2) load.space2 = decodeSpace2(data);
  else load.space3 = decodeSpace3(data);
  if (load.missing > 0 || load.void) return undefined;
  device.loads.delete(load.queue);
  const entry = load.known ?? entryOf(device, load);
  if (entry === undefined) return "no queue";
  const owner = device.owners[load.queue];
  // The chip knows the state first; the state in memory may be older.
  if (owner !== undefined && "qp" in owner) entry.state = owner.qp.state;
  if (load.known === undefined) {
    entry.pins++;
    writeBack(device, device.cache.insert(entry, device.now));
  }
  const moved = device.moved.get(load.queue);
  if (moved !== undefined && entry.stamp < moved.stamp) {
    entry.host = moved.pointer;
    entry.stamp = moved.stamp;
  }
  if (load.space3 !== undefined) acceptPointer(entry, load.space3);
  return entry;
}

/** Lets go of the entry after its waiters have been resumed, and serves those that came late. */
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
  const { space1, space2 } = load;
  if (load.failed || space1 === undefined || space2 === undefined || !space1.valid) {
    return undefined;
  }
  const { depth, unitBytes } = space2;
  if (depth < 2 || unitBytes === 0 || unitBytes % UNIT_GRAIN_BYTES !== 0) return undefined;
  return createEntry(device, { queue: load.queue, ...space1, ...space2, recycled: true });
}

/** An entry as its queue's spaces 1 and 2 have it. */
export function createEntry(
  { now }: Device,
  { pointer, ...known }: Space1 & Space2 & Pick<QueueEntry, "queue" | "recycled">,
): QueueEntry {
  const { kind, depth } = known;
  // The host's pointer of a queue that it has not used; the stamp 0 is older than any.
  const host = kind === "cq" ? (pointer + 1) % depth : (pointer + depth - 1) % depth;
  const state = { pins: 0, dirty: false, cachedAt: now, place: 0 };
  return { ...known, own: pointer, host, stamp: 0, ...state };
}

/** takes the host's pointer over where it is newer than the cached one. */
export function acceptPointer(entry: QueueEntry, candidate: StampedPointer): boolean {
  // Stamp 0: the host has never written there.
  if (candidate.stamp === 0 || candidate.pointer >= entry.depth) return false;
  const newer = entry.kind === "cq"
    ? candidate.stamp > entry.stamp
    : isNewer(candidate, { pointer: entry.host, stamp: entry.stamp }, {
      read: entry.own,
      depth: entry.depth,
      recycled: entry.recycled,
    });
  if (newer) {
    entry.host = candidate.pointer;
    entry.stamp = candidate.stamp;
  }
  return newer;
}

/** Moves the RNIC's own pointer of a send or receive queue on by `units` taken. */
export function advanceRead(entry: QueueEntry, units: number): void {
  const next = entry.own + units;
  if (next >= entry.depth) entry.recycled = true;
  entry.own = next % entry.depth;
  entry.dirty = true;
}

/** an evicted queue's own pointer goes back to space 1. */
export function writeBack(device: Device, evicted: readonly QueueEntry[]): void {
  for (const entry of evicted) {
    device.counters.cacheEvictions++;
    if (entry.dirty) writeSpace1(device, entry);
  }
}

/** Writes the RNIC's space of a queue (Q-04: the host never does). */
export function writeSpace1(device: Device, entry: QueueEntry): void {
  const { wqeAddress, indexAddress, kind, state, valid, owner, own } = entry;
  entry.dirty = false;
  dmaWrite(device, {
    address: spaceAddress(device, entry.queue, 1),
    data: encodeSpace1({ wqeAddress, indexAddress, kind, state, valid, owner, pointer: own }),
  });
}

type Fetch = Extract<Continuation, { readonly units: number }>;

/** The queue that the fetched WQEs are for. */
type Owner<F = Fetch> = F extends Fetch ? Omit<F, "entry" | "units"> : never;

/** Reads the next units of a queue, at least one of which is filled; its entry stays until they come. */
export function fetchWqes(
  device: Device,
  entry: QueueEntry,
  fetch: { readonly unitBytes: number; readonly owner: Owner },
): void {
  const { own, host, depth, wqeAddress } = entry;
  const { unitBytes, owner } = fetch;
  const filled = filledUnits(own, host, depth);
  const units = Math.min(filled, device.timing.wqeFetchUnits, depth - own);
  entry.pins++;
  device.counters.wqeReads++;
  dmaRead(device, {
    address: wqeAddress + own * unitBytes,
    length: units * unitBytes,
    continuation: { ...owner, entry, units },
  });
}

/** What the rule must know of the queue. */
export interface RingView {
  /** The RNIC's read pointer. */
  readonly read: number;
  /** Units in the ring. */
  readonly depth: number;
  /** Whether a unit may have held two different WQEs already. */
  readonly recycled: boolean;
}

/**
 * Whether `candidate` (pointer 1: from a doorbell or from space 3) is newer than `cached` (pointer 2).
 * While no unit has been used twice the one farther from the read pointer is newer; from then on
 * distances mislead, and the one stored later is. (The claim's "earlier" is a slip: queues.md, Q-08.)
 */
export function isNewer(
  candidate: StampedPointer,
  cached: StampedPointer,
  ring: RingView,
): boolean {
  if (mayHaveWrapped(candidate.pointer, ring) || mayHaveWrapped(cached.pointer, ring)) {
    return candidate.stamp > cached.stamp;
  }
  return filledUnits(ring.read, candidate.pointer, ring.depth) >
    filledUnits(ring.read, cached.pointer, ring.depth);
}

/**
 * A pointer behind the read pointer is of the next pass or a stale one. The ring's last unit is also
 * what the pointer of a queue never used stands at.
 */
function mayHaveWrapped(pointer: number, { read, depth, recycled }: RingView): boolean {
  return recycled || pointer === depth - 1 || (pointer < read && pointer + 1 !== read);
}
