/**
 * Q-04, enforced on every write to queue information, by cores and the device. Places, and holders
 * of locks of space 2, are learnt from granted commands. An access that breaks a rule writes
 * nothing.
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
  #from = 0;
  #end = 0;
  /** The program that may store into space 2, until the RNIC takes the lock back. */
  readonly #holders = new Map<number, { readonly program: string; readonly until: Time }>();
  /** Requests for locks, by the address of the answer. */
  readonly #asked = new Map<number, { readonly program: string; readonly queue: number }>();
  /** Commands whose reply is missing and will change guarded ranges or locks. */
  readonly #sent = new Map<number, { readonly program: string; readonly command: RnicCommand }>();

  constructor(store: StoreLayout) {
    this.#store = store;
  }

  /** A program releases its lock, or names the place of the answer. */
  sends(command: RnicCommand, program: string): void {
    if (command.op === "unlock-space2") this.#holders.delete(command.queue);
    if (command.op !== "lock-space2" || command.answerAt === undefined) return;
    this.#asked.set(command.answerAt, { program, queue: command.queue });
  }

  sent(id: number, command: RnicCommand, program: string): void {
    const { op } = command;
    if (op === "init" || op === "lock-space2") this.#sent.set(id, { program, command });
  }

  /** The reply takes effect on arrival, not when its program resumes. */
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

  disconnected(): void {
    this.#sent.clear();
  }

  holds(address: number): boolean {
    if (!this.mayTouch(address, 1)) return false;
    return this.#ranges.some(({ from, end }) => address >= from && address < end);
  }

  mayTouch(address: number, length: number): boolean {
    return address < this.#end && address + length > this.#from;
  }

  /**
   * The place includes the time behind the pointer. @returns undefined for an unknown queue.
   */
  pointerPlace(queue: number): { readonly address: number; readonly length: number } | undefined {
    if (queue >= this.#queues) return undefined;
    const address = fieldAddress(this.#store, this.#bases, { queue, field: "hostPointer" });
    const { hostPointer, stamp } = this.#store.offsets;
    return { address, length: stamp + fieldBytes("stamp") - hostPointer };
  }

  pointerIn(bytes: Uint8Array): StampedPointer {
    const { hostPointer, stamp } = this.#store.offsets;
    return {
      pointer: decodeField("hostPointer", bytes),
      stamp: decodeField("stamp", bytes.subarray(stamp - hostPointer)),
    };
  }

  /** @throws AddressFault where a rule forbids it. */
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
   * The device may write only a pointer of its own into space 3. A whole entry of space 1 or 2 ends
   * the queue's lock: the queue was destroyed or created, or the RNIC has taken the lock back.
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

  /** The lock is held once the answer is in memory. */
  #takeAnswer(address: number, data: Uint8Array): void {
    const asked = this.#asked.get(address);
    if (asked === undefined || data.length !== LOCK_ANSWER_BYTES) return;
    this.#asked.delete(address);
    const answer = decodeLockAnswer(data);
    const { program, queue } = asked;
    if (typeof answer === "object") this.#holders.set(queue, { program, until: answer.until });
  }

  parts(address: number, length: number): Generator<StorePart> {
    const store = { store: this.#store, bases: this.#bases, queues: this.#queues };
    return touchedParts(store, { address, length });
  }
}
