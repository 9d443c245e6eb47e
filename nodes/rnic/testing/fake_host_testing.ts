/**
 * The fake host of the RNICs' test rig (`rnic_testing.ts`): memory, a driver of a few lines for the
 * rings in it, and a record of what the RNIC told it.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { Time } from "../../../fabric/base/time.ts";
import { type Cqe, CQE_BYTES, decodeCqe } from "../../../fabric/wire/host_bus/cqe.ts";
import type { Completion, MemoryRead, PcieMessage } from "../../../fabric/wire/host_bus/pcie.ts";
import type { StampedPointer } from "../../../fabric/wire/host_bus/queue_information.ts";
import { DEFAULT_STORE } from "../../../fabric/wire/host_bus/default_store_testing.ts";
import {
  decodeField,
  encodeField,
  fieldAddress,
  fieldBytes,
  type QueueField,
  type QueueFields,
  type StoreLayout,
} from "../../../fabric/wire/host_bus/queue_placement.ts";
import type { RnicEvent, RnicReply } from "../../../fabric/wire/host_bus/rnic_command.ts";
import {
  encodeRecvWqe,
  encodeSendWqe,
  type Sge,
  WQE_UNIT_BYTES,
} from "../../../fabric/wire/host_bus/wqe.ts";
import type { RigCq, RigQp, RigWqe, Ring } from "./rig_parts_testing.ts";

export const MEMORY_BYTES = 1 << 22;
export const RECV_STRIDE = 64;
const PAGE_BYTES = 4096;
export const LINE_BYTES = 64;
/** Queues that the queue information has room for. */
const QUEUES = 256;

export class FakeHost {
  readonly memory: Uint8Array<ArrayBuffer>;
  readonly replies = new Map<number, RnicReply>();
  readonly events: RnicEvent[] = [];
  readonly interrupts: number[] = [];
  /**
   * DMA writes that no DMA read has pushed out yet, from the moment the RNIC hands them to the bus:
   * on the cable and in the IIO of flow 1.
   */
  buffered: { readonly address: number; readonly length: number }[] = [];
  /** Of these the ones that have arrived: a read pushes out no more. */
  arrived = 0;
  /** Told of each message when it has been taken. */
  hear: (message: PcieMessage) => void = () => {};
  /** Every DMA read and write in the order of arrival. */
  readonly log: PcieMessage[] = [];
  /** Lines of which the RNIC keeps copies. */
  readonly tracked = new Set<number>();
  /** Reads answered "unsupported request". */
  refuseReads = false;
  store: StoreLayout = DEFAULT_STORE;
  spaces = { queues: QUEUES, space1: 0, space2: 0, space3: 0 };
  nextCommand = 1;
  #top = PAGE_BYTES;

  constructor(memoryBytes: number) {
    this.memory = new Uint8Array(memoryBytes);
  }

  /** All memory that has been given out lies below. */
  get allocatedBytes(): number {
    return this.#top;
  }

  allocate(bytes: number): number {
    const at = this.#top;
    this.#top += Math.ceil(bytes / PAGE_BYTES) * PAGE_BYTES;
    assert(this.#top <= this.memory.length, "The fake host is out of memory");
    return at;
  }

  /** @param store where the RNIC's plan has the fields. */
  layOutSpaces(store: StoreLayout = DEFAULT_STORE): void {
    this.store = store;
    const { bytes, layout } = store;
    const [r1, r2, r3] = [bytes[1], bytes[2], bytes[3]];
    if (layout === "record") {
      const space1 = this.allocate(QUEUES * (r1 + r2 + r3));
      this.spaces = { queues: QUEUES, space1, space2: space1 + r1, space3: space1 + r1 + r2 };
      return;
    }
    this.spaces = {
      queues: QUEUES,
      space1: this.allocate(QUEUES * r1),
      space2: this.allocate(QUEUES * r2),
      space3: this.allocate(QUEUES * r3),
    };
  }

  /** A field of a queue's information, as memory has it. */
  field<F extends QueueField>(queue: number, field: F): QueueFields[F] {
    const at = fieldAddress(this.store, this.spaces, { queue, field });
    return decodeField(field, this.memory.subarray(at, at + fieldBytes(field)));
  }

  #storePointer(queue: number, { pointer, stamp }: StampedPointer): void {
    const put = (field: "hostPointer" | "stamp", value: number) =>
      this.memory.set(
        encodeField(field, value),
        fieldAddress(this.store, this.spaces, { queue, field }),
      );
    put("hostPointer", pointer);
    put("stamp", stamp);
  }

  /** Pages for `length` bytes from `va` on; `scattered` ones lie in reverse order. */
  allocatePages(
    of: { readonly va: number; readonly length: number; readonly scattered?: boolean },
  ): { readonly pageBytes: number; readonly pages: number[] } {
    const { va, length, scattered = false } = of;
    const count = Math.floor((va + length - 1) / PAGE_BYTES) - Math.floor(va / PAGE_BYTES) + 1;
    const address = this.allocate(count * PAGE_BYTES);
    const pages = Array.from(
      { length: count },
      (_, i) => address + PAGE_BYTES * (scattered ? count - 1 - i : i),
    );
    return { pageBytes: PAGE_BYTES, pages };
  }

  /** Writes a send WQE into the ring. @returns its position. */
  enqueueSend({ sq, qpn }: RigQp, wqe: RigWqe): number {
    const position = (sq.write + 1) % sq.depth;
    const bytes = encodeSendWqe({
      index: position,
      qpn,
      signaled: true,
      solicited: false,
      fence: false,
      immediate: 0,
      sges: [],
      ...wqe,
    });
    for (let at = 0; at < bytes.length; at += WQE_UNIT_BYTES) {
      sq.write = (sq.write + 1) % sq.depth;
      const unit = bytes.subarray(at, at + WQE_UNIT_BYTES);
      this.memory.set(unit, sq.address + sq.write * WQE_UNIT_BYTES);
    }
    return position;
  }

  /** Writes a receive WQE into the ring. @returns its position. */
  enqueueRecv({ rq }: RigQp, sges: readonly Sge[]): number {
    rq.write = (rq.write + 1) % rq.depth;
    this.memory.set(encodeRecvWqe(sges, RECV_STRIDE), rq.address + rq.write * RECV_STRIDE);
    return rq.write;
  }

  /** Tells by space 3 how far a ring is written, with a later stamp than before. */
  tellPointer(ring: Ring, now: Time): StampedPointer {
    ring.stamp = Math.max(now, ring.stamp + 1);
    const write = { pointer: ring.write, stamp: ring.stamp };
    this.#storePointer(ring.queue, write);
    return write;
  }

  /** Takes what has completed, and tells the RNIC by space 3. */
  takeCqes(cq: RigCq, now: Time): Cqe[] {
    const taken: Cqe[] = [];
    for (;;) {
      const at = cq.address + (cq.taken % cq.entries) * CQE_BYTES;
      const cqe = decodeCqe(this.memory.subarray(at, at + CQE_BYTES), cq.taken, cq.entries);
      if (cqe === undefined) break;
      taken.push(cqe);
      cq.taken++;
    }
    const pointer = cq.taken % cq.entries;
    this.#storePointer(cq.cqn, { pointer, stamp: now });
    return taken;
  }

  /** Takes what the RNIC sends. @returns the answer to a read. */
  take(message: PcieMessage): Completion | undefined {
    this.log.push(message);
    switch (message.kind) {
      case "memory-write":
        this.memory.set(message.data, message.address);
        this.arrived++;
        return undefined;
      case "memory-read":
        return this.#read(message);
      case "interrupt":
        this.interrupts.push(message.vector);
        return undefined;
      case "reply":
        this.replies.set(message.id, message.reply);
        return undefined;
      case "event":
        this.events.push(message.event);
    }
    return undefined;
  }

  /** P-03: the read completes behind all earlier writes, which are pushed out by it. */
  #read({ tag, address, length, tracked }: MemoryRead): Completion {
    if (tracked) this.tracked.add(address - address % LINE_BYTES);
    this.buffered.splice(0, this.arrived);
    this.arrived = 0;
    const refused = this.refuseReads || address + length > this.memory.length;
    const data = refused ? new Uint8Array(0) : this.memory.slice(address, address + length);
    const status = refused ? "unsupported-request" : "success";
    return { kind: "completion", tag, status, data };
  }
}
