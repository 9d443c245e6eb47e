/**
 * Receive buffers into which pending messages come. In SCM (`receive: scm`) what a SEND brings in survives a power
 * failure where it lies, so a requester may rely on it before any CPU has looked at it. Each requester's
 * buffers are an area of their own, which the directory knows as an object that no requester can open:
 *
 *   0    word: epoch u32, applied u32; written as one
 *   64   slots, each a multiple of a cache line
 *
 * A use of the area by a requester is an epoch. `applied` is the last pending message that is stored where it
 * belongs, persistently: it is written before the pending message's slot is posted again. So behind it the slots
 * hold, in whatever state, all that came later: {@link replay} stores of them what is whole, up to the
 * first that is missing. In DRAM there is no word, and nothing to rely on.
 */
import type { Cpu, Steps } from "../../cpu/program.ts";
import { decodePendingMessage, PENDING_MESSAGE_BYTES } from "./pending_message.ts";
import { decodeMessage } from "./persist_protocol.ts";
import type { PendingMessage } from "./persist_tails.ts";
import { createObject, objectAt, ringObjects, type ScmDirectory } from "./scm_directory.ts";
import type { Buffer } from "../../memory/address_map.ts";

/** Where the slots begin; they share no line with the word. */
const SLOTS_AT = 64;
const LINE_BYTES = 64;

export interface RecvRing {
  /** Virtual addresses: of the word, where the buffers are in SCM, and of the first slot. */
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

/** What one stores pending messages with: `persistd`'s own way, so that both ways are tried. */
export interface Storing {
  readonly cpu: Cpu;
  readonly directory: ScmDirectory;
  /** Persistent when it returns. */
  readonly store: (va: number, bytes: Uint8Array) => Steps<void>;
}

/** Bytes of a slot with room for so many. */
export function slotBytesFor(bytes: number): number {
  return Math.ceil(bytes / LINE_BYTES) * LINE_BYTES;
}

/** A new area. @returns undefined where SCM or its directory is full. */
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

/** The areas that an earlier life has made. */
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

/** Where it lies, its word included. */
export function areaOf(ring: RecvRing): { readonly address: number; readonly length: number } {
  const { first, slots, slotBytes, word = first } = ring;
  return { address: word, length: first - word + slots * slotBytes };
}

/** Buffers that a power failure takes with it. */
export function ringInDram(buffer: Buffer, sizes: Sizes): RecvRing {
  return { word: undefined, first: buffer.address, ...sizes, epoch: 0, applied: 0 };
}

/** A requester begins to use the area: nothing that is in it counts any more. */
export function* beginEpoch(cpu: Cpu, ring: RecvRing): Steps<void> {
  ring.epoch = (ring.epoch + 1) >>> 0;
  yield* noteApplied(cpu, ring, 0);
}

/** All up to this pending message is stored where it belongs. */
export function* noteApplied(cpu: Cpu, ring: RecvRing, sequence: number): Steps<void> {
  ring.applied = sequence;
  if (ring.word === undefined) return;
  const word = new DataView(new ArrayBuffer(8));
  word.setUint32(0, ring.epoch);
  word.setUint32(4, sequence);
  yield* cpu.ntStore(ring.word, new Uint8Array(word.buffer));
}

/**
 * Slots of pending messages that are not stored yet, by their sequence; whether they are whole is not looked at.
 * Of one sequence there may be several: a pending message that is torn may have its epoch from what has arrived
 * and its sequence from an earlier use of the slot.
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

/** The first of these slots that holds a whole pending message. */
function wholeOf(cpu: Cpu, { slotBytes }: RecvRing, slots: readonly number[]) {
  for (const at of slots) {
    const arrived = decodePendingMessage(cpu.load(at, slotBytes));
    if (arrived !== undefined) return arrived;
  }
  return undefined;
}

/**
 * Stores what has arrived and is not where it belongs, in the order in which it was sent. Interrupted by
 * a power failure, it does the same again in the next life.
 * @returns how many pending messages it has stored.
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
    yield* noteApplied(cpu, ring, sequence);
    count++;
  }
  yield* cpu.settle();
  return count;
}

/** Stores a pending message where it belongs, if the object that it was meant for is still there. */
export function* storePendingMessage(
  { cpu, directory, store }: Storing,
  { pending, payload }: { readonly pending: PendingMessage; readonly payload: Uint8Array },
): Steps<void> {
  const { scmOffset, length, generation } = pending;
  const object = objectAt(directory, { offset: scmOffset, length });
  if (object === undefined || object.generation !== generation) return;
  yield* store(cpu.scm.address + scmOffset, payload);
}
