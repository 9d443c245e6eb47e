/**
 * The access rules of queue information, held where its memory is written: by cores and by the
 * device. The guard learns what is where, and who holds a lock of space 2, from the commands that the
 * RNIC has granted, by message or through a memory location. Nothing is written by an access that
 * breaks a rule.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { RnicCommand, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import type { StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import {
  decodeField,
  fieldAddress,
  fieldBytes,
  type SpaceBases,
  type StoreLayout,
  storeRanges,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import {
  breachText,
  type StorePart,
  touchedParts,
} from "../../../fabric/wire/host_bus/queue_rules.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { decodeLockAnswer, LOCK_ANSWER_BYTES } from "../../../fabric/wire/host_bus/lock_answer.ts";
import { AddressFault } from "./address_map.ts";

export class QueueGuard {
  readonly #store: StoreLayout;
  #bases: SpaceBases = { space1: 0, space2: 0, space3: 0 };
  #queues = 0;
  #ranges: ReturnType<typeof storeRanges> = [];
  /** All of queue information lies within these physical addresses. */
  #from = 0;
  #end = 0;
  /** The program that may store into a queue's space 2, until the RNIC takes the lock back. */
  readonly #holders = new Map<number, { readonly program: string; readonly until: Time }>();
  /** By the memory location of the answer: who has asked for which queue's lock. */
  readonly #asked = new Map<number, { readonly program: string; readonly queue: number }>();
  /** By their ids: commands that have no reply yet, of those whose reply changes what is guarded. */
  readonly #sent = new Map<number, { readonly program: string; readonly command: RnicCommand }>();

  constructor(store: StoreLayout) {
    this.#store = store;
  }

  /** A program is about to send a command: it releases its lock, or says where the answer goes. */
  sends(command: RnicCommand, program: string): void {
    if (command.op === "unlock-space2") this.#holders.delete(command.queue);
    if (command.op !== "lock-space2" || command.answerAt === undefined) return;
    this.#asked.set(command.answerAt, { program, queue: command.queue });
  }

  /** The command is on its way, under this id. */
  sent(id: number, command: RnicCommand, program: string): void {
    const { op } = command;
    if (op === "init" || op === "lock-space2") this.#sent.set(id, { program, command });
  }

  /** The RNIC's reply has arrived: it counts from now on, not from when its program resumes. */
  answered(id: number, reply: RnicReply): void {
    const sent = this.#sent.get(id);
    if (sent === undefined) return;
    this.#sent.delete(id);
    if (reply.status !== "ok") return;
    const { command, program } = sent;
    if (command.op === "init") {
      const { queues, ...bases } = command.spaces;
      const ranges = storeRanges(this.#store, bases, queues);
      this.#ranges = ranges;
      this.#bases = bases;
      this.#queues = queues;
      this.#from = Math.min(...ranges.map(({ from }) => from));
      this.#end = Math.max(...ranges.map(({ end }) => end));
      this.#holders.clear();
      this.#asked.clear();
    } else if (command.op === "lock-space2" && reply.op === "lock-space2") {
      this.#holders.set(command.queue, { program, until: reply.until });
    }
  }

  /** The RNIC is gone: no reply will come. */
  disconnected(): void {
    this.#sent.clear();
  }

  /** Whether queue information lies there: not what is between its spaces. */
  holds(address: number): boolean {
    if (!this.mayTouch(address, 1)) return false;
    return this.#ranges.some(({ from, end }) => address >= from && address < end);
  }

  /** Whether an access may touch queue information: few do. */
  mayTouch(address: number, length: number): boolean {
    return address < this.#end && address + length > this.#from;
  }

  /** Where a queue's newest pointer lies, and behind it its time; undefined of a queue that there is none of. */
  pointerPlace(queue: number): { readonly address: number; readonly length: number } | undefined {
    if (queue >= this.#queues) return undefined;
    const address = fieldAddress(this.#store, this.#bases, { queue, field: "hostPointer" });
    const { hostPointer, stamp } = this.#store.offsets;
    return { address, length: stamp + fieldBytes("stamp") - hostPointer };
  }

  /** The pointer in bytes of {@link pointerPlace}. */
  pointerIn(bytes: Uint8Array): StampedPointer {
    const { hostPointer, stamp } = this.#store.offsets;
    return {
      pointer: decodeField("hostPointer", bytes),
      stamp: decodeField("stamp", bytes.subarray(stamp - hostPointer)),
    };
  }

  /** A core is about to store for a program. @throws AddressFault where a rule forbids it. */
  checkStore(
    address: number,
    length: number,
    { program, now }: { readonly program: string; readonly now: Time },
  ): void {
    for (const { space, queue } of this.parts(address, length)) {
      if (space === 3) continue;
      const holder = this.#holders.get(queue);
      const isHeld = space === 2 && holder !== undefined && now < holder.until;
      if (isHeld && holder.program === program) continue;
      const breach = { address, length, space, queue, ...(isHeld && { holder: holder.program }) };
      throw new AddressFault(breachText(breach, program));
    }
  }

  /**
   * A write of the device has arrived: into space 3 it writes nothing, but for a pointer of its own. A
   * whole entry of space 1 or 2 ends the queue's lock: the queue is gone or made anew, or the RNIC has
   * taken the lock back.
   */
  checkDevice(address: number, data: Uint8Array): void {
    if (this.#asked.size > 0) this.#takeAnswer(address, data);
    const { length } = data;
    if (!this.mayTouch(address, length)) return;
    for (const { space, queue } of this.parts(address, length)) {
      if (space !== 3) {
        if (length >= this.#store.bytes[space]) this.#holders.delete(queue);
        continue;
      }
      const own = this.#store.placement.rnicPointer === 3 &&
        address === fieldAddress(this.#store, this.#bases, { queue, field: "rnicPointer" }) &&
        length === fieldBytes("rnicPointer");
      assert(own, `The RNIC writes ${length} B into space 3 of queue ${queue}, the host's`);
    }
  }

  /** The lock is the asker's from the moment at which the answer is in memory. */
  #takeAnswer(address: number, data: Uint8Array): void {
    const asked = this.#asked.get(address);
    if (asked === undefined || data.length !== LOCK_ANSWER_BYTES) return;
    this.#asked.delete(address);
    const answer = decodeLockAnswer(data);
    const { program, queue } = asked;
    if (typeof answer === "object") this.#holders.set(queue, { program, until: answer.until });
  }

  /** The entries that a range touches. */
  parts(address: number, length: number): Generator<StorePart> {
    const store = { store: this.#store, bases: this.#bases, queues: this.#queues };
    return touchedParts(store, { address, length });
  }
}
