/**
 * Integrated I/O: posted writes between a card's bus and memory, and the bus's ordering rule (P-03). A write drains
 * piece by piece, into the LLC (flow 2) or the iMC (flow 1), where its bytes become visible, and persistent.
 *
 * A write's last piece is an event, others only where a program waits for their bytes; else they are processed lazily,
 * each with its own time, before any access ({@link Iio.catchUp}).
 *
 * Reads and interrupts must not pass earlier writes. Writes never wait for reads.
 */
import { assert } from "../../../fabric/base/assert.ts";
import type { Architecture, HostPlan } from "../../../fabric/rack/plan/plan.ts";
import { NEVER, type Time, transferTime } from "../../../fabric/base/time.ts";
import {
  type Completion,
  type EventMessage,
  type Interrupt,
  MAX_READ_REQUEST_BYTES,
  type MemoryRead,
  type MemoryWrite,
} from "../../../fabric/wire/host_bus/pcie.ts";
import { DRAM_PAGE_BYTES } from "./address_map.ts";
import { Fifo } from "../../../fabric/base/fifo.ts";
import type { Iommu } from "./iommu.ts";
import { LINE_BYTES } from "../../../fabric/base/cache_line.ts";
import type { MemorySystem } from "./memory_system.ts";
import { SCM_ATOMIC_BYTES } from "./scm.ts";
import { overlay } from "./sparse_bytes.ts";

/**
 * P-02. 1: past the LLC into the iMC. 2: into the LLC. Only the architecture `ddio+ns` evaluates
 * the packet's NS bit.
 */
export function flowOf(
  processor: { readonly architecture: Architecture; readonly ddio: boolean },
  noSnoop: boolean,
): 1 | 2 {
  if (!processor.ddio) return 1;
  return processor.architecture === "ddio+ns" && noSnoop ? 1 : 2;
}

export interface IioSink {
  visible(address: number, length: number): void;
  isWatched(address: number, length: number): boolean;
  written(write: MemoryWrite, flow: 1 | 2): void;
  complete(completion: Completion, read: MemoryRead): void;
  interrupt(vector: number): void;
  event(event: EventMessage["event"]): void;
  /** H-23: by the device, which has read there. */
  tracked(address: number): void;
  loaded(completion: Completion): void;
  refused(
    access: { readonly kind: string; readonly address: number; readonly length: number },
  ): void;
}

interface Write {
  readonly message: MemoryWrite;
  readonly arrival: Time;
}

interface Follower {
  readonly message: MemoryRead | Interrupt | EventMessage | Completion;
  readonly translationPs: Time | undefined;
  readonly after: number;
}

interface StartedRead {
  readonly message: MemoryRead;
  readonly refused: boolean;
  readonly at: Time;
}

export class Iio {
  reads = 0;
  readBytes = 0;
  writes = 0;
  writeBytes = 0;
  /** Accesses to unmapped addresses, which are dropped. */
  badWrites = 0;
  badReads = 0;
  bytesMax = 0;
  stalls = 0;
  stallPs = 0;
  /** Arrival of the write that has just left (see {@link IioSink.written}). */
  leftSince: Time = 0;
  readonly #plan: HostPlan;
  readonly #memory: MemorySystem;
  readonly #sink: IioSink;
  readonly #processingPs: Time;
  readonly #iommu: Iommu | undefined;
  readonly #stack: number;
  readonly #writes = new Fifo<Write>();
  readonly #followers = new Fifo<Follower>();
  readonly #started: StartedRead[] = [];
  #arrived = 0;
  #left = 0;
  #buffered = 0;
  /**
   * The first write's bytes that have left, and when its next and, at the earliest, its last piece
   * leaves.
   */
  #offset = 0;
  #drainAt: Time = NEVER;
  #lastAt: Time = NEVER;
  /** Flow 2: the next write waits until there is room for the lines that this one has driven out of the LLC. */
  #evictedRoomAt: Time = 0;

  constructor(
    plan: HostPlan,
    host: {
      memory: MemorySystem;
      sink: IioSink;
      processingPs: Time;
      iommu?: Iommu | undefined;
      stack?: number;
    },
  ) {
    const { iioDrainBytes, wpqLines } = plan.timing;
    assert(
      iioDrainBytes > 0 && iioDrainBytes % SCM_ATOMIC_BYTES === 0,
      `Pieces of ${iioDrainBytes} B would tear ${SCM_ATOMIC_BYTES} B words (P-41)`,
    );
    assert(
      wpqLines > Math.ceil(iioDrainBytes / LINE_BYTES),
      `A write pending queue of ${wpqLines} lines never has room for ${iioDrainBytes} B`,
    );
    this.#plan = plan;
    this.#memory = host.memory;
    this.#sink = host.sink;
    this.#processingPs = host.processingPs;
    this.#iommu = host.iommu;
    this.#stack = host.stack ?? 0;
  }

  isComing(frames: readonly number[]): boolean {
    if (this.#writes.length === 0) return false;
    const wanted = new Set(frames);
    return this.#writes.some(({ message: { address, data } }) => {
      for (let at = address - address % DRAM_PAGE_BYTES; at < address + data.length;) {
        if (wanted.has(at)) return true;
        at += DRAM_PAGE_BYTES;
      }
      return false;
    });
  }

  get nextAt(): Time {
    const read = this.#started[0], writeAt = this.#writeAt();
    return read === undefined ? writeAt : Math.min(writeAt, read.at);
  }

  /** When the next read is answered, as far as it has begun; NEVER without one. */
  get nextReadAt(): Time {
    return this.#started[0]?.at ?? NEVER;
  }

  /** {@link nextReadAt} of those that read there. */
  nextReadOf(isThere: (address: number, length: number) => boolean): Time {
    const read = this.#started.find(({ message: { address, length } }) => isThere(address, length));
    return read?.at ?? NEVER;
  }

  get nextDurableAt(): Time {
    return this.#drainAt;
  }

  /** When the next piece leaves without an event; NEVER where it is an event. */
  get nextLazyAt(): Time {
    return this.#drainAt < this.#lastAt ? this.#drainAt : NEVER;
  }

  #writeAt(): Time {
    if (this.#drainAt === this.#lastAt) return this.#lastAt;
    const { address, data } = this.#writes.peek()!.message;
    return this.#sink.isWatched(address, data.length) ? this.#drainAt : this.#lastAt;
  }

  /** P-05. */
  get bufferedBytes(): number {
    return this.#buffered;
  }

  /** Writes, messages behind them, and reads that have not ended. */
  get held(): { readonly writes: number; readonly followers: number; readonly reads: number } {
    return {
      writes: this.#writes.length,
      followers: this.#followers.length,
      reads: this.#started.length,
    };
  }

  /** Physical addresses, oldest first. */
  pending(): { offset: number; data: Uint8Array }[] {
    const pending: { offset: number; data: Uint8Array }[] = [];
    for (let number = this.#writes.first; number < this.#writes.end; number++) {
      const { address, data } = this.#writes.at(number)!.message;
      const left = pending.length === 0 ? this.#offset : 0;
      pending.push({ offset: address + left, data: data.subarray(left) });
    }
    return pending;
  }

  /** @returns false where it writes nothing: {@link IioSink.written} will not be called. */
  write(message: MemoryWrite, now: Time): boolean {
    const { length } = message.data;
    this.writes++;
    this.writeBytes += length;
    if (length === 0) return false;
    if (this.#memory.physical.memoryOf(message.address, length) === undefined) {
      this.badWrites++;
      return false;
    }
    const translationPs = this.#translate(message, length);
    if (translationPs === undefined) {
      this.badWrites++;
      return false;
    }
    this.#arrived++;
    this.#buffered += length;
    this.bytesMax = Math.max(this.bytesMax, this.#buffered);
    this.#writes.push({ message, arrival: now + translationPs });
    this.#memory.postedArrived(message.address, message.data, this.#stack);
    if (this.#writes.length === 1) this.#setDrain(this.#pieceAt(now));
    return true;
  }

  #translate({ kind, address }: MemoryWrite | MemoryRead, length: number): Time | undefined {
    if (this.#iommu === undefined) return 0;
    const translationPs = this.#iommu.translate(address, length, this.#stack);
    if (translationPs === undefined) this.#sink.refused({ kind, address, length });
    return translationPs;
  }

  /** The message proceeds behind every earlier write (P-03). */
  follow(message: MemoryRead | Interrupt | EventMessage | Completion, now: Time): void {
    // Translated on arrival: a page may be unmapped while the read waits.
    const translationPs = message.kind === "memory-read"
      ? this.#translate(message, message.length)
      : 0;
    const follower = { message, translationPs, after: this.#arrived };
    if (this.#left === this.#arrived) this.#proceed(follower, now);
    else this.#followers.push(follower);
  }

  /** A read of the coherent bus waits for no write: the card has waited for its own. */
  readLines(message: MemoryRead, now: Time): void {
    const translationPs = this.#translate(message, message.length);
    this.#proceed({ message, translationPs, after: 0 }, now);
  }

  run(now: Time): void {
    while (this.#drainAt <= now) {
      const { message } = this.#writes.peek()!;
      const offset = this.#offset, left = this.#left;
      if (!this.#drain(now)) continue;
      const end = this.#left > left ? message.data.length : this.#offset;
      this.#sink.visible(message.address + offset, end - offset);
      if (this.#offset === 0) this.#release(now);
    }
    while (this.#started.length > 0 && this.#started[0]!.at <= now) {
      this.#complete(this.#started.shift()!);
    }
  }

  /**
   * Drains pieces without an event whose time is before `before`; called before each access to
   * memory and to the durable record.
   */
  catchUp(before: Time): void {
    const end = Math.min(before, this.#lastAt);
    if (this.#drainAt >= end) return;
    const flow = flowOf(this.#plan, this.#writes.peek()!.message.noSnoop);
    if (flow === 2 && !this.#memory.durable.isLogged) return this.#fillCache(end);
    while (this.#drainAt < before && this.#drainAt < this.#lastAt) {
      // Flow 2 does not advance the controllers' time, like #fillCache: a log must not affect the
      // run.
      if (flow === 2) this.#memory.durable.now = this.#drainAt;
      else this.#memory.advance(this.#drainAt);
      this.#drain(this.#drainAt);
    }
  }

  /** {@link catchUp} for flow 2 without a log: a write's pieces drain at once, as none waits for room. */
  #fillCache(before: Time): void {
    const { message } = this.#writes.peek()!;
    const { iioDrainBytes, iioBitsPerSecond } = this.#plan.timing;
    const piecePs = transferTime(iioDrainBytes, iioBitsPerSecond);
    const later = Math.floor((before - 1 - this.#drainAt) / piecePs);
    const end = this.#offset + this.#pieceBytes(message) + later * iioDrainBytes;
    const bytes = message.data.subarray(this.#offset, end);
    const address = message.address + this.#offset;
    this.#memory.dmaWriteCache(address, bytes);
    this.#memory.postedLeft(address, bytes, this.#stack);
    this.#buffered -= bytes.length;
    this.#offset = end;
    this.#setDrain(this.#pieceAt(this.#drainAt + later * piecePs));
  }

  overlay(address: number, bytes: Uint8Array): void {
    const write = this.#writes.peek();
    if (write === undefined) return;
    const offset = write.message.address + this.#offset;
    overlay(bytes, address, [{ offset, data: write.message.data.subarray(this.#offset) }]);
  }

  /** The device is gone. Writes remain. */
  dropReads(): void {
    this.#started.length = 0;
    const kept: Follower[] = [];
    for (let next = this.#followers.shift(); next !== undefined; next = this.#followers.shift()) {
      const { kind } = next.message;
      if (kind === "interrupt" || kind === "event") kept.push(next);
    }
    for (const follower of kept) this.#followers.push(follower);
  }

  /** From the arrival of a write until the first of its bytes are visible, at the earliest. */
  leastPs({ address, data }: MemoryWrite): Time {
    const { iioPs, iioDrainBytes, iioBitsPerSecond } = this.#plan.timing;
    const bytes = Math.min(iioDrainBytes - address % iioDrainBytes, data.length);
    return iioPs + transferTime(bytes, iioBitsPerSecond);
  }

  #pieceAt(from: Time): Time {
    const { message, arrival } = this.#writes.peek()!;
    const { iioPs, iioBitsPerSecond } = this.#plan.timing;
    return Math.max(arrival + iioPs, from, this.#evictedRoomAt) +
      transferTime(this.#pieceBytes(message), iioBitsPerSecond);
  }

  /** Multiples of the drain size, so that no word is torn (P-41). */
  #pieceBytes(message: MemoryWrite): number {
    const { iioDrainBytes } = this.#plan.timing;
    const inPiece = (message.address + this.#offset) % iioDrainBytes;
    return Math.min(iioDrainBytes - inPiece, message.data.length - this.#offset);
  }

  #setDrain(at: Time): void {
    this.#drainAt = at;
    this.#lastAt = at;
    const write = this.#writes.peek();
    if (write === undefined) return;
    const { iioDrainBytes, iioBitsPerSecond } = this.#plan.timing;
    const rest = write.message.data.length - this.#offset - this.#pieceBytes(write.message);
    if (rest === 0) return;
    const whole = Math.floor(rest / iioDrainBytes), part = rest % iioDrainBytes;
    this.#lastAt += whole * transferTime(iioDrainBytes, iioBitsPerSecond) +
      transferTime(part, iioBitsPerSecond);
  }

  #drain(now: Time): boolean {
    const { message } = this.#writes.peek()!;
    const length = this.#pieceBytes(message);
    const address = message.address + this.#offset;
    const whole = length === message.data.length;
    const bytes = whole ? message.data : message.data.subarray(this.#offset, this.#offset + length);
    const flow = flowOf(this.#plan, message.noSnoop);
    if (flow === 2) {
      this.#memory.dmaWriteCache(address, bytes);
    } else {
      const freeAt = this.#memory.freeAt(address, length);
      if (freeAt > now) {
        this.stalls++;
        this.stallPs += freeAt - now;
        this.#setDrain(freeAt);
        return false;
      }
      this.#memory.writeThrough(address, bytes);
    }
    this.#memory.postedLeft(address, bytes, this.#stack);
    this.#offset += length;
    this.#buffered -= length;
    if (this.#offset === message.data.length) this.#leave(message, flow);
    this.#setDrain(this.#writes.peek() === undefined ? NEVER : this.#pieceAt(now));
    return true;
  }

  #leave(message: MemoryWrite, flow: 1 | 2): void {
    this.leftSince = this.#writes.peek()!.arrival;
    this.#writes.shift();
    this.#left++;
    this.#offset = 0;
    if (flow === 2) this.#evictedRoomAt = this.#memory.evictedRoomAt;
    this.#sink.written(message, flow);
  }

  #release(now: Time): void {
    for (;;) {
      const follower = this.#followers.peek();
      if (follower === undefined || follower.after > this.#left) return;
      this.#followers.shift();
      this.#proceed(follower, now);
    }
  }

  #proceed({ message, translationPs }: Follower, now: Time): void {
    if (message.kind === "interrupt") {
      this.#sink.interrupt(message.vector);
      return;
    }
    if (message.kind === "completion") return this.#sink.loaded(message);
    if (message.kind === "event") return this.#sink.event(message.event);
    this.reads++;
    this.readBytes += message.length;
    const { address, length, medium } = message;
    let from = now + (translationPs ?? 0);
    if (medium && this.#memory.physical.memoryOf(address, length) !== undefined) {
      from = Math.max(from, this.#memory.mediumAt(address, length));
    }
    const at = from + this.#readPs(message, from) - this.#processingPs;
    let place = this.#started.length;
    while (place > 0 && this.#started[place - 1]!.at > at) place--;
    this.#started.splice(place, 0, { message, at, refused: translationPs === undefined });
  }

  #readPs({ address, length, noSnoop }: MemoryRead, from: Time): Time {
    const { timing } = this.#plan;
    if (this.#memory.physical.memoryOf(address, length) === undefined) return timing.dmaReadLlcPs;
    const place = this.#memory.dmaReadPlace(address, this.#passesCache(noSnoop));
    const first = place === "llc"
      ? timing.dmaReadLlcPs
      : place === "dram"
      ? timing.dmaReadDramPs + this.#memory.dmaReadPluggedPs(address)
      : timing.dmaReadScmPs + this.#memory.scmWaitPs(address, length, from);
    const rest = Math.max(0, Math.min(length, MAX_READ_REQUEST_BYTES) - LINE_BYTES);
    return Math.max(first, this.#processingPs) + transferTime(rest, timing.dmaReadBitsPerSecond);
  }

  #passesCache(noSnoop: boolean): boolean {
    return noSnoop && this.#plan.architecture === "ddio+ns";
  }

  #complete({ message, refused }: StartedRead): void {
    const { tag, address, length, noSnoop, tracked } = message;
    if (refused || this.#memory.physical.memoryOf(address, length) === undefined) {
      this.badReads++;
      const status = "unsupported-request", data = new Uint8Array(0);
      return this.#sink.complete({ kind: "completion", tag, status, data }, message);
    }
    const data = this.#memory.dmaRead(address, { length, noSnoop: this.#passesCache(noSnoop) });
    if (tracked) this.#sink.tracked(address);
    this.#sink.complete({ kind: "completion", tag, status: "success", data }, message);
  }
}
