/**
 * Receive buffers for pending messages. In SCM (`receive: scm`) the data of a SEND survives a power
 * failure in its buffer, so a requester can rely on it before any CPU has processed it. Each
 * requester's buffers are an area, which the directory lists as an object that requesters
 * cannot open:
 *
 *   0    word: epoch u32, applied u32; written atomically
 *   64   slots, each a multiple of a cache line
 *
 * Each use of the area by a requester is an epoch. `applied` is the last pending message persistently
 * stored at its destination; it is written before the message's slot is posted again. So the slots
 * contain, complete or not, all later messages: {@link replay} stores the complete ones up to the
 * first that is missing. In DRAM there is no word, and no guarantee.
 */
import { LINE_BYTES } from "../../../../fabric/base/cache_line.ts";
import type { Cpu, Steps } from "../../cpu/program.ts";
import {
  decodeMessage,
  decodePendingMessage,
  PENDING_MESSAGE_BYTES,
  type PendingMessage,
} from "./persist_protocol.ts";
import { createObject, objectAt, ringObjects, type ScmDirectory } from "./scm_directory.ts";
import type { Buffer } from "../../memory/address_map.ts";

/** Slots share no line with the word. */
const SLOTS_AT = 64;

export interface RecvRing {
  readonly word: number | undefined;
  readonly first: number;
  readonly slots: number;
  readonly slotBytes: number;
  epoch: number;
  applied: number;
}

interface Sizes {
  readonly slots: number;
  readonly slotBytes: number;
}

/** `persistd`'s copy option decides on the kind of stores, so that tests cover both. */
export interface Storing {
  readonly cpu: Cpu;
  readonly directory: ScmDirectory;
  /** The bytes are persistent when it returns. */
  readonly store: (va: number, bytes: Uint8Array) => Steps<void>;
}

export function slotBytesFor(bytes: number): number {
  return Math.ceil(bytes / LINE_BYTES) * LINE_BYTES;
}

/** @returns undefined where SCM or its directory is full. */
export function* createRing(
  cpu: Cpu,
  directory: ScmDirectory,
  { slots, slotBytes }: Sizes,
): Steps<RecvRing | undefined> {
  const name = `${ringObjects(directory).length}/${slotBytes}`;
  const length = SLOTS_AT + slots * slotBytes;
  const area = yield* createObject(cpu, directory, { name, length, isRing: true });
  return area && ringAt(cpu, { offset: area.offset, slots, slotBytes });
}

export function findRings(cpu: Cpu, directory: ScmDirectory): RecvRing[] {
  return ringObjects(directory).flatMap(({ name, offset, length }) => {
    const slotBytes = Number(name.split("/").at(-1));
    if (!(slotBytes >= LINE_BYTES)) return [];
    const slots = Math.floor((length - SLOTS_AT) / slotBytes);
    return [ringAt(cpu, { offset, slots, slotBytes })];
  });
}

function ringAt(cpu: Cpu, place: Sizes & { readonly offset: number }): RecvRing {
  const { offset, slots, slotBytes } = place;
  const at = cpu.scm.address + offset;
  const bytes = cpu.load(at, 8);
  const word = new DataView(bytes.buffer, bytes.byteOffset, 8);
  const epoch = word.getUint32(0), applied = word.getUint32(4);
  return { word: at, first: at + SLOTS_AT, slots, slotBytes, epoch, applied };
}

export function areaOf(ring: RecvRing): { readonly address: number; readonly length: number } {
  const { first, slots, slotBytes, word = first } = ring;
  return { address: word, length: first - word + slots * slotBytes };
}

export function ringInDram(buffer: Buffer, sizes: Sizes): RecvRing {
  return { word: undefined, first: buffer.address, ...sizes, epoch: 0, applied: 0 };
}

export function* beginEpoch(cpu: Cpu, ring: RecvRing): Steps<void> {
  ring.epoch = (ring.epoch + 1) >>> 0;
  yield* recordApplied(cpu, ring, 0);
}

export function* recordApplied(cpu: Cpu, ring: RecvRing, sequence: number): Steps<void> {
  ring.applied = sequence;
  if (ring.word === undefined) return;
  const word = new DataView(new ArrayBuffer(8));
  word.setUint32(0, ring.epoch);
  word.setUint32(4, sequence);
  yield* cpu.ntStore(ring.word, new Uint8Array(word.buffer));
}

/**
 * Slots by sequence number, not stored yet, complete or not. Several may have one number: an
 * incomplete message may combine the epoch of what has arrived with the sequence number of an
 * earlier use of the slot.
 */
function waiting(cpu: Cpu, ring: RecvRing): Map<number, number[]> {
  const found = new Map<number, number[]>();
  for (let slot = 0; slot < ring.slots; slot++) {
    const at = ring.first + slot * ring.slotBytes;
    const pending = decodeMessage(cpu.load(at, PENDING_MESSAGE_BYTES));
    if (pending?.type !== "deposit" || pending.epoch !== ring.epoch) continue;
    const { sequence } = pending;
    if (sequence > ring.applied) found.set(sequence, [...found.get(sequence) ?? [], at]);
  }
  return found;
}

function wholeOf(cpu: Cpu, { slotBytes }: RecvRing, slots: readonly number[]) {
  for (const at of slots) {
    const arrived = decodePendingMessage(cpu.load(at, slotBytes));
    if (arrived !== undefined) return arrived;
  }
  return undefined;
}

/**
 * Stores what has arrived, in the order of sending. After a power failure during the replay, the next life repeats it.
 * @returns the number of pending messages stored.
 */
export function* replay(storing: Storing, ring: RecvRing): Steps<number> {
  const { cpu } = storing;
  const found = waiting(cpu, ring);
  let count = 0;
  for (;;) {
    const sequence = ring.applied + 1;
    const arrived = wholeOf(cpu, ring, found.get(sequence) ?? []);
    if (arrived === undefined || arrived.pending.sequence !== sequence) break;
    yield* storePendingMessage(storing, arrived);
    yield* recordApplied(cpu, ring, sequence);
    count++;
  }
  yield* cpu.settle();
  return count;
}

/** Without effect where the object is gone. */
export function* storePendingMessage(
  { cpu, directory, store }: Storing,
  { pending, payload }: { readonly pending: PendingMessage; readonly payload: Uint8Array },
): Steps<void> {
  const { scmOffset, length, generation } = pending;
  const object = objectAt(directory, { offset: scmOffset, length });
  if (object === undefined || object.generation !== generation) return;
  yield* store(cpu.scm.address + scmOffset, payload);
}
